"""The quota ledger against a slow count, for random histories of charges and quotas."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.quota.ledger import LedgerError, QuotaLedger, shift
from scheduler_core.quota.policy import above_max, borrowed, over_min, within_min
from tests.support.builders import make_quota
from tests.support.searches import cases

CPU, GPU = "cpu", "nvidia.com/gpu"


def quota(key: str, low: int, high: int = 100, *, created: float = 0.0) -> ElasticQuota:
    """`low` and `high` whole CPUs."""
    return make_quota(key).min(cpu=low).max(cpu=high).created(created).obj()


def cpus(count: int) -> dict[str, int]:
    return {CPU: 1000 * count}


def group_of(name: str, least: dict[str, int]) -> QuotaGroup:
    """A child of the root."""
    meta = {"name": name, "uid": name, "resourceVersion": "1"}
    return parse_quota_group({"metadata": meta, "spec": {"min": {key: str(n) for key, n in least.items()}}})


def ledger(*quotas: ElasticQuota, **pods: int) -> QuotaLedger:
    """Quotas, and pods `namespace_name=CPUs`."""
    out = QuotaLedger()
    for item in quotas:
        out.put_quota(item)
    for name, count in pods.items():
        out.charge(name.partition("_")[0], name, cpus(count))
    return out


# What binds


def test_the_oldest_quota_binds_and_the_next_one_when_it_goes() -> None:
    old, young = quota("a/old", 2, created=1.0), quota("a/young", 5, created=2.0)
    out = ledger(young, old, a_p=1)
    assert (out.quota_of("a"), out.shadowed("a"), list(out.quotas())) == (old, [young], [old])
    assert out.total_min == cpus(2)
    out.remove_quota("a", "young")
    assert (out.quota_of("a"), out.shadowed("a")) == (old, [])
    out.put_quota(young)
    out.remove_quota("a", "old")
    assert (out.quota_of("a"), out.total_min, out.total_used) == (young, cpus(5), {CPU: 1000, "pods": 1})
    out.remove_quota("a", "young")
    assert (out.quota_of("a"), list(out.quotas()), out.total_min) == (None, [], {})
    assert not any(out.total_used.values())


def test_a_namespace_that_nobody_named_is_empty() -> None:
    out = ledger(quota("a/q", 1))
    out.remove_quota("nowhere", "q")
    assert (out.quota_of("b"), out.shadowed("b"), out.used("b"), out.leaving("b")) == (None, [], {}, {})
    assert (out.charges("b"), out.is_charged("b", "p"), out.is_leaving("b", "p")) == ({}, False, False)


def test_a_change_of_a_quota_replaces_it() -> None:
    out = ledger(quota("a/q", 2), quota("a/q", 3))
    assert (out.shadowed("a"), out.total_min) == ([], cpus(3))


def test_a_resource_leaves_the_sum_of_min_with_the_last_quota_that_names_it() -> None:
    out = ledger(quota("a/q", 0), quota("b/q", 0))
    out.remove_quota("a", "q")
    assert out.total_min == {CPU: 0}, "a min of nothing is a min"
    out.put_quota(make_quota("b/q").min(gpu=1).obj())
    assert out.total_min == {GPU: 1}


# What is used


@pytest.mark.parametrize("quotas", [[], [quota("a/q", 1)]], ids=["without a quota", "with a quota"])
def test_a_pod_is_charged_once_and_refunded_once(quotas: list[ElasticQuota]) -> None:
    out = ledger(*quotas, a_p=2)
    assert (out.used("a"), out.is_charged("a", "a_p"), out.charges("a")) == (
        {CPU: 2000, "pods": 1},
        True,
        {"a_p": cpus(2)},
    )
    with pytest.raises(LedgerError) as charged:
        out.charge("a", "a_p", cpus(1))
    assert (charged.value.namespace, charged.value.uid, charged.value.problem) == (
        "a",
        "a_p",
        "is charged already",
    )
    out.refund("a", "a_p")
    assert not any(out.used("a").values())
    for namespace in ("a", "b"):
        with pytest.raises(LedgerError, match="is not charged"):
            out.refund(namespace, "a_p")


def test_a_pod_counts_as_one_whatever_it_says() -> None:
    out = QuotaLedger()
    out.charge("a", "p", {"pods": 7, CPU: 0})
    assert {name: value for name, value in out.used("a").items() if value} == {"pods": 1}


def test_status_has_every_resource_that_the_quota_names() -> None:
    item = make_quota("a/q").min(cpu=1).max(cpu=2, gpu=3).obj()
    out = ledger(item, a_p=2)
    assert out.status_used(item) == {CPU: 2000, GPU: 0}


# What is known of use is true after every change of it


def replace(out: QuotaLedger, item: ElasticQuota) -> None:
    out.remove_quota(item.namespace, item.name)
    out.put_quota(item)


CHANGES: list[tuple[str, Any, dict[str, int]]] = [
    ("its min grows", lambda out: out.put_quota(quota("a/q", 4)), {}),
    ("its min shrinks", lambda out: out.put_quota(quota("a/q", 1)), cpus(2)),
    ("it is replaced by a larger one", lambda out: replace(out, quota("a/q", 4)), {}),
    ("a pod comes", lambda out: out.charge("a", "more", cpus(1)), cpus(2)),
    ("a pod goes", lambda out: out.refund("a", "a_p"), {}),
    ("a pod begins to go", lambda out: out.mark_leaving("a", "a_p"), {}),
    ("nothing of its own changes", lambda out: out.charge("b", "other", cpus(9)), cpus(1)),
]  # fmt: skip


@pytest.mark.parametrize(("change", "after"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_the_borrowed_amount_of_a_quota_follows_every_change(change: Any, after: dict[str, int]) -> None:
    out = ledger(quota("a/q", 2), quota("b/q", 5), a_p=3)
    for final in (False, True):
        item = out.quota_of("a")
        assert item is not None
        assert borrowed(out, item, after_leaving=True) == (after if final else cpus(1))
        assert over_min(out, item) is bool(after if final else cpus(1))
        if not final:
            change(out)


def test_a_resource_that_another_quota_begins_to_guarantee_is_borrowed_from_then_on() -> None:
    first = make_quota("a/q").min(cpu=1).obj()
    out = ledger(first)
    out.charge("a", "p", {GPU: 2})
    assert borrowed(out, first) == {}
    out.put_quota(make_quota("b/q").min(gpu=2).obj())
    assert borrowed(out, first) == {GPU: 2}
    out.remove_quota("b", "q")
    assert borrowed(out, first) == {}


def test_what_only_a_group_guarantees_is_borrowed_while_the_group_is_there() -> None:
    first = make_quota("a/q").min(cpu=1).obj()
    out = ledger(first)
    out.charge("a", "p", {GPU: 2})
    assert borrowed(out, first) == {}
    for least, expected in (({GPU: 2}, {GPU: 2}), ({CPU: 1}, {}), ({GPU: 1}, {GPU: 2})):
        out.put_group(group_of("dept", least))
        assert borrowed(out, first) == expected, f"the group guarantees {least}"
    out.remove_group("dept")
    assert borrowed(out, first) == {}, "nobody guarantees GPUs any more"


def test_an_older_form_of_a_quota_is_answered_and_not_remembered() -> None:
    before, after = quota("a/q", 1), quota("a/q", 3)
    out = ledger(after, a_p=3)
    assert (borrowed(out, before), borrowed(out, after), borrowed(out, before)) == (cpus(2), {}, cpus(2))


# Who is on the way out


def test_pods_on_their_way_out_count_until_they_are_gone_or_stay_after_all() -> None:
    item = quota("a/q", 2)
    out = ledger(item, a_p=2, a_r=1)
    for _ in range(2):
        out.mark_leaving("a", "a_p")
    assert (out.used("a")[CPU], out.leaving("a")) == (3000, {CPU: 2000, "pods": 1})
    assert (out.is_leaving("a", "a_p"), out.is_leaving("a", "a_r")) == (True, False)
    assert (out.total_leaving, over_min(out, item)) == ({CPU: 2000, "pods": 1}, False)
    for _ in range(2):
        out.mark_staying("a", "a_p")
    assert (out.is_leaving("a", "a_p"), over_min(out, item)) == (False, True)
    assert not any((*out.leaving("a").values(), *out.total_leaving.values()))


def test_a_pod_that_leaves_for_good_takes_its_mark_along() -> None:
    out = ledger(quota("a/q", 2), a_p=2)
    out.mark_leaving("a", "a_p")
    out.refund("a", "a_p")
    out.charge("a", "a_p", cpus(2))
    assert not out.is_leaving("a", "a_p")
    assert out.check() == []


def test_a_pod_without_a_charge_cannot_be_marked_as_leaving() -> None:
    out = ledger(quota("a/q", 2))
    for namespace in ("a", "b"):
        out.mark_leaving(namespace, "p")
        out.mark_staying(namespace, "p")
        assert not out.is_leaving(namespace, "p")
    assert out.total_leaving == {}


def test_own_pods_on_their_way_out_make_room_within_the_min() -> None:
    item = quota("a/q", 2)
    out = ledger(item, a_p=2)
    assert not within_min(out, item, cpus(1))
    out.mark_leaving("a", "a_p")
    assert within_min(out, item, cpus(2))
    assert not within_min(out, item, cpus(3))


# The version and the checker


def test_every_change_of_use_or_quota_has_a_version_of_its_own() -> None:
    out = QuotaLedger()
    changes = [
        lambda: out.put_quota(quota("a/q", 1)),
        lambda: out.charge("a", "p", cpus(1)),
        lambda: out.refund("a", "p"),
        lambda: out.remove_quota("a", "q"),
    ]
    seen = [out.version]
    for change in changes:
        change()
        seen.append(out.version)
    assert seen == sorted(set(seen))


OWN = make_quota("a/q").version("1").min(cpu=2).max(cpu=9)
REPLACED: list[tuple[str, ElasticQuota, bool]] = [
    ("as it was", make_quota("a/q").version("2").min(cpu=2).max(cpu=9).obj(), False),
    ("with another min", make_quota("a/q").min(cpu=3).max(cpu=9).obj(), True),
    ("with a min of another resource", make_quota("a/q").min(gpu=2).max(cpu=9).obj(), True),
    ("with another max", make_quota("a/q").min(cpu=2).max(cpu=8).obj(), True),
    (
        "with another weight",
        make_quota("a/q").min(cpu=2).max(cpu=9).annotation("muster.dev/weight", "2").obj(),
        True,
    ),
    ("in a group", make_quota("a/q").min(cpu=2).max(cpu=9).label(QUOTA_GROUP_LABEL, "g").obj(), True),
    ("by an older one", make_quota("a/older").min(cpu=2).max(cpu=8).created(-1.0).obj(), True),
    ("not at all: a younger one comes", make_quota("a/young").min(cpu=1).created(1.0).obj(), False),
]


@pytest.mark.parametrize(("after", "grows"), [r[1:] for r in REPLACED], ids=[r[0] for r in REPLACED])
def test_what_decides_has_a_version_of_its_own(after: ElasticQuota, grows: bool) -> None:
    out = ledger(OWN.obj())
    before = out.quotas_version
    out.put_quota(after)
    assert (out.quotas_version > before) is grows


@pytest.mark.parametrize("name", ["total_used", "total_min", "total_leaving", "total_fixed", "total_both"])
def test_the_checker_finds_a_sum_that_is_not_that_of_its_parts(name: str) -> None:
    out = ledger(quota("a/q", 2), quota("b/q", 3), a_p=1, b_p=2, c_p=4)
    out.mark_leaving("a", "a_p")
    out.mark_leaving("c", "c_p")
    assert out.check() == []
    shift(getattr(out, name), cpus(1))
    (problem,) = out.check()
    assert problem.startswith(name.replace("_", " "))


@pytest.mark.parametrize("name", ["used", "leaving"])
def test_the_checker_finds_a_namespace_that_is_not_the_sum_of_its_pods(name: str) -> None:
    out = ledger(quota("a/q", 2), a_p=1)
    out.mark_leaving("a", "a_p")
    amounts: Any = getattr(out, name)("a")
    amounts[CPU] += 1
    assert [problem.partition(" is ")[0] for problem in out.check()] == [f"{name} of a"]


class Histories(RuleBasedStateMachine):
    """Charges, refunds, quotas and marks in any order; the truth is counted from plain lists."""

    spaces = st.sampled_from("ab")
    names = st.sampled_from("qr")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = QuotaLedger()
        self.pods: dict[tuple[str, str], dict[str, int]] = {}
        self.leaving: set[tuple[str, str]] = set()
        self.unplaced: set[tuple[str, str]] = set()
        self.stranded: set[tuple[str, str]] = set()
        self.quotas: dict[tuple[str, str], ElasticQuota] = {}
        self.number = 0

    @rule(space=spaces, cpu=st.integers(0, 3), gpu=st.integers(0, 2), placed=st.booleans())
    def charge(self, space: str, cpu: int, gpu: int, placed: bool) -> None:
        self.number += 1
        self.pods[space, f"p{self.number}"] = asked = {CPU: cpu, GPU: gpu}
        self.ledger.charge(space, f"p{self.number}", asked, placed=placed)
        if not placed:
            self.unplaced.add((space, f"p{self.number}"))

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), what=st.sampled_from(["refund", "mark_leaving", "mark_staying", "strand", "reach"]))
    def change(self, data: st.DataObject, what: str) -> None:
        pod = data.draw(st.sampled_from(sorted(self.pods)))
        if what in ("strand", "reach"):
            self.ledger.mark_stranded(*pod, stranded=what == "strand")
            lost = what == "strand" and pod not in self.unplaced | self.leaving
            (self.stranded.add if lost else self.stranded.discard)(pod)
            return
        getattr(self.ledger, what)(*pod)
        if what == "refund":
            del self.pods[pod]
            self.unplaced.discard(pod)
        goes = what == "mark_leaving" and pod not in self.unplaced
        (self.leaving.add if goes else self.leaving.discard)(pod)
        if what != "mark_staying":
            self.stranded.discard(pod)

    @rule(
        space=spaces,
        name=names,
        low=st.integers(0, 4),
        high=st.none() | st.integers(0, 6),
        gpu=st.booleans(),
        age=st.integers(0, 3),
    )
    def put_quota(self, space: str, name: str, low: int, high: int | None, gpu: bool, age: int) -> None:
        made = (
            make_quota(f"{space}/{name}")
            .min(**({"gpu": low} if gpu else {"cpu": f"{low}m"}))
            .max(**({"cpu": f"{high}m", "gpu": high} if high is not None else {}))
            .created(age)
            .obj()
        )
        self.quotas[space, name] = made
        self.ledger.put_quota(made)

    @rule(space=spaces, name=names)
    def remove_quota(self, space: str, name: str) -> None:
        self.quotas.pop((space, name), None)
        self.ledger.remove_quota(space, name)

    def binding(self) -> dict[str, ElasticQuota]:
        found: dict[str, ElasticQuota] = {}
        for (space, _), item in sorted(
            self.quotas.items(), key=lambda entry: (entry[1].created, entry[0][1])
        ):
            found.setdefault(space, item)
        return found

    def sums(self, space: str, *, staying: bool = False, placed: bool = False) -> dict[str, int]:
        found = {
            pod: {**asked, "pods": 1}
            for pod, asked in self.pods.items()
            if pod[0] == space
            and not (staying and pod in self.leaving)
            and not (placed and pod in self.unplaced | self.stranded)
        }
        return {name: sum(asked[name] for asked in found.values()) for name in (CPU, GPU, "pods")}

    def total(self, *, staying: bool, guaranteed: bool) -> dict[str, int]:
        """What counts of all quotas: of each at most its max, and for a pod within its min nothing of what

        others hold above theirs without a node.
        """
        total = dict.fromkeys((CPU, GPU, "pods"), 0)
        for space, item in self.binding().items():
            used, runs = self.sums(space, staying=staying), self.sums(space, staying=staying, placed=True)
            for name, value in used.items():
                if guaranteed:
                    value = max(runs[name], min(value, item.min.get(name, 0)))
                total[name] += min(value, item.max.get(name, value))
        return total

    @invariant()
    def sums_are_those_of_the_pods(self) -> None:
        binding = self.binding()
        assert {item.namespace: item for item in self.ledger.quotas()} == binding
        for space in "ab":
            assert {n: self.ledger.used(space).get(n, 0) for n in (CPU, GPU, "pods")} == self.sums(space)
        for staying, guaranteed in itertools.product((False, True), repeat=2):
            total = self.total(staying=staying, guaranteed=guaranteed)
            found = self.ledger.in_use(after_leaving=staying, guaranteed=guaranteed)
            assert {name: found.get(name, 0) for name in total} == total
        named = {name for item in binding.values() for name in item.min}
        assert self.ledger.total_min == {n: sum(i.min.get(n, 0) for i in binding.values()) for n in named}
        assert self.ledger.check() == []

    @invariant()
    def borrowed_is_use_above_min(self) -> None:
        binding = self.binding()
        named = {name for item in binding.values() for name in item.min}
        for space, item in binding.items():
            for staying in (False, True):
                used = self.sums(space, staying=staying)
                over = {n: v - item.min.get(n, 0) for n, v in used.items() if n in named | set(item.max)}
                expected = {name: value for name, value in sorted(over.items()) if value > 0}
                assert borrowed(self.ledger, item, after_leaving=staying) == expected
                beyond = {n: v - item.max[n] for n, v in sorted(used.items()) if v > item.max.get(n, v)}
                assert above_max(self.ledger, item, after_leaving=staying) == beyond

    @invariant()
    def what_ends_frees_what_counts_less(self) -> None:
        for space in self.binding():
            own = [
                pod
                for pod in self.pods
                if pod[0] == space and pod not in self.leaving | self.unplaced | self.stranded
            ]
            for staying, guaranteed in itertools.product((False, True), repeat=2) if own else ():
                asked, how = self.pods[own[0]], {"after_leaving": staying, "guaranteed": guaranteed}
                before = dict(self.ledger.in_use(**how))
                freed = self.ledger.frees({space: {**asked, "pods": 1}}, **how)
                self.ledger.refund(*own[0])
                after = self.ledger.in_use(**how)
                assert {n: before.get(n, 0) - after.get(n, 0) for n in freed} == freed
                self.ledger.charge(*own[0], asked)


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=cases(60), stateful_step_count=30, deadline=None)
