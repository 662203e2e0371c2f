"""Copies the plugin settings that the cluster state needs from the profiles, before any object is added."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.framework.profile import Profile
from scheduler_core.model.pods.affinity import PodNodeAffinity as Affinity
from scheduler_core.plugins.capacity_scheduling import CapacityScheduling
from scheduler_core.plugins.coscheduling import Coscheduling
from scheduler_core.plugins.extenders import Extenders
from scheduler_core.plugins.node_affinity import NodeAffinity
from scheduler_core.plugins.node_unschedulable import NodeUnschedulable
from scheduler_core.plugins.pod_topology_spread import PodTopologySpread
from scheduler_core.plugins.taint_toleration import TaintToleration
from scheduler_core.plugins.topology_placement import ClusterTopologyPlacementGroup
from scheduler_core.quota.borrowing_history import BorrowingHistory
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nodes.rules import NodeRules


def apply_profiles(state: ClusterState, profiles: Mapping[str, Profile]) -> None:
    """Set what the state needs to know: profile names, node inclusion rules, topology settings, extender
    resources, whether groups form trees, how the sum of min is read and what holds among borrowers (alike
    in all profiles).
    """
    state.unplaced.own = frozenset(profiles)
    state.gangs.forest.enabled = wants_composites(profiles)
    for profile in profiles.values():
        state.nodes.rules[profile.name] = _node_rules(profile)
        for plugin in profile.plugins:
            if isinstance(plugin, ClusterTopologyPlacementGroup):
                state.topology.settings[profile.name] = plugin.settings
            elif isinstance(plugin, CapacityScheduling):
                state.ledger.aggregate, state.ledger.borrowing = plugin.aggregate, plugin.borrowing
                state.departures.limit = plugin.grace_limit
                state.displacements.hides_pods = plugin.hides_pods
                if plugin.borrowing.half_life > 0 and state.history is None:
                    state.history = BorrowingHistory(state.ledger, plugin.borrowing.half_life)
            elif isinstance(plugin, Extenders):
                if state.index.ensure(dict.fromkeys(sorted(plugin.accounted_for), 0)):
                    state.nodes.grow_rows()
                state.nodes.unlimited = plugin.accounted_for
                state.extending.guards = plugin.guards


def wants_composites(profiles: Mapping[str, Profile]) -> bool:
    """Whether a profile asks for CompositePodGroups (`compositePodGroups` of Coscheduling)."""
    plugins = (plugin for profile in profiles.values() for plugin in profile.plugins)
    return any(isinstance(plugin, Coscheduling) and plugin.composite_pod_groups for plugin in plugins)


def _node_rules(profile: Profile) -> NodeRules:
    filters = {plugin.name: plugin for plugin in profile.filter}
    affinity = filters.get(NodeAffinity.name)
    return NodeRules(
        taints=TaintToleration.name in filters,
        cordons=NodeUnschedulable.name in filters,
        affinity=affinity is not None,
        spread=PodTopologySpread.name in filters,
        added=affinity.added if isinstance(affinity, NodeAffinity) else Affinity(),
    )
