"""Translates algorithm providers and Policy files of old configurations to plugin lists and arguments.

The tables follow what kube-scheduler's predicates and priorities became. Scores that were plugins of their
own (least, most and ratio of the requested resources) are today one plugin with a strategy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import structs

from scheduler_core.config.args.kubernetes import (
    LEAST_ALLOCATED,
    LIST_DEFAULTING,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    SYSTEM_DEFAULTING,
    ResourceSpec,
    ShapePoint,
)
from scheduler_core.config.decode import Int32, Int64, decode
from scheduler_core.config.documents import parse_document, plain
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.config.problems import ConfigErrors, child, index, invalid, not_supported
from scheduler_core.config.schema import PluginEntry, PluginSet
from scheduler_core.config.versioned import LegacyExtender
from scheduler_core.errors import ConfigError
from scheduler_core.model import names

DEFAULT_PROVIDER: Final = "DefaultProvider"
AUTOSCALER_PROVIDER: Final = "ClusterAutoscalerProvider"
PROVIDERS: Final = (AUTOSCALER_PROVIDER, DEFAULT_PROVIDER)
_POINTS: Final = ("preFilter", "filter", "preScore", "score", "reserve", "preBind")
_MAX_WEIGHT: Final = (2**63 - 1) // 100

# Predicates in the order in which they ran.
_PREDICATES: Final[Mapping[str, tuple[str, ...]]] = {
    "CheckNodeUnschedulable": (names.NODE_UNSCHEDULABLE,),
    "GeneralPredicates": (names.NODE_RESOURCES_FIT, names.NODE_NAME, names.NODE_PORTS, names.NODE_AFFINITY),
    "HostName": (names.NODE_NAME,),
    "PodFitsHostPorts": (names.NODE_PORTS,),
    "PodFitsPorts": (names.NODE_PORTS,),
    "MatchNodeSelector": (names.NODE_AFFINITY,),
    "PodFitsResources": (names.NODE_RESOURCES_FIT,),
    "NoDiskConflict": (names.VOLUME_RESTRICTIONS,),
    "PodToleratesNodeTaints": (names.TAINT_TOLERATION,),
    "MaxEBSVolumeCount": (names.NODE_VOLUME_LIMITS,),
    "MaxGCEPDVolumeCount": (names.NODE_VOLUME_LIMITS,),
    "MaxCSIVolumeCountPred": (names.NODE_VOLUME_LIMITS,),
    "MaxAzureDiskVolumeCount": (names.NODE_VOLUME_LIMITS,),
    "MaxCinderVolumeCount": (names.NODE_VOLUME_LIMITS,),
    "CheckVolumeBinding": (names.VOLUME_BINDING,),
    "NoVolumeZoneConflict": (names.VOLUME_ZONE,),
    "EvenPodsSpread": (names.POD_TOPOLOGY_SPREAD,),
    "MatchInterPodAffinity": (names.INTER_POD_AFFINITY,),
}
_MANDATORY: Final = frozenset({"PodToleratesNodeTaints", "CheckNodeUnschedulable"})
_DEFAULT_PREDICATES: Final = frozenset(_PREDICATES) - {"MaxCinderVolumeCount", "PodFitsPorts"}

_SCORES: Final[Mapping[str, str]] = {
    "BalancedResourceAllocation": names.NODE_RESOURCES_BALANCED_ALLOCATION,
    "EvenPodsSpreadPriority": names.POD_TOPOLOGY_SPREAD,
    "ImageLocalityPriority": names.IMAGE_LOCALITY,
    "InterPodAffinityPriority": names.INTER_POD_AFFINITY,
    "LeastRequestedPriority": names.NODE_RESOURCES_FIT,
    "MostRequestedPriority": names.NODE_RESOURCES_FIT,
    "NodeAffinityPriority": names.NODE_AFFINITY,
    "RequestedToCapacityRatio": names.NODE_RESOURCES_FIT,
    "SelectorSpreadPriority": names.POD_TOPOLOGY_SPREAD,
    "ServiceSpreadingPriority": names.POD_TOPOLOGY_SPREAD,
    "TaintTolerationPriority": names.TAINT_TOLERATION,
}
# They add the same to every node, or read an annotation that Kubernetes removed.
_WITHOUT_EFFECT: Final = frozenset({"EqualPriority", "NodePreferAvoidPodsPriority"})
_STRATEGIES: Final[Mapping[str, str]] = {
    "LeastRequestedPriority": LEAST_ALLOCATED,
    "MostRequestedPriority": MOST_ALLOCATED,
    "RequestedToCapacityRatio": REQUESTED_TO_CAPACITY_RATIO,
}
_SPREADING: Final = frozenset({"SelectorSpreadPriority", "ServiceSpreadingPriority"})
_DEFAULT_PRIORITIES: Final[Mapping[str, int]] = {
    "SelectorSpreadPriority": 1,
    "InterPodAffinityPriority": 1,
    "LeastRequestedPriority": 1,
    "BalancedResourceAllocation": 1,
    "NodeAffinityPriority": 1,
    "TaintTolerationPriority": 1,
    "ImageLocalityPriority": 1,
    "EvenPodsSpreadPriority": 2,
}


class Predicate(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    argument: Any = None


class RatioArgument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    shape: tuple[ShapePoint, ...] = ()
    resources: tuple[ResourceSpec, ...] = ()


class PriorityArgument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    requested_to_capacity_ratio_arguments: RatioArgument | None = None
    service_anti_affinity: Any = None
    label_preference: Any = None


class Priority(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    weight: Int64 = 0
    argument: PriorityArgument | None = None


class PolicyExtender(LegacyExtender, frozen=True, kw_only=True, rename="camel"):
    """An extender of a policy, whose timeout is in nanoseconds."""

    http_timeout: Int64 = 0


class Policy(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A scheduling policy. Absent predicates or priorities mean the defaults, empty ones mean none."""

    kind: str = ""
    api_version: str = ""
    predicates: tuple[Predicate, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    extenders: tuple[PolicyExtender, ...] = ()
    hard_pod_affinity_symmetric_weight: Int32 | None = None
    always_check_all_predicates: bool = False


class Algorithm(msgspec.Struct, frozen=True, kw_only=True):
    """The translation of a provider or policy: lists that replace the defaults, raw arguments per plugin."""

    points: dict[str, PluginSet] = msgspec.field(default_factory=dict)
    args: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    extenders: tuple[LegacyExtender, ...] = ()
    hard_pod_affinity_weight: int | None = None


def provider_algorithm(provider: str, path: str) -> Algorithm:
    """The algorithm of a provider by name; raises ConfigErrors for an unknown one."""
    if provider in ("", DEFAULT_PROVIDER):
        return Algorithm()
    if provider == AUTOSCALER_PROVIDER:
        return Algorithm(args={names.NODE_RESOURCES_FIT: {"scoringStrategy": {"type": MOST_ALLOCATED}}})
    raise ConfigErrors([not_supported(path, provider, PROVIDERS)])


def policy_algorithm(text: str) -> Algorithm:
    """The algorithm of a Policy file; raises ConfigErrors with paths inside that file."""
    raw = parse_document(text)
    errors: list[ConfigError] = []
    policy = decode(raw, Policy, "", errors)
    if policy.kind not in ("", "Policy"):
        errors.append(not_supported("kind", policy.kind, ["Policy"]))
    filters = _filter_plugins(policy.predicates, errors)
    scores, strategy = _score_plugins(policy.priorities, errors)
    if errors:
        raise ConfigErrors(errors)
    return Algorithm(
        points={point: PluginSet(tuple(_at(point, filters, scores))) for point in _POINTS},
        args=_score_args(policy.priorities, scores, strategy),
        extenders=tuple(
            structs.replace(extender, http_timeout=extender.http_timeout / 1e9)
            for extender in policy.extenders
        ),
        hard_pod_affinity_weight=policy.hard_pod_affinity_symmetric_weight,
    )


def _filter_plugins(predicates: tuple[Predicate, ...] | None, errors: list[ConfigError]) -> list[str]:
    if predicates is None:
        wanted = set(_DEFAULT_PREDICATES)
    else:
        wanted = set(_MANDATORY)
        for i, predicate in enumerate(predicates):
            if predicate.name in _PREDICATES:
                wanted.add(predicate.name)
            else:
                path = child(index("predicates", i), "name")
                errors.append(not_supported(path, predicate.name, sorted(_PREDICATES)))
    ordered = [plugin for name, plugins in _PREDICATES.items() if name in wanted for plugin in plugins]
    return list(dict.fromkeys(ordered))


def _score_plugins(
    priorities: tuple[Priority, ...] | None, errors: list[ConfigError]
) -> tuple[dict[str, int], dict[str, Any]]:
    """Weight per plugin, the larger one where two priorities became one plugin, and the fit strategy."""
    if priorities is None:
        priorities = tuple(Priority(name=name, weight=w) for name, w in _DEFAULT_PRIORITIES.items())
    scores: dict[str, int] = {}
    strategy: dict[str, Any] = {}
    for i, priority in enumerate(priorities):
        path = index("priorities", i)
        name = _priority_name(priority)
        if not 0 < priority.weight < _MAX_WEIGHT:
            rule = f"priority {priority.name} should have a positive weight applied to it"
            errors.append(invalid(child(path, "weight"), priority.weight, rule))
        elif name in _SCORES:
            scores[_SCORES[name]] = max(priority.weight, scores.get(_SCORES[name], 0))
            if name in _STRATEGIES:
                strategy = _next_strategy(strategy, name, priority, path, errors)
        elif name not in _WITHOUT_EFFECT:
            known = sorted({*_SCORES, *_WITHOUT_EFFECT})
            errors.append(not_supported(child(path, "name"), priority.name, known))
    return scores, strategy


def _score_args(
    priorities: tuple[Priority, ...] | None, scores: Mapping[str, int], strategy: dict[str, Any]
) -> dict[str, dict[str, Any]]:
    """Without a priority that spreads every pod, only pods with constraints of their own are spread."""
    args: dict[str, dict[str, Any]] = {}
    if strategy:
        args[names.NODE_RESOURCES_FIT] = {"scoringStrategy": strategy}
    if names.POD_TOPOLOGY_SPREAD in scores:
        named = {priority.name for priority in priorities} if priorities is not None else _SPREADING
        kind = SYSTEM_DEFAULTING if named & _SPREADING else LIST_DEFAULTING
        args[names.POD_TOPOLOGY_SPREAD] = {"defaultingType": kind}
    return args


def _priority_name(priority: Priority) -> str:
    argument = priority.argument
    if argument is not None and argument.requested_to_capacity_ratio_arguments is not None:
        return "RequestedToCapacityRatio"
    return priority.name


def _next_strategy(
    before: dict[str, Any], name: str, priority: Priority, path: str, errors: list[ConfigError]
) -> dict[str, Any]:
    strategy: dict[str, Any] = {"type": _STRATEGIES[name]}
    argument = priority.argument.requested_to_capacity_ratio_arguments if priority.argument else None
    if argument is not None:
        strategy["requestedToCapacityRatio"] = {"shape": plain(argument.shape)}
        strategy["resources"] = plain(argument.resources)
    if before and before != strategy:
        rule = f"NodeResourcesFit scores by one strategy, and {before['type']} is given before"
        errors.append(invalid(child(path, "name"), priority.name, rule))
    return strategy


def _at(point: str, filters: Iterable[str], scores: Mapping[str, int]) -> Iterable[PluginEntry]:
    if point == "score":
        return [PluginEntry(name, weight) for name, weight in sorted(scores.items())]
    names = sorted(scores) if point == "preScore" else filters
    return [PluginEntry(name) for name in names if point in KNOWN_PLUGINS[name]]
