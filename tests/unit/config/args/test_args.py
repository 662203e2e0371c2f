"""Arguments of every plugin: defaults, and each rule with the path that it reports."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.config.args.muster import BorrowingArgs, CapacitySchedulingArgs, LoadAwareSchedulingArgs
from scheduler_core.config.args.typed import ARG_TYPES, decode_args, default_args
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.config.schema import OpaqueArgs, PluginArgs
from scheduler_core.errors import ConfigError


def read(plugin: str, raw: Any) -> PluginArgs:
    errors: list[ConfigError] = []
    args = decode_args(plugin, raw, "pluginConfig[0]", errors)
    assert not errors
    assert isinstance(args, PluginArgs)
    return args


def problems(plugin: str, raw: Any) -> list[tuple[str, str]]:
    return [(error.path, error.kind) for error in read(plugin, raw).problems("")]


@pytest.mark.parametrize("plugin", ARG_TYPES)
def test_the_defaults_of_a_plugin_are_valid_and_it_exists(plugin: str) -> None:
    assert plugin in KNOWN_PLUGINS
    args = default_args(plugin)
    assert args is not None
    assert list(args.problems("")) == []
    assert read(plugin, {}) == read(plugin, None) == args


def term(**requirement: Any) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def wish(**requirement: Any) -> dict[str, Any]:
    preferred = [{"weight": 1, "preference": {"matchFields": [requirement]}}]
    return {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}


NOTHING = {"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}


def spread(*constraints: dict[str, Any]) -> dict[str, Any]:
    return {"defaultingType": "List", "defaultConstraints": [*constraints]}


def ratio(*shape: tuple[int, int]) -> dict[str, Any]:
    points = [{"utilization": u, "score": s} for u, s in shape]
    kind = {"type": "RequestedToCapacityRatio", "requestedToCapacityRatio": {"shape": points}}
    return {"scoringStrategy": kind}


TERM = "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0]"
WISH = "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].matchFields[0]"
SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"
ZONE = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}

RULES: dict[str, tuple[str, dict[str, Any], list[tuple[str, str]]]] = {
    "preemption percentage below 0": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": -1},
        [("minCandidateNodesPercentage", "Invalid")],
    ),
    "preemption percentage above 100": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 900},
        [("minCandidateNodesPercentage", "Invalid")],
    ),
    "preemption absolute below 0": (
        "DefaultPreemption",
        {"minCandidateNodesAbsolute": -1},
        [("minCandidateNodesAbsolute", "Invalid")],
    ),
    "preemption both 0": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
        [("minCandidateNodesPercentage", "Invalid"), ("minCandidateNodesAbsolute", "Invalid")],
    ),
    "preemption both negative": (
        "DefaultPreemption",
        {"minCandidateNodesPercentage": -1, "minCandidateNodesAbsolute": -1},
        [("minCandidateNodesPercentage", "Invalid"), ("minCandidateNodesAbsolute", "Invalid")],
    ),
    "hard weight 0 and 100 are allowed": ("InterPodAffinity", {"hardPodAffinityWeight": 100}, []),
    "hard weight below 0": (
        "InterPodAffinity",
        {"hardPodAffinityWeight": -1},
        [("hardPodAffinityWeight", "Invalid")],
    ),
    "spread constraints": ("PodTopologySpread", spread(ZONE, {**ZONE, "topologyKey": "node"}), []),
    "spread list without constraints": ("PodTopologySpread", spread(), []),
    "spread skew": (
        "PodTopologySpread",
        spread({**ZONE, "maxSkew": -1}),
        [("defaultConstraints[0].maxSkew", "Invalid")],
    ),
    "spread without key": (
        "PodTopologySpread",
        spread({**ZONE, "topologyKey": ""}),
        [("defaultConstraints[0].topologyKey", "Required")],
    ),
    "spread with a bad key": (
        "PodTopologySpread",
        spread({**ZONE, "topologyKey": "a/b/c"}),
        [("defaultConstraints[0].topologyKey", "Invalid")],
    ),
    "spread without action": (
        "PodTopologySpread",
        spread({**ZONE, "whenUnsatisfiable": ""}),
        [("defaultConstraints[0].whenUnsatisfiable", "Required")],
    ),
    "spread with an unknown action": (
        "PodTopologySpread",
        spread({**ZONE, "whenUnsatisfiable": "unknown action"}),
        [("defaultConstraints[0].whenUnsatisfiable", "NotSupported")],
    ),
    "spread twice": ("PodTopologySpread", spread(ZONE, ZONE), [("defaultConstraints[1]", "Duplicate")]),
    "spread with a selector": (
        "PodTopologySpread",
        spread({**ZONE, "labelSelector": {}}),
        [("defaultConstraints[0].labelSelector", "Forbidden")],
    ),
    "spread of an unknown kind": (
        "PodTopologySpread",
        {"defaultingType": "unknown"},
        [("defaultingType", "NotSupported")],
    ),
    "balance with a weight": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu", "weight": 2}, {"name": "memory"}]},
        [("resources[0].weight", "Invalid")],
    ),
    "balance of one resource twice": (
        "NodeResourcesBalancedAllocation",
        {"resources": [{"name": "cpu"}, {"name": "cpu"}]},
        [("resources[1].name", "Duplicate")],
    ),
    "a good term": ("NodeAffinity", term(key="a.b/c", operator="In", values=["v"]), []),
    "a bad key": ("NodeAffinity", term(key="a/b/c", operator="Exists"), [(f"{TERM}.key", "Invalid")]),
    "an unknown operator": (
        "NodeAffinity",
        term(key="a", operator="Is"),
        [(f"{TERM}.operator", "NotSupported")],
    ),
    "In without values": ("NodeAffinity", term(key="a", operator="In"), [(f"{TERM}.values", "Invalid")]),
    "Exists with values": (
        "NodeAffinity",
        term(key="a", operator="Exists", values=["x"]),
        [(f"{TERM}.values", "Invalid")],
    ),
    "Gt with two values": (
        "NodeAffinity",
        term(key="a", operator="Gt", values=["1", "2"]),
        [(f"{TERM}.values", "Invalid")],
    ),
    "Gt of a word": (
        "NodeAffinity",
        term(key="a", operator="Gt", values=["x"]),
        [(f"{TERM}.values[0]", "Invalid")],
    ),
    "a field with two values": (
        "NodeAffinity",
        wish(key="metadata.name", operator="In", values=["n1", "n2"]),
        [(f"{WISH}.values", "Invalid")],
    ),
    "another field": (
        "NodeAffinity",
        wish(key="metadata.uid", operator="In", values=["n1"]),
        [(f"{WISH}.key", "NotSupported")],
    ),
    "a field that exists": (
        "NodeAffinity",
        wish(key="metadata.name", operator="Exists"),
        [(f"{WISH}.operator", "NotSupported")],
    ),
    "a wish that weighs nothing is not read": (
        "NodeAffinity",
        {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [NOTHING]}},
        [],
    ),
    "ignored resource names": (
        "NodeResourcesFit",
        {"ignoredResources": ["example.com/ok", "-bad", "/x", "UP.com/x", "a" * 64]},
        [(f"ignoredResources[{i}]", "Invalid") for i in (1, 2, 3, 4)],
    ),
    "ignored resource groups": (
        "NodeResourcesFit",
        {"ignoredResourceGroups": ["example.com", "a.com/b"]},
        [("ignoredResourceGroups[1]", "Invalid")],
    ),
    "a strategy without type": (
        "NodeResourcesFit",
        {"scoringStrategy": {"resources": [{"name": "cpu"}]}},
        [("scoringStrategy.type", "NotSupported")],
    ),
    "a resource weight above 100": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "LeastAllocated", "resources": [{"name": "cpu", "weight": 101}]}},
        [("scoringStrategy.resources[0].weight", "Invalid")],
    ),
    "a shape for another type": (
        "NodeResourcesFit",
        {"scoringStrategy": {"type": "MostAllocated", "requestedToCapacityRatio": {"shape": []}}},
        [("scoringStrategy.requestedToCapacityRatio", "Forbidden")],
    ),
    "a good shape": ("NodeResourcesFit", ratio((0, 0), (100, 10)), []),
    "an empty shape": ("NodeResourcesFit", ratio(), [(SHAPE, "Required")]),
    "a shape out of range": (
        "NodeResourcesFit",
        ratio((-1, 0), (50, 11), (101, -1)),
        [
            (f"{SHAPE}[0].utilization", "Invalid"),
            (f"{SHAPE}[1].score", "Invalid"),
            (f"{SHAPE}[2].utilization", "Invalid"),
            (f"{SHAPE}[2].score", "Invalid"),
        ],
    ),
    "bind timeout 0": ("VolumeBinding", {"bindTimeoutSeconds": 0}, []),
    "volumes scored by capacity": (
        "VolumeBinding",
        {"shape": [{"utilization": 1, "score": 1}, {"utilization": 1, "score": 11}]},
        [("shape[1].utilization", "Invalid"), ("shape[1].score", "Invalid")],
    ),
    "gang times": (
        "Coscheduling",
        {
            "gangReservationSeconds": -1,
            "gangReservationLimitSeconds": 0,
            "permitWaitingTimeSeconds": -1,
        },
        [
            ("gangReservationSeconds", "Invalid"),
            ("permitWaitingTimeSeconds", "Invalid"),
            ("gangReservationLimitSeconds", "Invalid"),
        ],
    ),
    "topology": (
        "ClusterTopologyPlacementGroup",
        {
            "topologyConfigMapNameSpace": "",
            "solverTimeBudgetMilliseconds": 0,
            "topologyLabels": ["zone", "a b"],
        },
        [
            ("topologyConfigMapNameSpace", "Required"),
            ("solverTimeBudgetMilliseconds", "Invalid"),
            ("topologyLabels[1]", "Invalid"),
        ],
    ),
    "load ranges": (
        "LoadAwareScheduling",
        {
            "nodeMetricExpirationSeconds": 0,
            "resourceWeights": {"cpu": 0},
            "dominantResourceWeight": 101,
            "usageThresholds": {"memory": -1},
            "estimatedScalingFactors": {"cpu": 101},
            "aggregated": {"usageThresholds": {"cpu": 101}, "scoreAggregationType": "p98"},
            "thresholdComparison": "Less",
        },
        [
            ("nodeMetricExpirationSeconds", "Invalid"),
            ("resourceWeights.cpu", "Invalid"),
            ("dominantResourceWeight", "Invalid"),
            ("usageThresholds.memory", "Invalid"),
            ("estimatedScalingFactors.cpu", "Invalid"),
            ("aggregated.usageThresholds.cpu", "Invalid"),
            ("aggregated.scoreAggregationType", "NotSupported"),
            ("thresholdComparison", "NotSupported"),
        ],
    ),
    "load durations": (
        "LoadAwareScheduling",
        {
            "estimatedSecondsAfterPodScheduled": -1,
            "estimatedSecondsAfterInitialized": -1,
            "aggregated": {"usageAggregatedDuration": "-5m", "scoreAggregatedDuration": "-1s"},
        },
        [
            ("estimatedSecondsAfterPodScheduled", "Invalid"),
            ("estimatedSecondsAfterInitialized", "Invalid"),
            ("aggregated.usageAggregatedDuration", "Invalid"),
            ("aggregated.scoreAggregatedDuration", "Invalid"),
        ],
    ),
    "load durations of 0": (
        "LoadAwareScheduling",
        {
            "estimatedSecondsAfterPodScheduled": 0,
            "estimatedSecondsAfterInitialized": 0,
            "aggregated": {"usageAggregatedDuration": "0s", "scoreAggregatedDuration": "0s"},
        },
        [],
    ),
    "prod thresholds may be beyond 100": ("LoadAwareScheduling", {"prodUsageThresholds": {"cpu": 700}}, []),
    "negative prod thresholds": (
        "LoadAwareScheduling",
        {"prodUsageThresholds": {"cpu": -1}},
        [("prodUsageThresholds.cpu", "Invalid")],
    ),
    "as many resources as a verdict can tell apart": (
        "LoadAwareScheduling",
        {"supportedResources": [f"example.com/r{n}" for n in range(29)]},
        [],
    ),
    "more resources than a verdict can tell apart": (
        "LoadAwareScheduling",
        {"supportedResources": [f"example.com/r{n}" for n in range(30)]},
        [("", "Invalid")],
    ),
}


@pytest.mark.parametrize(("plugin", "raw", "expected"), RULES.values(), ids=RULES.keys())
def test_rule(plugin: str, raw: dict[str, Any], expected: list[tuple[str, str]]) -> None:
    assert problems(plugin, raw) == expected


LOAD: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "defaults": (
        {},
        {
            "node_metric_expiration_seconds": 180,
            "resource_weights": {"cpu": 1, "memory": 1},
            "usage_thresholds": {"cpu": 65, "memory": 95},
            "estimated_scaling_factors": {"cpu": 85, "memory": 70},
            "threshold_comparison": "Greater",
        },
    ),
    "a dominant weight replaces the default weights": (
        {"dominantResourceWeight": 1},
        {"resource_weights": {}},
    ),
    "given maps stand alone, factors are filled per resource": (
        {
            "usageThresholds": {"cpu": 0},
            "resourceWeights": {"cpu": 2},
            "estimatedScalingFactors": {"gpu": 50},
        },
        {
            "usage_thresholds": {"cpu": 0},
            "resource_weights": {"cpu": 2},
            "estimated_scaling_factors": {"cpu": 85, "memory": 70, "gpu": 50},
        },
    ),
}


@pytest.mark.parametrize(("raw", "expected"), LOAD.values(), ids=LOAD.keys())
def test_load_aware_defaults(raw: dict[str, Any], expected: dict[str, Any]) -> None:
    args = read("LoadAwareScheduling", raw)
    assert isinstance(args, LoadAwareSchedulingArgs)
    assert {name: getattr(args, name) for name in expected} == expected


def test_durations_in_args_are_seconds() -> None:
    args = read("LoadAwareScheduling", {"aggregated": {"usageAggregatedDuration": "5m"}})
    assert isinstance(args, LoadAwareSchedulingArgs)
    assert args.aggregated is not None
    assert args.aggregated.usage_aggregated_duration == 300.0


def test_args_of_an_unknown_plugin_are_kept_as_they_are() -> None:
    errors: list[ConfigError] = []
    assert decode_args("Elsewhere", {"kind": "X", "a": [1]}, "", errors) == OpaqueArgs(
        {"kind": "X", "a": [1]}
    )
    assert decode_args("Elsewhere", None, "", errors) is None
    assert errors == []


@pytest.mark.parametrize(
    "header",
    [
        {"kind": "VolumeBindingArgs"},
        {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"},
        {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "VolumeBindingArgs"},
    ],
)
def test_args_may_name_their_type(header: dict[str, str]) -> None:
    assert read("VolumeBinding", header) == default_args("VolumeBinding")


@pytest.mark.parametrize("header", [{"kind": "NodeAffinityArgs"}, {"apiVersion": "example.com/v1"}])
def test_args_of_another_type_are_refused(header: dict[str, str]) -> None:
    errors: list[ConfigError] = []
    assert decode_args("VolumeBinding", header, "pluginConfig[0]", errors) is None
    (error,) = errors
    assert error.path == "pluginConfig[0]"
    assert "were not of type VolumeBindingArgs.kubescheduler.config.k8s.io" in error.problem


def test_rules_among_borrowers() -> None:
    given = {"borrowing": {"order": "FairShare", "preemption": "FairShare", "historyHalfLife": "24h"}}
    args = read("CapacityScheduling", given)
    assert isinstance(args, CapacitySchedulingArgs)
    assert args.borrowing == BorrowingArgs(
        order="FairShare", preemption="FairShare", history_half_life=86400.0
    )
    wrong = {"borrowing": {"order": "Random", "preemption": "Always", "historyHalfLife": "-1s"}}
    assert problems("CapacityScheduling", wrong) == [
        ("borrowing.order", "NotSupported"),
        ("borrowing.preemption", "NotSupported"),
        ("borrowing.historyHalfLife", "Invalid"),
    ]


@pytest.mark.parametrize(
    ("names", "wrong"),
    [("Pods", []), ("Quotas", []), ("Nobody", [("namesInEvents", "NotSupported")])],
)
def test_whom_events_name(names: str, wrong: list[tuple[str, str]]) -> None:
    assert problems("CapacityScheduling", {"namesInEvents": names}) == wrong


@pytest.mark.parametrize("seconds", [1, 300, 31_536_000])
def test_how_long_a_victim_may_have(seconds: int) -> None:
    args = read("CapacityScheduling", {"evictionGraceLimitSeconds": seconds})
    assert isinstance(args, CapacitySchedulingArgs)
    assert args.eviction_grace_limit_seconds == seconds
    assert problems("CapacityScheduling", {"evictionGraceLimitSeconds": seconds}) == []


@pytest.mark.parametrize(
    "seconds",
    [
        pytest.param(0, id="no grace period would end pods without their kubelets"),
        pytest.param(-1, id="negative"),
        pytest.param(31_536_001, id="more than a year"),
        pytest.param(2**63 - 1, id="for ever"),
    ],
)
def test_a_limit_that_makes_no_sense(seconds: int) -> None:
    given = {"evictionGraceLimitSeconds": seconds}
    assert problems("CapacityScheduling", given) == [("evictionGraceLimitSeconds", "Invalid")]
