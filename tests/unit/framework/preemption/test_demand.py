"""Whose pods may go for a pod, and how much of the quota they must free."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_core.framework.preemption.demand import Demand, ordinary_demand, quota_demand, quota_demands
from scheduler_core.model.names import CHARGED_ANNOTATION
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota

# namespace/name, CPUs, priority
RUNNING = [
    ("a/low", 1, 0), ("a/high", 1, 9), ("b/low", 2, 0), ("b/high", 2, 9), ("c/low", 1, 0), ("free/low", 1, 0),
    ("free/high", 1, 9), ("free/same", 1, 5),
]  # fmt: skip


def cluster(**minima: int) -> ClusterState:
    """All of these on one node; quotas with so many CPUs of min."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=20).obj())
    for namespace, low in minima.items():
        state.put_quota(make_quota(f"{namespace}/q").min(cpu=low).max(cpu=5).obj())
    for key, cpu, priority in RUNNING:
        state.put_pod(make_pod(key).uid(key).requests(cpu=cpu).priority(priority).on("n").obj())
    return state


def asking(key: str, cpu: int = 1, priority: int = 5) -> PodBuilder:
    return make_pod(key).uid(key).requests(cpu=cpu).priority(priority)


def eligible(state: ClusterState, demand: Demand) -> set[str]:
    rows = demand.eligible.nonzero()[0]
    return {pod.key for pod in state.table.of(rows)}


def demanded(state: ClusterState, pod: PodBuilder) -> Demand:
    parsed = pod.obj()
    quota = state.ledger.quota_of(parsed.namespace)
    assert quota is not None
    return quota_demand(state, parsed, quota)


def need(demand: Demand) -> int:
    return int(demand.need[0]) // 1000


def test_without_quotas_whoever_is_strictly_less_important_may_go() -> None:
    state = cluster()
    found = ordinary_demand(state, asking("free/p").obj(), spare_quotas=True)
    assert eligible(state, found) == {"a/low", "b/low", "c/low", "free/low"}
    assert (need(found), found.quota, found.borrowers) == (0, None, None)
    assert int(found.request[0]) == 1000


def test_pods_under_quotas_and_pods_under_none_leave_each_other_alone() -> None:
    state = cluster(a=1, b=1)
    found = ordinary_demand(state, asking("free/p").obj(), spare_quotas=True)
    assert eligible(state, found) == {"c/low", "free/low"}
    assert "a/low" in eligible(state, ordinary_demand(state, asking("free/p").obj(), spare_quotas=False))


def test_a_leaving_pod_is_no_victim() -> None:
    state = cluster()
    state.mark_leaving("free/low")
    assert "free/low" not in eligible(
        state, ordinary_demand(state, asking("free/p").obj(), spare_quotas=True)
    )


def test_within_the_min_pods_of_quotas_over_theirs_may_go_whatever_their_priority() -> None:
    state = cluster(a=3, b=3, c=1)
    found = demanded(state, asking("a/p"))
    assert eligible(state, found) == {"b/low", "b/high"}
    assert found.borrowers is not None
    assert [quota.namespace for quota in found.borrowers.quotas] == ["b"]


def test_above_the_min_lower_priorities_of_the_own_namespace_may_go() -> None:
    state = cluster(a=2, b=3)
    found = demanded(state, asking("a/p"))
    assert (eligible(state, found), found.borrowers) == ({"a/low"}, None)


@pytest.mark.parametrize(
    ("minima", "cpu", "short"),
    [
        pytest.param({"a": 4, "b": 3}, 1, 0, id="the sum of min has room"),
        pytest.param({"a": 3, "b": 3}, 1, 1, id="used and asked are one above it"),
        pytest.param({"a": 3, "b": 3}, 0, 0, id="nothing is asked for"),
        pytest.param({"a": 2, "b": 9}, 4, 1, id="above the min: what exceeds the own max"),
        pytest.param({"a": 2, "b": 2}, 4, 6, id="above the min: the larger of both"),
    ],
)
def test_what_must_come_free_for_the_quota(minima: dict[str, int], cpu: int, short: int) -> None:
    assert need(demanded(cluster(**minima), asking("a/p", cpu))) == short


def test_pods_that_leave_need_not_be_evicted_and_do_not_borrow() -> None:
    state = cluster(a=3, b=3)
    state.mark_leaving("b/low")
    found = demanded(state, asking("a/p"))
    assert (need(found), eligible(state, found)) == (0, set())


def test_pods_that_are_nominated_count_where_they_go_first() -> None:
    state = cluster(a=4, b=3)
    waiting = asking("a/w", 1, 7)
    state.put_pod(waiting.obj())
    state.nominations.put(state.pods["a/w"], "n", state.vector(state.pods["a/w"]))
    assert need(demanded(state, asking("a/p"))) == 1
    assert need(demanded(state, asking("a/p", priority=8))) == 0, "it goes before what is less important"


def test_a_loan_is_of_the_resources_that_somebody_guarantees_or_the_quota_bounds() -> None:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=20, memory=99).obj())
    state.put_quota(make_quota("a/q").min(cpu=2).obj())
    state.put_quota(make_quota("b/q").min(cpu=1).obj())
    state.put_pod(make_pod("b/p").uid("b/p").requests(cpu=3, memory=9).on("n").obj())
    borrowers = demanded(state, asking("a/p")).borrowers
    assert borrowers is not None
    assert (borrowers.used[0, 0], borrowers.min[0, 0]) == (3000, 1000)
    assert borrowers.counts[0, :2].tolist() == [True, False]


def with_memory(*running: PodBuilder, **minima: dict[str, int]) -> ClusterState:
    """Quotas with these minima, no max; pods that run or leave."""
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=99, memory=99).obj())
    for namespace, low in minima.items():
        state.put_quota(make_quota(f"{namespace}/q").min(**low).obj())
    for pod in running:
        state.put_pod(pod.obj())
    return state


def runs(key: str, **requests: int) -> PodBuilder:
    return make_pod(key).uid(key).requests(**requests).on("n")


def test_no_quota_reclaims_from_itself_or_from_a_quota_within_its_min() -> None:
    """a is over its min in memory, of which the pod asks nothing."""
    state = with_memory(
        runs("a/own", memory=2),
        runs("b/x", cpu=2),
        runs("c/y", cpu=1),
        runs("free/z", cpu=3),
        a={"cpu": 5, "memory": 1},
        b={"cpu": 1},
        c={"cpu": 1},
    )
    found = demanded(state, asking("a/p"))
    assert found.borrowers is not None
    assert [quota.namespace for quota in found.borrowers.quotas] == ["b"]
    assert eligible(state, found) == {"b/x"}
    assert found.quota is state.ledger.quota_of("a")


def test_members_of_the_own_group_are_no_victims() -> None:
    state = with_memory(runs("free/other", cpu=1), runs("free/sibling", cpu=1).group("g"))
    waiting = make_pod("free/waiting").uid("waiting").group("g")
    state.put_pod(waiting.obj())
    found = ordinary_demand(state, asking("free/p").group("g").obj(), spare_quotas=True)
    assert eligible(state, found) == {"free/other"}
    assert eligible(state, ordinary_demand(state, asking("free/p").obj(), spare_quotas=True)) == {
        "free/other",
        "free/sibling",
    }


def test_each_lender_has_what_stays_of_its_use_and_its_min_in_what_is_its_business() -> None:
    state = with_memory(
        runs("b/x", cpu=3, memory=2),
        runs("b/leaves", cpu=1).deleting(1.0),
        runs("c/y", cpu=2, gpu=1),
        a={"cpu": 1},
        b={"cpu": 1, "memory": 4},
        c={},
    )
    borrowers = demanded(state, asking("a/p")).borrowers
    assert borrowers is not None
    rows = [state.index.row(name) for name in ("cpu", "memory", "nvidia.com/gpu")]
    place = {quota.namespace: number for number, quota in enumerate(borrowers.quotas)}
    assert set(place) == {"b", "c"}
    assert borrowers.used[place["b"], rows].tolist() == [3000, 2, 0]
    assert borrowers.min[place["b"], rows].tolist() == [1000, 4, 0]
    assert borrowers.used[place["c"], rows].tolist() == [2000, 0, 0]
    assert borrowers.min[place["c"], rows].tolist() == [0, 0, 0]
    assert borrowers.counts[:, rows].tolist() == [[True, True, False]] * 2
    spaces = state.table.namespaces
    assert {name: int(borrowers.of[spaces.find(name)]) for name in ("b", "c")} == place


def test_what_is_lacking_is_told_per_resource_that_is_asked_for() -> None:
    state = with_memory(
        runs("b/x", cpu=3, memory=4),
        runs("b/leaves", memory=1).deleting(1.0),
        a={"cpu": 2, "memory": 2},
        b={},
    )
    rows = [state.index.row(name) for name in ("cpu", "memory")]
    for requests, needs in (
        ({"cpu": 2}, [3000, 0]),
        ({"cpu": 1, "memory": 2}, [2000, 4]),
        ({"memory": 1}, [0, 3]),
    ):
        found = demanded(state, make_pod("a/p").requests(**requests))
        assert found.need[rows].tolist() == needs, requests
        assert found.request[rows].tolist() == [1000 * requests.get("cpu", 0), requests.get("memory", 0)]


@pytest.mark.parametrize("key", ["free/p", "a/p", "b/p"], ids=["no quota", "above the min", "within the min"])
def test_pods_are_known_by_every_resource_that_some_node_has(key: str) -> None:
    """Nobody asked for GPUs when the pods were placed."""
    state = with_memory(runs("a/x", cpu=1), a={"cpu": 0}, b={"cpu": 5})
    state.put_node(make_node("m").allocatable(cpu=1, gpu=4).obj())
    pod = asking(key)
    found = ordinary_demand(state, pod.obj(), spare_quotas=True) if key == "free/p" else demanded(state, pod)
    assert len(found.request) == len(found.need) == len(state.index) == len(state.table.requests)


def charges(state: ClusterState) -> None:
    """Another scheduler will bind it."""
    state.put_pod(asking("b/w", 2).annotation(CHARGED_ANNOTATION, "true").scheduler("other").obj())


def nominates(state: ClusterState) -> None:
    waiting = asking("b/w", 2).obj()
    state.put_pod(waiting)
    state.nominations.put(waiting, "n", state.vector(waiting))


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        pytest.param([], [2], id="nobody else is in its way"),
        pytest.param([charges], [4, 2], id="pods without a node are not, once it is within its min"),
        pytest.param([nominates], [4, 2], id="nor are pods that would borrow what they evicted for"),
        pytest.param(
            [charges, lambda state: state.mark_leaving("a/low")], [0], id="it reclaims its min anyhow"
        ),
    ],
)
def test_evictions_in_its_own_quota_may_bring_a_pod_within_its_min(
    changes: list[Callable[[ClusterState], object]], needs: list[int]
) -> None:
    state = with_memory(runs("a/low", cpu=3), runs("a/more", cpu=1), a={"cpu": 3}, b={"cpu": 0})
    for change in changes:
        change(state)
    quota = state.ledger.quota_of("a")
    assert quota is not None
    assert [need(found) for found in quota_demands(state, asking("a/p").obj(), quota)] == needs
