"""Factories of the plugins that Muster ships, by plugin name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import msgspec

from scheduler_core.config.args.kubernetes import (
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ScoringStrategy,
    VolumeBindingArgs,
)
from scheduler_core.config.args.muster import (
    SEED_RESULTS,
    CapacitySchedulingArgs,
    ClusterTopologyPlacementGroupArgs,
    CoschedulingArgs,
)
from scheduler_core.config.args.spread import PodTopologySpreadArgs
from scheduler_core.framework.allocation import LEAST, MOST, ResourceScoring, capacity_ratio
from scheduler_core.framework.interface import Plugin
from scheduler_core.framework.registry import Factory
from scheduler_core.framework.spread import default_constraints
from scheduler_core.model import names
from scheduler_core.model.pods.affinity import read_node_affinity
from scheduler_core.model.quotas.borrowing import Borrowing
from scheduler_core.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler_core.plugins.capacity_scheduling import CapacityScheduling
from scheduler_core.plugins.coscheduling import Coscheduling
from scheduler_core.plugins.default_binder import DefaultBinder
from scheduler_core.plugins.default_preemption import DefaultPreemption
from scheduler_core.plugins.image_locality import ImageLocality
from scheduler_core.plugins.inter_pod_affinity import InterPodAffinity
from scheduler_core.plugins.load_aware import load_aware
from scheduler_core.plugins.node_affinity import NodeAffinity
from scheduler_core.plugins.node_name import NodeName
from scheduler_core.plugins.node_ports import NodePorts
from scheduler_core.plugins.node_resources_fit import NodeResourcesFit
from scheduler_core.plugins.node_unschedulable import NodeUnschedulable
from scheduler_core.plugins.pod_topology_spread import PodTopologySpread
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.plugins.quota_flavors import QuotaFlavors
from scheduler_core.plugins.scheduling_gates import SchedulingGates
from scheduler_core.plugins.taint_toleration import TaintToleration
from scheduler_core.plugins.topology_placement import ClusterTopologyPlacementGroup
from scheduler_core.plugins.volumes.node_volume_limits import NodeVolumeLimits
from scheduler_core.plugins.volumes.volume_binding import VolumeBinding
from scheduler_core.plugins.volumes.volume_restrictions import VolumeRestrictions
from scheduler_core.plugins.volumes.volume_zone import VolumeZone
from scheduler_core.state.topology import TopologySettings


def _fit(args: NodeResourcesFitArgs) -> Plugin:
    resources = [(spec.name, spec.weight) for spec in args.strategy.resources]
    strategy = _strategy(args.strategy)
    return NodeResourcesFit(resources, args.ignored_resources, args.ignored_resource_groups, strategy)


def _strategy(args: ScoringStrategy) -> ResourceScoring:
    if args.type == REQUESTED_TO_CAPACITY_RATIO and args.requested_to_capacity_ratio is not None:
        shape = [(point.utilization, point.score) for point in args.requested_to_capacity_ratio.shape]
        return ResourceScoring(capacity_ratio(shape), scored_only=True)
    return MOST if args.type == MOST_ALLOCATED else LEAST


def _volume_binding(args: VolumeBindingArgs) -> Plugin:
    return VolumeBinding(capacity_ratio([(point.utilization, point.score) for point in args.shape]))


def _node_affinity(args: NodeAffinityArgs) -> Plugin:
    return NodeAffinity(read_node_affinity(msgspec.to_builtins(args.added_affinity)))


def _balanced(args: NodeResourcesBalancedAllocationArgs) -> Plugin:
    return NodeResourcesBalancedAllocation([(spec.name, spec.weight) for spec in args.resources])


def _affinity(args: InterPodAffinityArgs) -> Plugin:
    return InterPodAffinity(args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods)


def _spread(args: PodTopologySpreadArgs) -> Plugin:
    return PodTopologySpread(default_constraints(args), args.defaulting_type == SYSTEM_DEFAULTING)


def _capacity(args: CapacitySchedulingArgs | None) -> Plugin:
    args = args or CapacitySchedulingArgs()
    found = args.borrowing
    borrowing = Borrowing(found.order, found.preemption, found.history_half_life)
    # Validated: it is one of the two.
    aggregate = cast(names.Aggregate, args.aggregate)
    limit, hides_pods = args.eviction_grace_limit_seconds, args.names_in_events == names.QUOTAS_IN_EVENTS
    across = args.cross_node_preemption
    return CapacityScheduling(across, aggregate, borrowing, QuotaFlavors(), limit, hides_pods=hides_pods)


def _coscheduling(args: CoschedulingArgs | None) -> Plugin:
    args = args or CoschedulingArgs()
    seconds, limit = float(args.gang_reservation_seconds), float(args.gang_reservation_limit_seconds)
    strict, budgets = args.strict_reservation, args.disruption_budgets
    composite = args.composite_pod_groups
    return Coscheduling(args.require_pod_group, seconds, strict, limit, budgets, composite)


def _topology(args: ClusterTopologyPlacementGroupArgs | None) -> Plugin:
    args = args or ClusterTopologyPlacementGroupArgs()
    seconds = args.solver_time_budget_milliseconds / 1000
    return ClusterTopologyPlacementGroup(
        TopologySettings(
            args.topology_config_map_name_space,
            args.topology_labels,
            seconds,
            args.solver,
            args.results_format == SEED_RESULTS,
        )
    )


FACTORIES: Final[Mapping[str, Factory]] = {
    names.CAPACITY_SCHEDULING: _capacity,
    names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP: _topology,
    names.COSCHEDULING: _coscheduling,
    names.DEFAULT_BINDER: lambda args: DefaultBinder(),
    names.DEFAULT_PREEMPTION: lambda args: DefaultPreemption(),
    names.IMAGE_LOCALITY: lambda args: ImageLocality(),
    names.INTER_POD_AFFINITY: _affinity,
    names.LOAD_AWARE_SCHEDULING: load_aware,
    names.NODE_AFFINITY: _node_affinity,
    names.NODE_NAME: lambda args: NodeName(),
    names.NODE_PORTS: lambda args: NodePorts(),
    names.NODE_RESOURCES_BALANCED_ALLOCATION: _balanced,
    names.NODE_RESOURCES_FIT: _fit,
    names.NODE_UNSCHEDULABLE: lambda args: NodeUnschedulable(),
    names.NODE_VOLUME_LIMITS: lambda args: NodeVolumeLimits(),
    names.POD_TOPOLOGY_SPREAD: _spread,
    names.PRIORITY_SORT: lambda args: PrioritySort(),
    names.SCHEDULING_GATES: lambda args: SchedulingGates(),
    names.TAINT_TOLERATION: lambda args: TaintToleration(),
    names.VOLUME_BINDING: _volume_binding,
    names.VOLUME_RESTRICTIONS: lambda args: VolumeRestrictions(),
    names.VOLUME_ZONE: lambda args: VolumeZone(),
}
