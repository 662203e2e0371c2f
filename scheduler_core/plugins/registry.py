"""The plugins that come with Muster, by name, and how each is made of its args."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.config.args import (
    SYSTEM_DEFAULTING,
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
)
from scheduler_core.config.spread_args import PodTopologySpreadArgs
from scheduler_core.framework.interface import Plugin
from scheduler_core.framework.registry import Factory
from scheduler_core.framework.spread import default_constraints
from scheduler_core.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from scheduler_core.plugins.capacity_scheduling import CapacityScheduling
from scheduler_core.plugins.default_binder import DefaultBinder
from scheduler_core.plugins.default_preemption import DefaultPreemption
from scheduler_core.plugins.inter_pod_affinity import InterPodAffinity
from scheduler_core.plugins.node_affinity import NodeAffinity
from scheduler_core.plugins.node_name import NodeName
from scheduler_core.plugins.node_resources_fit import NodeResourcesFit
from scheduler_core.plugins.node_unschedulable import NodeUnschedulable
from scheduler_core.plugins.pod_topology_spread import PodTopologySpread
from scheduler_core.plugins.priority_sort import PrioritySort
from scheduler_core.plugins.scheduling_gates import SchedulingGates
from scheduler_core.plugins.taint_toleration import TaintToleration


def _fit(args: NodeResourcesFitArgs) -> Plugin:
    resources = [(spec.name, spec.weight) for spec in args.strategy.resources]
    return NodeResourcesFit(resources, args.ignored_resources, args.ignored_resource_groups)


def _balanced(args: NodeResourcesBalancedAllocationArgs) -> Plugin:
    return NodeResourcesBalancedAllocation([(spec.name, spec.weight) for spec in args.resources])


def _affinity(args: InterPodAffinityArgs) -> Plugin:
    return InterPodAffinity(args.hard_pod_affinity_weight, args.ignore_preferred_terms_of_existing_pods)


def _spread(args: PodTopologySpreadArgs) -> Plugin:
    return PodTopologySpread(default_constraints(args), args.defaulting_type == SYSTEM_DEFAULTING)


FACTORIES: Final[Mapping[str, Factory]] = {
    "CapacityScheduling": lambda args: CapacityScheduling(args is None or args.cross_node_preemption),
    "DefaultBinder": lambda args: DefaultBinder(),
    "DefaultPreemption": lambda args: DefaultPreemption(),
    "InterPodAffinity": _affinity,
    "NodeAffinity": lambda args: NodeAffinity(),
    "NodeName": lambda args: NodeName(),
    "NodeResourcesBalancedAllocation": _balanced,
    "NodeResourcesFit": _fit,
    "NodeUnschedulable": lambda args: NodeUnschedulable(),
    "PodTopologySpread": _spread,
    "PrioritySort": lambda args: PrioritySort(),
    "SchedulingGates": lambda args: SchedulingGates(),
    "TaintToleration": lambda args: TaintToleration(),
}
