"""Who uses more than its max gives back first: stories of one decision each, through the scheduler."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scheduler_core.framework.preemption.demand import demands_in_order, quota_demand
from scheduler_core.model.names import CHARGED_ANNOTATION, DEFAULT_SCHEDULER
from scheduler_core.model.quotas.quota_group import parse_quota_group
from tests.support.builders import PodBuilder, make_budget, make_group, make_pod, make_quota
from tests.support.gang_scheduler import evicted, placed
from tests.unit.framework.preemption.test_stories import asks, outcome, runs, world

OWNER = make_quota("owner/q").min(cpu=4)


def loud(name: str, node: str = "n0", cpu: int = 1, priority: int = 9) -> PodBuilder:
    return runs(f"loud/{name}", node, cpu, priority, start=1)


def quota(namespace: str, low: int, high: int | None = None) -> Any:
    made = make_quota(f"{namespace}/q").min(cpu=low)
    return made if high is None else made.max(cpu=high)


def test_pods_above_max_are_evicted_before_borrowing_pods() -> None:
    """Both borrow one CPU. `loud` may use one in all and uses two; its pods are older and more important."""
    made = world(
        [4],
        loud("l1"),
        loud("l2"),
        runs("borrower/b1", start=900),
        runs("borrower/b2", start=900),
        quotas=(OWNER, quota("loud", 1, 1), quota("borrower", 1)),
    )
    node, victims = outcome(made, asks("owner/p", 1))
    assert (node, victims) == ("n0", "l1")


def test_without_a_max_the_least_important_goes() -> None:
    made = world(
        [4],
        loud("l1"),
        loud("l2"),
        runs("borrower/b1", start=900),
        runs("borrower/b2", start=900),
        quotas=(OWNER, quota("loud", 1), quota("borrower", 1)),
    )
    assert outcome(made, asks("owner/p", 1)) == ("n0", "b1")


def grouped(namespace: str, low: int, inside: str = "dept") -> Any:
    return quota(namespace, low).label("muster.dev/quota-group", inside)


def group(low: int, high: int) -> Any:
    spec = {"min": {"cpu": low}, "max": {"cpu": high}}
    raw = {"metadata": {"name": "dept", "uid": "dept"}, "spec": spec}
    return SimpleNamespace(obj=lambda: parse_quota_group(raw))


@pytest.mark.parametrize(
    ("high", "gone"),
    [
        pytest.param(2, "l1", id="of a group above its max, though its pods are older and more important"),
        pytest.param(9, "b1", id="the least important where the group is within its max"),
    ],
)
def test_who_goes_first_of_two_quotas_that_keep_their_max(high: int, gone: str) -> None:
    """`loud` and `calm` use three CPUs together."""
    made = world(
        [5],
        loud("l1"),
        loud("l2"),
        runs("calm/c1", start=1),
        runs("borrower/b1", start=900),
        runs("borrower/b2", start=900),
        quotas=(group(1, high), OWNER, grouped("loud", 0), grouped("calm", 1), quota("borrower", 1)),
    )
    assert outcome(made, asks("owner/p", 1)) == ("n0", gone)


def test_what_a_group_uses_above_its_max_goes_before_quota_is_freed() -> None:
    """6 are guaranteed, and 4 of them count as used below the group, which uses 7."""
    made = world(
        [20],
        *(loud(f"l{number}") for number in range(4)),
        *(runs(f"calm/c{number}", priority=9, start=2) for number in range(3)),
        quotas=(group(2, 4), OWNER, grouped("loud", 0), grouped("calm", 0)),
    )
    node, victims = outcome(made, asks("owner/p", 3))
    assert (node, len(victims.split())) == ("n0", 4), victims


def test_no_pod_is_evicted_for_what_a_group_uses_above_its_max() -> None:
    made = world(
        [20],
        *(loud(f"l{number}") for number in range(7)),
        quotas=(group(2, 2), OWNER, grouped("loud", 0)),
    )
    made.put(asks("owner/p", 4))
    decisions = made.step()
    assert (evicted(decisions), placed(decisions)) == (set(), {"p": "n0"})


def test_a_quota_gets_its_min_inside_a_group_above_its_max() -> None:
    """The group uses 7 of 4: with one pod more it has room once four others are gone."""
    made = world(
        [20],
        *(loud(f"l{number}") for number in range(7)),
        runs("borrower/b1", start=900),
        quotas=(group(4, 4), OWNER, grouped("loud", 0), grouped("own", 1), quota("borrower", 0)),
    )
    node, victims = outcome(made, asks("own/p", 1))
    assert (node, len(victims.split()), "b1" in victims) == ("n0", 4, False)


def test_it_goes_although_a_budget_protects_it() -> None:
    made = world(
        [4],
        loud("l1").labels(app="x"),
        loud("l2").labels(app="x"),
        runs("borrower/b1", start=900),
        runs("borrower/b2", start=900),
        quotas=(OWNER, quota("loud", 1, 1), quota("borrower", 1)),
        budgets=(make_budget("loud/b").selects(app="x").allows(0),),
    )
    assert outcome(made, asks("owner/p", 1)) == ("n0", "l1")


def test_it_goes_on_the_node_where_it_is() -> None:
    made = world(
        [2, 2],
        runs("borrower/b1", "n0", start=900),
        runs("borrower/b2", "n0", start=900),
        loud("l1", "n1"),
        loud("l2", "n1"),
        quotas=(OWNER, quota("loud", 1, 1), quota("borrower", 1)),
    )
    assert outcome(made, asks("owner/p", 1)) == ("n1", "l1")


def test_where_it_frees_too_little_others_go_too_but_it_goes_before_them() -> None:
    """Two of three CPUs come from `loud`, which is guaranteed none; one from who borrows."""
    made = world(
        [5],
        loud("l1"),
        loud("l2"),
        runs("borrower/b1", start=900),
        runs("borrower/b2", start=901),
        runs("borrower/b3", start=902),
        quotas=(make_quota("owner/q").min(cpu=5), quota("loud", 0, 1), quota("borrower", 0)),
    )
    assert outcome(made, asks("owner/p", 3)) == ("n0", "b3 l1 l2")


def test_on_a_node_where_none_of_it_runs_others_go() -> None:
    made = world(
        [4, 4],
        *(loud(f"l{number}", "n1") for number in range(4)),
        *(runs(f"borrower/b{number}", "n0", start=900 + number) for number in range(4)),
        quotas=(make_quota("owner/q").min(cpu=8), quota("loud", 0, 1), quota("borrower", 0)),
    )
    pod = asks("owner/p", 1).spec(nodeName="", nodeSelector={"kubernetes.io/hostname": "n0"})
    assert outcome(made, pod) == ("n0", "b3")


def test_pods_that_no_quota_counts_are_evicted_before_quota_is_freed() -> None:
    """6 are guaranteed, and 4 of them count as used by `loud`, which uses 7: its loan of 2 lies below."""
    made = world(
        [20],
        *(loud(f"l{number}") for number in range(7)),
        quotas=(OWNER, quota("loud", 2, 4)),
    )
    assert outcome(made, asks("owner/p", 3)) == ("n0", "l0 l1 l2 l3")


def test_no_pod_is_evicted_for_a_resource_that_no_quota_counts() -> None:
    made = world(
        [20],
        *(loud(f"l{number}") for number in range(7)),
        quotas=(OWNER, quota("loud", 2, 2)),
    )
    made.put(asks("owner/p", 4))
    decisions = made.step()
    assert (evicted(decisions), placed(decisions)) == (set(), {"p": "n0"})


@pytest.mark.parametrize(
    ("high", "waiting", "asked", "victims"),
    [(8, 4, 1, "l0"), (4, 1, 1, "l0"), (4, 4, 1, "l0"), (3, 4, 2, "l0 l1"), (3, 1, 2, "l0 l1")],
)
def test_pods_without_a_node_above_max_keep_no_min_from_its_owner(
    high: int, waiting: int, asked: int, victims: str
) -> None:
    """Nobody can evict them, so they need not go before what runs gives way: a max may have been lowered."""
    made = world([9], quotas=(OWNER, quota("loud", 0, high)))
    made.put(*(loud(f"l{number}") for number in range(4)))
    for number in range(waiting):
        pod = make_pod(f"loud/w{number}").uid(f"w{number}").requests(cpu=1).scheduler(DEFAULT_SCHEDULER)
        made.put(pod.annotation(CHARGED_ANNOTATION, "true"))
    assert outcome(made, asks("owner/p", asked)) == ("n0", victims)


@pytest.mark.parametrize(
    ("low", "waiting", "asked", "victims"),
    [(4, 0, 1, "b0"), (4, 1, 1, "b0"), (4, 4, 1, "b0"), (3, 4, 1, "b0 l0"), (3, 4, 2, "b0 b1 l0")],
)
def test_pods_without_a_node_take_no_other_quotas_guarantee(
    low: int, waiting: int, asked: int, victims: str
) -> None:
    """`loud` runs four pods, the least important of all: what is within its min frees no quota."""
    made = world(
        [20],
        *(loud(f"l{number}", priority=-5) for number in range(4)),
        *(runs(f"borrower/b{number}", start=900 - number) for number in range(4)),
        quotas=(OWNER, quota("loud", low, 8), quota("borrower", 0)),
    )
    for number in range(waiting):
        pod = make_pod(f"loud/w{number}").uid(f"w{number}").requests(cpu=1).scheduler(DEFAULT_SCHEDULER)
        made.put(pod.annotation(CHARGED_ANNOTATION, "true"))
    assert outcome(made, asks("owner/p", asked)) == ("n0", victims)


@pytest.mark.parametrize(("waiting", "victims"), [(1, "y"), (2, "x y"), (3, "x z")])
def test_pods_without_a_node_count_as_soon_as_others_leave_their_min(waiting: int, victims: str) -> None:
    """`loud` uses its min of 6 without those that wait, and may give, as it borrows memory.

    What its pods leave of the min goes to those that wait first: so less comes free than leaves. With what is
    above its max all the same nobody else need go, and the other nodes are too full.
    """
    made = world(
        [2, 0, 2],
        loud("x", "n1").requests(cpu=1, memory="1Gi"),
        loud("y", "n1").requests(cpu=2, memory="1Gi"),
        loud("z", "n2").requests(cpu=3, memory="1Gi"),
        runs("borrower/b", "n2", 3),
        quotas=(
            make_quota("owner/q").min(cpu=3),
            quota("loud", 6, 6),
            make_quota("borrower/q").min(memory=1),
        ),
    )
    for number in range(waiting):
        pod = make_pod(f"loud/w{number}").uid(f"w{number}").requests(cpu=1).scheduler(DEFAULT_SCHEDULER)
        made.put(pod.annotation(CHARGED_ANNOTATION, "true"))
    assert outcome(made, asks("owner/p", 1)) == ("n0", victims)


def test_a_max_of_something_that_nobody_asks_for_says_nothing() -> None:
    made = world(
        [4],
        loud("l1"),
        loud("l2"),
        runs("borrower/b1", start=900),
        runs("borrower/b2", start=900),
        quotas=(OWNER, make_quota("loud/q").min(cpu=1).max(pods=1), quota("borrower", 1)),
    )
    state = made.state
    pod = asks("owner/p", 1).obj()
    own = state.ledger.quota_of("owner")
    assert own is not None
    # Each pod asks for one of `pods`: this one counts, and comes first.
    assert len(list(demands_in_order(state.table, quota_demand(state, pod, own)))) == 3
    made.scheduler.put(make_quota("loud/q").min(cpu=1).max(cpu=9, memory=0).obj(), made.now)
    assert len(list(demands_in_order(state.table, quota_demand(state, pod, own)))) == 1


@pytest.mark.parametrize("passed", [True, False], ids=["above max", "within max"])
def test_members_of_a_gang_take_it_first_until_it_is_within_its_max(passed: bool) -> None:
    made = world(
        [4],
        loud("l1"),
        loud("l2"),
        runs("borrower/b1", start=900),
        runs("borrower/b2", start=900),
        quotas=(OWNER, quota("loud", 0, 1 if passed else 2), quota("borrower", 0)),
    )
    made.put(make_group("owner/g").needs(2))
    made.put(*(make_pod(f"owner/m{n}").uid(f"m{n}").requests(cpu=1).group("g") for n in range(2)))
    assert sorted(evicted(made.step())) == (["b1", "l1"] if passed else ["b1", "b2"])


def test_its_own_pods_find_no_room_in_what_it_took() -> None:
    """Its own rule counts all that it uses: one of lower priority must go for each CPU above max."""
    made = world(
        [20],
        *(loud(f"l{number}", priority=0) for number in range(6)),
        quotas=(OWNER, quota("loud", 2, 4)),
    )
    assert outcome(made, asks("loud/p", 1)) == ("n0", "l0 l1 l2")
