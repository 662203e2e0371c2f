"""Whom a pod of a quota takes across its min, beside asking each waiting pod before and after."""

from __future__ import annotations

import random

from scheduler_core.framework.queueing.hints import NOBODY, Reach
from scheduler_core.framework.queueing.min_crossing import enter_the_min, leave_the_min
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.policy import within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.every import every_seed

NAMES = ("cpu", "memory", "pods")


def some_pod(rng: random.Random, name: str) -> PodBuilder:
    asked = {name: rng.randint(1, 6) for name in ("cpu", "memory") if rng.random() < 0.8}
    return make_pod(f"a/{name}").uid(name).requests(**asked)


def cluster(rng: random.Random) -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=64, memory=64, pods=64).obj())
    least = {name: rng.randint(1, 14) for name in NAMES if rng.random() < 0.7}
    state.put_quota(make_quota("a/q").min(**least).max(cpu=50).obj())
    state.put_quota(make_quota("b/q").min(memory=5).obj())
    for number in range(rng.randint(1, 5)):
        state.put_pod(some_pod(rng, f"runs{number}").on("n").obj(), 0.0)
    if rng.random() < 0.5:
        first = some_pod(rng, "nominated").obj()
        state.put_pod(first, 0.0)
        state.nominations.put(first, "n", state.vector(first), frozenset({"runs0"}))
    return state


def within(state: ClusterState, pod: Pod, beside: dict[str, int]) -> bool:
    quota = state.ledger.quota_of("a")
    assert quota is not None
    return within_min(state.ledger, quota, pod.requests, beside)


def reached(state: ClusterState, reach: Reach, pod: Pod) -> bool:
    if reach == NOBODY:
        return False
    assert reach.namespaces == {"a"}
    assert reach.band is not None
    asked = state.vector(pod)
    fits = [bool((asked <= limit[: len(asked)]).all()) for limit in (reach.band.most, reach.band.least)]
    return fits == [True, False]


@every_seed(range(150))
def test_whoever_crosses_the_min_is_reached(seed: int) -> None:
    rng = random.Random(seed)
    state, waiting = cluster(rng), [some_pod(rng, f"waits{number}").obj() for number in range(30)]
    sums = list(state.nominations.sums.values())
    besides: list[dict[str, int]] = [{}, *sums]
    before = [[within(state, pod, beside) for beside in besides] for pod in waiting]
    gone = state.pods["runs0"]
    state.remove_pod("runs0")
    reach = enter_the_min(state, ClusterEvent(EventKind.POD_DELETE, pod=gone))
    after = [[within(state, pod, beside) for beside in besides] for pod in waiting]
    crossed = [pod for pod, one, two in zip(waiting, before, after, strict=True) if one != two]
    assert all(reached(state, reach, pod) for pod in crossed)
    state.put_pod(gone, 0.0)
    reach = leave_the_min(state, ClusterEvent(EventKind.POD_ADD, pod=gone))
    assert all(reached(state, reach, pod) for pod in crossed)
    if not sums:
        assert [pod.name for pod in waiting if reached(state, reach, pod)] == [pod.name for pod in crossed]


def test_of_a_pod_without_a_quota_nobody_hears() -> None:
    state = cluster(random.Random(0))
    for hint, what in ((enter_the_min, EventKind.POD_DELETE), (leave_the_min, EventKind.POD_ADD)):
        assert hint(state, ClusterEvent(what, pod=make_pod("free/p").requests(cpu=1).on("n").obj())) == NOBODY


def test_where_nodes_have_flavors_or_the_event_names_no_pod_the_whole_quota_hears() -> None:
    state = cluster(random.Random(0))
    assert enter_the_min(state, ClusterEvent(EventKind.POD_DELETE)).everybody
    own = enter_the_min(state, ClusterEvent(EventKind.POD_LEAVING, namespace="a"))
    assert own == Reach(namespaces=frozenset({"a"}))
