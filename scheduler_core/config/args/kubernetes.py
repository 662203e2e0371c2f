"""Typed arguments of the Kubernetes plugins: fields, defaults and validation.

Every class has `problems(path)`, which returns the errors of the arguments at `path`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import structs

from scheduler_core.config.args.affinity import NodeAffinityTerms, affinity_problems
from scheduler_core.config.decode import Int32, Int64
from scheduler_core.config.problems import (
    child,
    duplicate,
    forbidden,
    index,
    invalid,
    not_supported,
    out_of_range,
    required,
)
from scheduler_core.config.qualified import qualified_name_problem
from scheduler_core.config.schema import PluginArgs
from scheduler_core.errors import ConfigError

LEAST_ALLOCATED: Final = "LeastAllocated"
MOST_ALLOCATED: Final = "MostAllocated"
REQUESTED_TO_CAPACITY_RATIO: Final = "RequestedToCapacityRatio"
SYSTEM_DEFAULTING: Final = "System"
LIST_DEFAULTING: Final = "List"
MAX_SHAPE_SCORE: Final = 10


class ResourceSpec(msgspec.Struct, frozen=True, rename="camel"):
    """A resource and its weight; weight 0 stands for 1."""

    name: str = ""
    weight: Int64 = 0


CPU_AND_MEMORY: Final = (ResourceSpec("cpu", 1), ResourceSpec("memory", 1))


class ShapePoint(msgspec.Struct, frozen=True, rename="camel"):
    """A point of the scoring function: utilization in percent, score 0..10."""

    utilization: Int32 = 0
    score: Int32 = 0


# Storage that would be emptier is better (kube-scheduler since 1.37).
EMPTIER: Final = (ShapePoint(0, MAX_SHAPE_SCORE), ShapePoint(100, 0))


class RequestedToCapacityRatio(msgspec.Struct, frozen=True, rename="camel"):
    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    type: str = ""
    resources: tuple[ResourceSpec, ...] = ()
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy | None = None

    @property
    def strategy(self) -> ScoringStrategy:
        """The scoring strategy, never None."""
        return self.scoring_strategy or ScoringStrategy(type=LEAST_ALLOCATED, resources=CPU_AND_MEMORY)

    def filled(self) -> NodeResourcesFitArgs:
        resources = _weighted(self.strategy.resources)
        return structs.replace(self, scoring_strategy=structs.replace(self.strategy, resources=resources))

    def problems(self, path: str) -> Iterator[ConfigError]:
        yield from name_problems(child(path, "ignoredResources"), self.ignored_resources)
        yield from _group_problems(child(path, "ignoredResourceGroups"), self.ignored_resource_groups)
        yield from _strategy_problems(child(path, "scoringStrategy"), self.strategy)


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    resources: tuple[ResourceSpec, ...] = ()

    def filled(self) -> NodeResourcesBalancedAllocationArgs:
        return structs.replace(self, resources=_weighted(self.resources))

    def problems(self, path: str) -> Iterator[ConfigError]:
        seen: set[str] = set()
        for i, resource in enumerate(self.resources):
            place = index(child(path, "resources"), i)
            if resource.name in seen:
                yield duplicate(child(place, "name"), resource.name)
            seen.add(resource.name)
            if resource.weight != 1:
                yield invalid(child(place, "weight"), resource.weight, "must be 1")


class InterPodAffinityArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def problems(self, path: str) -> Iterator[ConfigError]:
        yield from out_of_range(child(path, "hardPodAffinityWeight"), self.hard_pod_affinity_weight, 0, 100)


class DefaultPreemptionArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100

    def problems(self, path: str) -> Iterator[ConfigError]:
        percentage = self.min_candidate_nodes_percentage
        absolute = self.min_candidate_nodes_absolute
        percentage_path = child(path, "minCandidateNodesPercentage")
        absolute_path = child(path, "minCandidateNodesAbsolute")
        yield from out_of_range(percentage_path, percentage, 0, 100)
        if absolute < 0:
            yield invalid(absolute_path, absolute, "not in valid range [0, inf)")
        if percentage == 0 and absolute == 0:
            both = "cannot be zero at the same time as "
            yield invalid(percentage_path, percentage, both + "minCandidateNodesAbsolute")
            yield invalid(absolute_path, absolute, both + "minCandidateNodesPercentage")


class NodeAffinityArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """`added_affinity` has the shape of a pod's nodeAffinity."""

    added_affinity: NodeAffinityTerms | None = None

    def problems(self, path: str) -> Iterator[ConfigError]:
        if self.added_affinity is not None:
            yield from affinity_problems(child(path, "addedAffinity"), self.added_affinity)


class VolumeBindingArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """`shape` scores how full storage would be; without points, emptier is better."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[ShapePoint, ...] = ()

    def filled(self) -> VolumeBindingArgs:
        return structs.replace(self, shape=self.shape or EMPTIER)

    def problems(self, path: str) -> Iterator[ConfigError]:
        timeout = self.bind_timeout_seconds
        if timeout < 0:
            rule = "invalid BindTimeoutSeconds, should not be a negative value"
            yield invalid(child(path, "bindTimeoutSeconds"), timeout, rule)
        yield from _shape_problems(child(path, "shape"), self.shape)


def _weighted(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(ResourceSpec(r.name, r.weight or 1) for r in resources) or CPU_AND_MEMORY


def name_problems(path: str, names: tuple[str, ...]) -> Iterator[ConfigError]:
    """The errors of qualified names in the list at `path`."""
    for i, name in enumerate(names):
        problem = qualified_name_problem(name)
        if problem:
            yield invalid(index(path, i), name, problem)


def _group_problems(path: str, groups: tuple[str, ...]) -> Iterator[ConfigError]:
    for i, group in enumerate(groups):
        if "/" in group:
            yield invalid(index(path, i), group, "resource group name can't contain '/'")
    yield from name_problems(path, groups)


def _strategy_problems(path: str, strategy: ScoringStrategy) -> Iterator[ConfigError]:
    types = (LEAST_ALLOCATED, MOST_ALLOCATED, REQUESTED_TO_CAPACITY_RATIO)
    if strategy.type not in types:
        yield not_supported(child(path, "type"), strategy.type, types)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            place = child(index(child(path, "resources"), i), "weight")
            rule = f"resource weight of {resource.name} not in valid range (0, 100]"
            yield invalid(place, resource.weight, rule)
    ratio = strategy.requested_to_capacity_ratio
    ratio_path = child(path, "requestedToCapacityRatio")
    if strategy.type != REQUESTED_TO_CAPACITY_RATIO:
        if ratio is not None:
            yield forbidden(ratio_path, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        yield required(ratio_path, "must be specified when type is RequestedToCapacityRatio")
    else:
        yield from _shape_problems(child(ratio_path, "shape"), ratio.shape)


def _shape_problems(path: str, shape: tuple[ShapePoint, ...]) -> Iterator[ConfigError]:
    if not shape:
        yield required(path, "at least one point must be specified")
    for i in range(1, len(shape)):
        if shape[i - 1].utilization >= shape[i].utilization:
            place = child(index(path, i), "utilization")
            yield invalid(place, shape[i].utilization, "values must be sorted in increasing order")
            break
    for i, point in enumerate(shape):
        yield from out_of_range(child(index(path, i), "utilization"), point.utilization, 0, 100)
        yield from out_of_range(child(index(path, i), "score"), point.score, 0, MAX_SHAPE_SCORE)
