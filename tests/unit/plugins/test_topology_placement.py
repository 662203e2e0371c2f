"""The plugin serves the extension points of the table, and leaves the placement to the engine."""

from __future__ import annotations

import numpy as np

from scheduler_core.config.args.muster import ClusterTopologyPlacementGroupArgs
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.framework.interface import POINTS
from scheduler_core.framework.status import Code, Diagnosis
from scheduler_core.framework.view import NodeView
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.plugins.topology_placement import ClusterTopologyPlacementGroup
from scheduler_core.state.cluster import ClusterState
from tests.support.asking import cycle_for
from tests.support.builders import make_pod


def test_it_serves_the_points_of_the_table() -> None:
    plugin = ClusterTopologyPlacementGroup()
    served = {point for point, kind in POINTS.items() if isinstance(plugin, kind)}
    assert served == KNOWN_PLUGINS[plugin.name]


def test_its_arguments_reach_it() -> None:
    args = ClusterTopologyPlacementGroupArgs(
        topology_config_map_name_space="sakkara",
        solver_time_budget_milliseconds=100,
        topology_labels=("zone",),
    )
    made = FACTORIES["ClusterTopologyPlacementGroup"](args)
    assert isinstance(made, ClusterTopologyPlacementGroup)
    settings = made.settings
    assert (settings.namespace, settings.budget_seconds, settings.labels) == ("sakkara", 0.1, ("zone",))


def test_a_member_alone_decides_nothing() -> None:
    plugin, state = ClusterTopologyPlacementGroup(), ClusterState()
    cycle = cycle_for(state, make_pod("a/p").obj())
    assert plugin.pre_enqueue(state, cycle.pod).ok
    assert plugin.pre_score(cycle, np.zeros(0, dtype=np.bool_)).code is Code.SKIP
    assert not plugin.score(cycle, NodeView.all(state.nodes)).any()
    assert not plugin.post_filter(cycle, Diagnosis(0)).status.ok
    assert plugin.reserve(cycle, 0).ok
    assert plugin.permit(cycle, 0)[0].ok
    assert plugin.post_bind(cycle, 0) == ()
