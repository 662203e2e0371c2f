"""Sums over nominated pods in line, against the same sums pod by pod in random worlds."""

from __future__ import annotations

import random

import numpy as np
import pytest

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.nominations.line import charged_before
from scheduler_core.framework.nominations.nominated import ahead_on, requests_ahead
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_group, make_node, make_pod, make_quota

WIDTH = 8


def summed(vectors: list[Int64]) -> list[int]:
    """The sum of requests of any length, int64 [R] each."""
    total: Int64 = np.zeros(WIDTH, dtype=np.int64)
    for vector in vectors:
        total[: len(vector)] += vector
    return total.tolist()


def world(seed: int) -> ClusterState:
    """Two nodes with nominated pods of two quotas and of none, of gangs and alone; some are merely kept."""
    drawn, state = random.Random(seed), ClusterState()
    for name in ("n0", "n1"):
        state.put_node(make_node(name).allocatable(cpu=32, memory="64Gi", pods=110).obj())
    for namespace in ("a", "b"):
        state.put_quota(make_quota(f"{namespace}/q").min(cpu=drawn.randint(0, 6)).obj())
    state.put_gang(make_group("a/g").uid("g").needs(2).obj())
    for number in range(drawn.randint(2, 12)):
        made = make_pod(f"{drawn.choice('aaabc')}/p{number}").uid(f"p{number}").created(drawn.randint(0, 3))
        made = made.requests(cpu=drawn.randint(0, 3)).priority(drawn.randint(0, 2))
        member = drawn.random() < 0.2
        pod = (made.group("g") if member else made).obj()
        state.put_pod(pod, 0.0)
        kept, group = drawn.random() < 0.15, "a/g" if member and pod.namespace == "a" else ""
        node = drawn.choice(("n0", "n0", "n1"))
        state.nominations.put(
            pod, node, state.vector(pod), kept=kept, group=group if drawn.random() < 0.7 else ""
        )
    for uid in list(state.nominations.uids):
        if drawn.random() < 0.1:
            state.nominations.hold(uid)
    return state


@pytest.mark.parametrize("portion", [pytest.param(at, id=f"portion {'abcd'[at]}") for at in range(4)])
def test_the_sums_are_those_of_the_pods_one_by_one(portion: int) -> None:
    for seed in range(portion, 240, 4):
        state = world(seed)
        for uid in list(state.nominations.uids):
            item = state.nominations.get(uid)
            assert item is not None
            ahead = [other.vector for other in ahead_on(state, item.pod, item.node)]
            assert summed(requests_ahead(state, item)) == summed(ahead), (seed, uid)
            before = dict[str, int]()
            for other in state.nominations.waiting(lambda rights: not rights.kept):
                if other.pod.namespace == item.pod.namespace and other.rank < item.rank:
                    shift(before, charged(other.charge))
            found = {name: value for name, value in charged_before(state, item).items() if value}
            assert found == {name: value for name, value in before.items() if value}, (seed, uid)


def test_a_changed_nomination_changes_the_sums() -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=32, pods=10).obj())
    state.put_quota(make_quota("a/q").min(cpu=9).obj())
    first, second = (
        make_pod(f"a/p{age}").uid(f"p{age}").created(age).requests(cpu=2).obj() for age in (0, 1)
    )
    for pod in (first, second):
        state.nominations.put(pod, "n", state.vector(pod))
    item = state.nominations.get("p1")
    assert item is not None
    assert charged_before(state, item)["cpu"] == 2000
    state.nominations.remove("p0")
    assert not any(charged_before(state, item).values())
    assert not np.concatenate(requests_ahead(state, item)).any()
