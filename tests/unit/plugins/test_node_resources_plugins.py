"""NodeResourcesFit and NodeResourcesBalancedAllocation."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.config import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.framework.registry import build_profiles
from scheduler_core.framework.view import NodeView
from scheduler_core.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler_core.plugins.node_resources_fit import NodeResourcesFit
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.asking import ask, cluster, cycle_for, put, score, wakes
from tests.support.builders import make_node, make_pod


def configured(strategy: str) -> Any:
    """The plugin as a configuration with this scoringStrategy makes it."""
    text = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: s
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {strategy}}}
"""
    profile = build_profiles(load_config(text), FACTORIES, KNOWN_PLUGINS)["s"]
    return next(plugin for plugin in profile.plugins if plugin.name == "NodeResourcesFit")


def two() -> ClusterState:
    """`small` is half full, `large` nearly empty."""
    return cluster(
        make_node("small").allocatable(cpu="4", memory="4Gi").obj(),
        make_node("large").allocatable(cpu="10", memory="10Gi", gpu="4").obj(),
        make_pod("x/a").requests(cpu="2", memory="2Gi").on("small").obj(),
        make_pod("x/b").requests(cpu="1", memory="1Gi").on("large").obj(),
    )


@pytest.mark.parametrize(
    ("requests", "small", "large"),
    [
        pytest.param({"cpu": "2"}, set(), set(), id="exactly what is left fits"),
        pytest.param({"cpu": "2001m"}, {"Insufficient cpu"}, set(), id="a milli more does not"),
        pytest.param({"gpu": "1"}, {"Insufficient nvidia.com/gpu"}, set(), id="what a node lacks"),
        pytest.param(
            {"cpu": "11", "memory": "11Gi"},
            {"Insufficient cpu", "Insufficient memory"},
            {"Insufficient cpu", "Insufficient memory"},
            id="every short resource is named",
        ),
        pytest.param({"gpu": "0"}, set(), set(), id="nothing of an unknown resource"),
    ],
)
def test_fit(requests: dict[str, str], small: set[str], large: set[str]) -> None:
    found = ask(NodeResourcesFit(), two(), make_pod("x/p").requests(**requests).obj())
    assert found == {"small": small, "large": large}


def test_a_full_node_has_too_many_pods() -> None:
    state = cluster(make_node("n").allocatable(pods=1).obj(), make_pod("x/a").on("n").obj())
    assert ask(NodeResourcesFit(), state, make_pod("x/p").obj()) == {"n": {"Too many pods"}}


def test_ignored_resources_and_groups_do_not_count() -> None:
    pod = make_pod("x/p").requests(gpu="9").obj()
    for plugin in (
        NodeResourcesFit(ignored=["nvidia.com/gpu"]),
        NodeResourcesFit(ignored_groups=["nvidia.com"]),
    ):
        assert ask(plugin, two(), pod) == {"small": set(), "large": set()}
    native = NodeResourcesFit(ignored=["cpu"])
    assert ask(native, two(), make_pod("x/p").requests(cpu="99").obj())["small"] == {"Insufficient cpu"}


def test_evictions_help_only_where_the_pod_fits_an_empty_node() -> None:
    state, plugin = two(), NodeResourcesFit()
    cycle = cycle_for(state, make_pod("x/p").requests(cpu="4").obj())
    plugin.pre_filter(cycle)
    bits = plugin.filter(cycle, NodeView.all(state.nodes))
    reasons = plugin.reasons(cycle)
    unresolvable = [
        any(int(own) >> i & 1 and not r.resolvable for i, r in enumerate(reasons)) for own in bits
    ]
    assert [int(own) != 0 for own in bits] == [True, False]
    assert unresolvable == [False, False]
    cycle = cycle_for(state, make_pod("x/p").requests(cpu="5").obj())
    plugin.pre_filter(cycle)
    bits = plugin.filter(cycle, NodeView.all(state.nodes))
    assert any(int(bits[0]) >> i & 1 and not r.resolvable for i, r in enumerate(reasons))


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        # The pod asks for 1 cpu and 1Gi: 3 of 4 used on small, 2 of 10 on large.
        pytest.param(
            "{type: LeastAllocated, resources: [{name: cpu}]}", {"small": 25, "large": 80}, id="least"
        ),
        pytest.param(
            "{type: MostAllocated, resources: [{name: cpu}]}", {"small": 75, "large": 20}, id="most"
        ),
        pytest.param(
            "{type: RequestedToCapacityRatio, resources: [{name: cpu}], requestedToCapacityRatio:"
            " {shape: [{utilization: 0}, {utilization: 50, score: 10}, {utilization: 100, score: 5}]}}",
            {"small": 75, "large": 40},
            id="ratio along a broken line",
        ),
        pytest.param(
            "{type: LeastAllocated, resources: [{name: cpu, weight: 3}, {name: nvidia.com/gpu, weight: 1}]}",
            {"small": 25, "large": 80},
            id="a resource that the pod does not ask for is left out",
        ),
    ],
)
def test_scoring_strategies(strategy: str, expected: dict[str, int]) -> None:
    pod = make_pod("x/p").requests(cpu="1", memory="1Gi").obj()
    assert score(configured(strategy), two(), pod) == expected


def test_containers_without_requests_count_with_the_usual_defaults() -> None:
    state = cluster(make_node("n").allocatable(cpu="1", memory="1000Mi").obj())
    # 100m of 1 cpu, 200Mi of 1000Mi: (90 + 80) / 2.
    assert score(NodeResourcesFit(), state, make_pod("x/p").obj()) == {"n": 85}


def test_balance_prefers_nodes_that_become_more_even() -> None:
    state = cluster(
        make_node("even").allocatable(cpu="4", memory="4Gi").obj(),
        make_node("skewed").allocatable(cpu="2", memory="8Gi").obj(),
        make_node("improved").allocatable(cpu="4", memory="8Gi").obj(),
        make_pod("x/memory").requests(memory="4Gi").on("improved").obj(),
    )
    pod = make_pod("x/p").requests(cpu="1", memory="1Gi").obj()
    # The balances without the pod are 100, 100 and 75; with it 100, 81 (81.25) and 81.
    assert score(NodeResourcesBalancedAllocation(), state, pod) == {"even": 75, "skewed": 65, "improved": 78}


def test_balance_has_no_opinion_on_pods_that_ask_for_nothing() -> None:
    assert score(NodeResourcesBalancedAllocation(), two(), make_pod("x/p").obj()) == {"small": 0, "large": 0}


def test_balance_over_configured_resources() -> None:
    plugin = NodeResourcesBalancedAllocation([("cpu", 1), ("memory", 1), ("nvidia.com/gpu", 1)])
    pod = make_pod("x/p").requests(cpu="4", memory="4Gi", gpu="2").obj()
    # large: halves of everything, before a tenth, a tenth and nothing, which is a balance of 95.
    # small: over in cpu and memory, and it lacks the third.
    assert score(plugin, two(), pod) == {"small": 75, "large": 77}


def test_nodes_without_the_configured_resources_keep_their_balance() -> None:
    plugin = NodeResourcesBalancedAllocation([("example.com/nowhere", 1)])
    assert score(plugin, two(), make_pod("x/p").requests(cpu="1").obj()) == {"small": 0, "large": 0}


@pytest.mark.parametrize(
    ("requests", "woken"),
    [
        pytest.param({"cpu": "1"}, True, id="a node that is large enough"),
        pytest.param({"cpu": "9"}, False, id="a node that is too small"),
    ],
)
def test_a_new_node_wakes_pods_that_it_could_hold(requests: dict[str, str], woken: bool) -> None:
    state, pod = two(), make_pod("x/p").requests(**requests).obj()
    events = put(state, make_node("new").allocatable(cpu="8", memory="8Gi").obj())
    assert wakes(NodeResourcesFit(), state, pod, events) is woken


def test_a_pod_that_ends_wakes_those_who_want_what_it_had() -> None:
    state = two()
    events = state.remove_pod("x/a")
    assert wakes(NodeResourcesFit(), state, make_pod("x/p").requests(cpu="1").obj(), events)
    assert not wakes(NodeResourcesFit(), state, make_pod("x/p").requests(gpu="1").obj(), events)
