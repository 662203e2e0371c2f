"""What counts against a quota, who is judged in what, and when a charge is no longer needed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.model.quotas.reservation_ledger import Charge, ReservationLedger
from tests.support.cost import measured
from tests.support.refusals import BEYOND_SUM
from webhook.reservations.quota_standing import standing
from webhook.reservations.quota_usage import NamespaceUse, counts, risen, settled

OURS = frozenset({"muster-scheduler", "batch"})
CPU = frozenset({"cpu", "pods"})


def quota(namespace: str = "a", used: dict[str, Any] | None = None, **spec: Any) -> ElasticQuota:
    meta = {"name": "eq", "namespace": namespace, "uid": namespace}
    return parse_elastic_quota({"metadata": meta, "spec": spec, "status": {"used": used or {}}})


def use(uid: str, cpu: int = 1, node: str = "n1", scheduler: str = "muster-scheduler", **more: Any) -> PodUse:
    usage = more.pop("usage", {"cpu": cpu * 1000, "pods": 1})
    phase, version = more.pop("phase", "Running"), more.pop("version", "5")
    return PodUse("a", uid, uid, version, "", usage, False, phase, 0.0, node, scheduler, **more)


def charge(uid: str, cpu: int = 1, **usage: int) -> Charge:
    return Charge(uid, uid, "", {"cpu": cpu * 1000, "pods": 1, **usage})


def tally(
    *pods: PodUse, charges: tuple[Charge, ...] = (), quotas: tuple[ElasticQuota, ...] = (), **most: Any
) -> NamespaceUse:
    found = standing("a", quotas or (quota(max=most or {"cpu": 4}),))
    return NamespaceUse(found, {pod.uid: pod for pod in pods}, charges, OURS)


COUNTED = [
    ("on a node", use("p"), True),
    ("waiting for one of our schedulers", use("p", node=""), False),
    ("waiting for another profile of ours", use("p", node="", scheduler="batch"), False),
    ("waiting for another scheduler", use("p", node="", scheduler="volcano"), True),
    ("waiting for the cluster's own scheduler", use("p", node="", scheduler="default-scheduler"), True),
    ("marked by an earlier configuration", use("p", node="", charged=True), True),
    ("finished", use("p", phase="Succeeded"), False),
    ("finished and marked", use("p", phase="Failed", charged=True), False),
]


@pytest.mark.parametrize(("pod", "counted"), [c[1:] for c in COUNTED], ids=[c[0] for c in COUNTED])
def test_what_counts(pod: PodUse, counted: bool) -> None:
    assert counts(pod, OURS) is counted
    said = tally(pod).judge(charge("q", 4), CPU)
    assert (said is not None) is counted


def test_a_charge_counts_once_with_its_pod_and_the_larger_of_both() -> None:
    grown = tally(use("p", 2), charges=(charge("p", 3),))
    assert grown.judge(charge("q", 1), CPU) is None
    assert (
        str(grown.judge(charge("q", 2), CPU)) == "ElasticQuota a/eq: used cpu=3 + requested 2 exceeds max=4"
    )


def test_a_pod_that_grows_is_judged_by_the_difference_in_what_rises() -> None:
    full = tally(
        use("p", 2), use("q", 1, usage={"cpu": 1000, "memory": 9, "pods": 1}), cpu=4, memory=5, pods=1
    )
    grown = charge("p", 3, memory=1)
    assert full.judge(grown, frozenset({"cpu"})) is None
    more = str(full.judge(charge("p", 7), frozenset({"cpu"})))
    assert more == "ElasticQuota a/eq: used cpu=3 + requested 5 exceeds max=4"
    assert "used memory=9 + requested 1 exceeds max=5" in str(full.judge(grown, frozenset({"cpu", "memory"})))


def test_a_pod_that_does_not_count_yet_is_judged_with_all_it_asks_for() -> None:
    waiting = tally(use("p", 2, node=""))
    assert waiting.judge(charge("p", 4), frozenset({"cpu"})) is None
    assert "used cpu=0 + requested 5" in str(waiting.judge(charge("p", 5), frozenset({"cpu"})))


def test_a_withdrawn_resize_leaves_the_use_of_the_pod() -> None:
    grown = tally(use("p", 2), charges=(charge("p", 4),))
    grown.leave("p")
    assert grown.charges == {}
    assert grown.judge(charge("q", 2), CPU) is None
    assert grown.judge(charge("q", 3), CPU) is not None


def test_everything_may_enter_where_no_quota_binds() -> None:
    assert standing("a", [quota("b")]) is None
    open_ = NamespaceUse(None, {}, (charge("p"),), OURS)
    assert open_.judge(charge("q", 99), CPU) is None
    open_.enter(charge("q", 99))
    assert sorted(open_.charges) == ["p", "q"]


OTHERS = (quota(min={"cpu": 2}, max={"cpu": 9}), quota("b", {"cpu": "3"}, min={"cpu": 3}, max={"cpu": 5}))


def test_the_sum_of_min_binds_with_what_others_use_by_their_status() -> None:
    both = tally(quotas=OTHERS)
    assert both.judge(charge("p", 2), CPU) is None
    said = str(both.judge(charge("p", 3), CPU))
    assert said == (
        f"ElasticQuota a/eq: used by all quotas cpu=3 + requested 3 exceeds sum(min)=5{BEYOND_SUM}"
    )


def test_use_of_another_quota_above_its_max_does_not_count() -> None:
    over = quota("b", {"cpu": "30"}, min={"cpu": 3}, max={"cpu": 3})
    assert tally(quotas=(OTHERS[0], over)).judge(charge("p", 2), CPU) is None


def test_pods_of_others_count_one_by_one_where_a_number_of_them_is_guaranteed() -> None:
    other = quota("b", {"pods": "3"}, min={"pods": 3})
    both = tally(use("p"), quotas=(quota(min={"pods": 2}), other))
    assert both.judge(charge("q"), CPU) is None
    both.enter(charge("q"))
    assert "used by all quotas pods=5 + requested 1 exceeds sum(min)=5" in str(both.judge(charge("r"), CPU))


amounts = st.dictionaries(st.sampled_from(["cpu", "memory", "x/y"]), st.integers(0, 4), max_size=3)


@given(st.lists(st.tuples(amounts, st.booleans()), max_size=8), amounts, amounts)
def test_pods_admitted_one_by_one_never_exceed_max(
    asked: list[tuple[dict[str, int], bool]], first: dict[str, int], limits: dict[str, int]
) -> None:
    """Whoever is let in is entered; afterwards the sum is within max in all that anybody asked for."""
    where = msgspec.structs.replace(OTHERS[0], min={}, max=limits)
    there = use("p", usage={**first, "pods": 1})
    found = NamespaceUse(standing("a", [where]), {"p": there}, (), OURS)
    total = {"p": there.usage}
    for number, (usage, resize) in enumerate(asked):
        uid = "p" if resize else f"q{number}"
        wanted = {
            name: max(value, total.get(uid, {}).get(name, 0)) for name, value in {**usage, "pods": 1}.items()
        }
        one = Charge(uid, uid, "", {**total.get(uid, {}), **wanted})
        grows = frozenset(n for n, v in one.usage.items() if v > total.get(uid, {}).get(n, 0))
        if found.judge(one, grows) is None:
            found.enter(one)
            total[uid] = one.usage
    for name, limit in limits.items():
        used = sum(usage.get(name, 0) for usage in total.values())
        assert used <= max(limit, first.get(name, 0))


RISES = [
    ("new", None, {"cpu", "pods"}),
    ("smaller before", use("p", 1), {"cpu"}),
    ("larger before", use("p", 9), set()),
    ("the same", use("p", 2), set()),
]


@pytest.mark.parametrize(("before", "names"), [r[1:] for r in RISES], ids=[r[0] for r in RISES])
def test_what_rises(before: PodUse | None, names: set[str]) -> None:
    assert risen(use("p", 2), before) == names


SETTLED: list[tuple[str, dict[str, PodUse], dict[str, Any], list[str], str]] = [
    ("nothing is seen", {}, {}, ["p"], "7"),
    ("its pod is seen", {"p": use("p", 2, version="12")}, {}, [], "12"),
    ("its pod is seen, and older than what was struck out", {"p": use("p", 2, version="3")}, {}, [], "7"),
    ("the resize is not stored yet", {"p": use("p", 1, version="12")}, {}, ["p"], "7"),
    ("its pod has ended", {"p": use("p", 1, version="12", phase="Failed")}, {}, [], "12"),
    ("its pod is gone", {}, {"gone": ["p"]}, [], "7"),
    ("it never came", {}, {"overdue": ["p"]}, [], "7"),
]


@pytest.mark.parametrize("others", [0, 1, 2, 50_000, 2_000_000])
def test_the_pods_of_others_are_counted_however_many_they_are(others: int) -> None:
    other = quota("b", {"pods": str(others)}, min={"pods": others})

    def judged() -> tuple[Any, Any]:
        found = tally(quotas=(quota(min={"pods": 1}), other))
        first = found.judge(charge("p"), CPU)
        found.enter(charge("p"))
        return first, found.judge(charge("q"), CPU)

    (first, second), seconds = measured(judged)
    # A look at each of two millions would take longer, and a slow machine does not.
    assert seconds < 0.1
    assert first is None
    assert second is not None
    assert (second.rule, second.used, second.limit) == ("sum(min)", others + 1, others + 1)


@pytest.mark.parametrize(
    ("pods", "more", "left", "version"), [s[1:] for s in SETTLED], ids=[s[0] for s in SETTLED]
)
def test_a_charge_stays_until_its_pod_shows_it(
    pods: dict[str, PodUse], more: dict[str, Any], left: list[str], version: str
) -> None:
    ledger = ReservationLedger("a", "1", "7", charges=(charge("p", 2),), name="elastic")
    found = settled(ledger, pods, **more)
    assert [one.uid for one in found.charges] == left
    assert (found.pods_version, found.name) == (version, "elastic")
    assert settled(found, pods, **more) == found


def department(name: str, parent: str = "", **spec: Any) -> QuotaGroup:
    return parse_quota_group({"metadata": {"name": name}, "spec": {"parent": parent, **spec}})


def in_group(namespace: str, group: str, used: int = 0, **spec: Any) -> ElasticQuota:
    meta = {"name": "eq", "namespace": namespace, "labels": {"muster.dev/quota-group": group}}
    return parse_elastic_quota({"metadata": meta, "spec": spec, "status": {"used": {"cpu": used}}})


IN_GROUPS = [
    pytest.param(
        [department("dept", max={"cpu": 3})],
        [in_group("a", "dept", max={"cpu": 9})],
        "",
        id="all of the max of its group",
    ),
    pytest.param(
        [department("dept", max={"memory": 1})],
        [in_group("a", "dept", max={"cpu": 9}), in_group("b", "dept", 4)],
        "",
        id="a group without a max of it",
    ),
    pytest.param(
        [department("dept", max={"cpu": 6})],
        [in_group("a", "dept", max={"cpu": 9}), in_group("b", "dept", 4)],
        "ElasticQuota a/eq: used by all quotas of QuotaGroup dept cpu=6 + requested 1 exceeds its max=6",
        id="beyond the max of its group together with a sibling",
    ),
    pytest.param(
        [department("dept", max={"cpu": 7})],
        [in_group("a", "dept", max={"cpu": 9}), in_group("b", "dept", 4)],
        "",
        id="within it",
    ),
    pytest.param(
        [department("dept", max={"cpu": 6}), department("lab", "dept"), department("shop", "dept")],
        [in_group("a", "lab", max={"cpu": 9}), in_group("b", "lab", 1), in_group("c", "shop", 3)],
        "ElasticQuota a/eq: used by all quotas of QuotaGroup dept cpu=6 + requested 1 exceeds its max=6",
        id="beyond the max of a group further up",
    ),
    pytest.param(
        [department("dept", max={"cpu": 6}), department("shop", "dept", max={"cpu": 2})],
        [in_group("a", "dept", max={"cpu": 9}), in_group("b", "shop", 30)],
        "",
        id="beside a group that is above its own max",
    ),
    pytest.param(
        [department("dept", min={"cpu": 4}, max={"cpu": 4})],
        [in_group("a", "", min={"cpu": 0}), in_group("b", "dept", 40)],
        "ElasticQuota a/eq: used by all quotas cpu=6 + requested 1 exceeds sum(min)=4" + BEYOND_SUM,
        id="what a group uses counts up to its max",
    ),
    pytest.param(
        [department("dept", min={"cpu": 7})],
        [in_group("a", "", min={"cpu": 0})],
        "",
        id="a group guarantees what its quotas do not",
    ),
    pytest.param(
        [department("dept", min={"cpu": 7}, lendable={"cpu": 2})],
        [in_group("a", "", min={"cpu": 0})],
        "ElasticQuota a/eq: used by all quotas cpu=7 + requested 1 exceeds sum(min)=7" + BEYOND_SUM,
        id="what a group keeps back",
    ),
]


@pytest.mark.parametrize(("groups", "quotas", "said"), IN_GROUPS)
def test_groups_above_a_quota_limit_pods_of_other_schedulers(
    groups: list[QuotaGroup], quotas: list[ElasticQuota], said: str
) -> None:
    """The namespace uses 2 CPUs."""
    where = standing("a", quotas, {group.name: group for group in groups})
    found = NamespaceUse(where, {"p": use("p", 2)}, (), OURS).judge(charge("q", 1), CPU)
    assert ("" if found is None else str(found)) == said


def test_siblings_exceed_the_max_of_their_group_by_what_was_admitted_since_their_statuses_and_no_more() -> (
    None
):
    """Three quotas of a group with 8 CPUs ask for 2 again and again; no status is written meanwhile."""
    groups = {"dept": department("dept", max={"cpu": 8})}
    names = ("a", "b", "c")
    stored = dict.fromkeys(names, 2)
    admitted = dict.fromkeys(names, 0)

    def ask(namespace: str) -> str:
        others = [in_group(name, "dept", stored[name], max={"cpu": 9}) for name in names if name != namespace]
        # The own namespace is read, not its status.
        own = in_group("a", "dept", max={"cpu": 9})
        where = standing(
            "a", [own, *(msgspec.structs.replace(q, namespace=f"x{q.namespace}") for q in others)], groups
        )
        there = {"p": use("p", stored[namespace] + admitted[namespace])}
        refused = NamespaceUse(where, there, (), OURS).judge(charge("q", 2), CPU)
        if refused is None:
            admitted[namespace] += 2
            return ""
        return refused.rule

    assert [ask(name) for _ in range(3) for name in names] == [*[""] * 3, *["group max"] * 6]
    since = sum(admitted.values())
    total = sum(stored.values()) + since
    assert (since, total) == (6, 12)
    # Each was within the max beside the statuses of the others: beyond it is what the others got since.
    assert total - 8 <= since - min(admitted.values())
    for name in names:
        stored[name], admitted[name] = stored[name] + admitted[name], 0
    assert [ask(name) for name in names] == ["group max"] * 3
