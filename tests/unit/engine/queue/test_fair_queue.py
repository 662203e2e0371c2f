"""The queue under fair sharing: it gives the units that a slow reading of the rule would give."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.engine.queue.fair_places import FairPlaces
from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.model.quotas.sharing import Sharing
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.tree import GroupAccount
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_pod, make_quota

GPU = "nvidia.com/gpu"
SPACES = ("a", "b", "c", "free")
GROUPS = ("dept", "lab")
WEIGHTS = (Fraction(1), Fraction(3), Fraction(0), Fraction(1, 2))


def static_key(unit: Any) -> tuple[Any, ...]:
    return (-unit.priority, unit.created, unit.key)


def queue_of(state: ClusterState) -> SchedulingQueue:
    return SchedulingQueue(static_key, lambda unit: "", lambda *_: Wake.NO, places=FairPlaces(state))


def rule(ledger: QuotaLedger, unit: QueuedUnit) -> tuple[Any, ...]:
    """The order as docs/fair-sharing.md says it, in fractions."""
    quota = ledger.quota_of(unit.namespace)
    asked: dict[str, int] = {"pods": len(unit.pods)}
    for pod in unit.pods.values():
        for name, value in pod.requests.items():
            asked[name] = asked.get(name, 0) + value
    if quota is None:
        return (0, *static_key(unit))
    over = {
        name: ledger.used(unit.namespace).get(name, 0)
        - ledger.leaving(unit.namespace).get(name, 0)
        + asked.get(name, 0)
        - quota.min.get(name, 0)
        for name in ledger.total_min
    }
    if not any(value > 0 and asked.get(name) for name, value in over.items()):
        return (0, *static_key(unit))
    shares = (Fraction(max(0, value), ledger.total_min[name]) for name, value in over.items())
    weight = quota.sharing.weight
    return (
        1,
        *(part for group in reversed(ledger.groups_above(unit.namespace)) for part in level(ledger, group)),
        *(0, weight == 0, max(shares) / (weight or 1)),
        *static_key(unit),
    )


def level(ledger: QuotaLedger, group: GroupAccount) -> tuple[Any, ...]:
    """The share of a group, without work that waits."""
    inside = [quota.namespace for quota in ledger.quotas() if group in ledger.groups_above(quota.namespace)]
    shares = [Fraction(0)]
    for name, total in ledger.total_min.items():
        used = sum(ledger.used(one).get(name, 0) - ledger.leaving(one).get(name, 0) for one in inside)
        shares.append(Fraction(max(0, used - group.min.get(name, 0)), total) if total else Fraction(0))
    weight = group.group.weight
    return (0, weight == 0, max(shares) / (weight or 1))


def first_of(ledger: QuotaLedger, waiting: dict[str, QueuedUnit]) -> QueuedUnit | None:
    """Inside a namespace the sort key alone decides; of the first units, the rule."""
    heads: dict[str, QueuedUnit] = {}
    for unit in sorted(waiting.values(), key=static_key):
        heads.setdefault(unit.namespace, unit)
    return min(heads.values(), key=lambda unit: rule(ledger, unit), default=None)


def quota(namespace: str, gpus: int, cpus: int, weight: Fraction, group: str = "") -> ElasticQuota:
    made = make_quota(f"{namespace}/q").min(gpu=gpus, cpu=cpus).obj()
    labels = {QUOTA_GROUP_LABEL: group} if group else {}
    return msgspec.structs.replace(made, sharing=Sharing(weight), labels=labels)


def group(name: str, gpus: int, weight: Fraction) -> QuotaGroup:
    """The second group stands below the first one."""
    spec = {
        "parent": GROUPS[0] if name == GROUPS[1] else "",
        "min": {GPU: str(gpus)},
        "weight": str(float(weight)),
    }
    return parse_quota_group({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": spec})


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pod"), st.sampled_from(SPACES), st.integers(1, 5), st.integers(0, 2)),
        st.tuples(st.just("gang"), st.sampled_from(SPACES), st.integers(1, 3), st.integers(2, 3)),
        st.tuples(st.just("use"), st.sampled_from(SPACES), st.integers(1, 6), st.just(0)),
        st.tuples(st.just("leave"), st.just(""), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("quota"), st.sampled_from(SPACES[:3]), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("join"), st.sampled_from(SPACES[:3]), st.integers(0, 2), st.integers(0, 3)),
        st.tuples(st.just("group"), st.sampled_from(GROUPS), st.integers(0, 9), st.integers(0, 3)),
        st.tuples(st.just("remove"), st.just(""), st.integers(0, 99), st.just(0)),
        st.tuples(st.just("pop"), st.just(""), st.integers(0, 1), st.just(0)),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_units_leave_in_the_order_of_the_rule(steps: list[tuple[str, str, int, int]]) -> None:
    state = ClusterState()
    for number, name in enumerate(SPACES[:3]):
        state.ledger.put_quota(quota(name, 2 + number, 4, WEIGHTS[number]))
    queue, waiting, charges = queue_of(state), dict[str, QueuedUnit](), list[tuple[str, str]]()
    for number, (kind, space, amount, more) in enumerate(steps):
        if kind in ("pod", "gang"):
            key = f"{space}/{kind}{number}"
            for member in range(more if kind == "gang" else 1):
                made = make_pod(f"{key}-{member}").requests(gpu=amount, cpu=more)
                queue.put(made.priority(more % 2).obj(), key, float(number), 0.0, gang=kind == "gang")
            waiting[key] = queue.units[key]
        elif kind == "use":
            charges.append((space, f"u{number}"))
            state.ledger.charge(space, f"u{number}", {GPU: amount})
        elif kind == "leave" and charges:
            state.ledger.mark_leaving(*charges[amount % len(charges)])
        elif kind == "quota":
            state.ledger.put_quota(quota(space, amount, 4, WEIGHTS[more]))
        elif kind == "join":
            state.ledger.put_quota(quota(space, 3, 4, WEIGHTS[more], ["", *GROUPS][amount]))
        elif kind == "group":
            state.ledger.put_group(group(space, amount, WEIGHTS[more]))
        elif kind == "remove" and waiting:
            unit = waiting.pop(sorted(waiting)[amount % len(waiting)])
            for uid in list(unit.pods):
                queue.remove(uid)
        elif kind == "pop":
            expected = first_of(state.ledger, waiting)
            found = queue.pop(0.0)
            assert found is expected
            if found is not None:
                _start(state, queue, found, charges if amount else None)
                del waiting[found.key]
    while waiting:
        expected = first_of(state.ledger, waiting)
        assert queue.pop(0.0) is expected
        assert expected is not None
        del waiting[expected.key]
    assert queue.pop(0.0) is None
    assert not queue.has_active()


def _start(
    state: ClusterState, queue: SchedulingQueue, unit: QueuedUnit, charges: list[tuple[str, str]] | None
) -> None:
    for uid, pod in list(unit.pods.items()):
        queue.remove(uid)
        if charges is not None:
            state.ledger.charge(pod.namespace, uid, pod.requests)
            charges.append((pod.namespace, uid))


def gpu_pod(key: str, gpus: int = 1) -> Pod:
    return make_pod(key).requests(gpu=gpus).obj()


def test_a_nominated_pod_counts_as_use_of_its_quota() -> None:
    state = ClusterState()
    for name in ("a", "b"):
        state.ledger.put_quota(make_quota(f"{name}/q").min(gpu=4).obj())
        state.ledger.charge(name, f"{name}-runs", {GPU: 4})
    queue = queue_of(state)
    for key, created in (("a/second", 1.0), ("b/first", 2.0)):
        queue.put(gpu_pod(key), key, created, 0.0)
    nominated = gpu_pod("a/nominated", 2)
    state.nominations.put(nominated, "n", state.vector(nominated))
    found = queue.pop(0.0)
    assert found is not None
    assert found.key == "b/first"


def test_a_group_that_borrows_less_again_lets_all_its_quotas_borrow_first() -> None:
    state = ClusterState()
    state.ledger.put_group(group("dept", 0, Fraction(1)))
    for name, above in (("a", "dept"), ("b", ""), ("c", "dept"), ("free", "")):
        state.ledger.put_quota(quota(name, 9 if name == "free" else 0, 0, Fraction(1), above))
    state.ledger.charge("c", "runs", {GPU: 4})
    queue = queue_of(state)
    for key, created in (("a/one", 1.0), ("b/one", 2.0), ("b/two", 3.0)):
        queue.put(gpu_pod(key), key, created, 0.0)
    first = queue.pop(0.0)
    queue.remove(gpu_pod("b/one").uid)
    state.ledger.mark_leaving("c", "runs")
    second = queue.pop(0.0)
    assert [unit.key for unit in (first, second) if unit is not None] == ["b/one", "a/one"]


def test_a_pod_that_was_charged_at_its_creation_borrows_once() -> None:
    state = ClusterState()
    for name in ("a", "b"):
        state.ledger.put_quota(make_quota(f"{name}/q").min(gpu=1).obj())
    queue = queue_of(state)
    charged, other = gpu_pod("a/charged", 2), gpu_pod("b/other", 2)
    state.ledger.charge("a", charged.uid, charged.requests, placed=False)
    queue.put(other, "b/other", 2.0, 0.0)
    queue.put(charged, "a/charged", 1.0, 0.0)
    found = queue.pop(0.0)
    assert found is not None
    assert found.key == "a/charged"
    assert [queue.order(unit)[0] for unit in queue.units.values()] == [(1, 0, 0, 1)] * 2
