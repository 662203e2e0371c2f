"""Policies and v1alpha1 documents that name them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.config import ConfigErrors, effective_plugins, load_config, plugin_args
from scheduler_core.config.old.policy import PROVIDERS, policy_algorithm, provider_algorithm

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1alpha1\nkind: KubeSchedulerConfiguration\n"
WITH_FILE = HEAD + "algorithmSource: {policy: {file: {path: policy.json}}}\n"


def running(policy: dict[str, Any], more: str = "") -> dict[str, list[tuple[str, int]]]:
    config = load_config(WITH_FILE + more, read_file=lambda name: json.dumps(policy))
    return {
        point: [tuple(ref) for ref in refs] for point, refs in effective_plugins(config.profiles[0]).items()
    }


def priorities(**weights: int) -> dict[str, Any]:
    return {"priorities": [{"name": name, "weight": weight} for name, weight in weights.items()]}


def named(refs: list[tuple[str, int]]) -> list[str]:
    return [name for name, _ in refs]


def test_an_empty_policy_runs_the_default_predicates_and_priorities() -> None:
    plugins = running({"kind": "Policy", "apiVersion": "v1"})
    assert named(plugins["filter"]) == [
        "NodeUnschedulable",
        "NodeResourcesFit",
        "NodeName",
        "NodePorts",
        "NodeAffinity",
        "VolumeRestrictions",
        "TaintToleration",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ]
    assert plugins["score"] == [
        ("ImageLocality", 1),
        ("InterPodAffinity", 1),
        ("NodeAffinity", 1),
        ("NodeResourcesBalancedAllocation", 1),
        ("NodeResourcesFit", 1),
        ("PodTopologySpread", 2),
        ("TaintToleration", 1),
    ]
    assert named(plugins["preBind"]) == ["VolumeBinding"]
    assert named(plugins["bind"]) == ["DefaultBinder"]
    assert named(plugins["queueSort"]) == ["PrioritySort"]


def test_empty_lists_leave_the_mandatory_predicates_and_no_scores() -> None:
    plugins = running({"predicates": [], "priorities": []})
    assert named(plugins["filter"]) == ["NodeUnschedulable", "TaintToleration"]
    assert plugins["score"] == plugins["preScore"] == plugins["reserve"] == []


def test_predicates_run_in_their_fixed_order_and_bring_what_they_need() -> None:
    plugins = running(
        {"predicates": [{"name": "CheckVolumeBinding"}, {"name": "PodFitsPorts"}], "priorities": []}
    )
    assert named(plugins["filter"]) == ["NodeUnschedulable", "NodePorts", "TaintToleration", "VolumeBinding"]
    assert named(plugins["preFilter"]) == ["NodePorts", "VolumeBinding"]
    assert named(plugins["reserve"]) == named(plugins["preBind"]) == ["VolumeBinding"]


def test_priorities_that_became_one_plugin_take_the_larger_weight() -> None:
    spread = [
        {"name": "SelectorSpreadPriority", "weight": 5},
        {"name": "EvenPodsSpreadPriority", "weight": 2},
    ]
    assert running({"priorities": spread})["score"] == [("PodTopologySpread", 5)]


def test_lists_of_the_document_come_over_those_of_the_policy() -> None:
    more = (
        "plugins: {score: {enabled: [{name: ImageLocality, weight: 3}], disabled: [{name: NodeAffinity}]}}\n"
    )
    priorities = [
        {"name": "NodeAffinityPriority", "weight": 2},
        {"name": "TaintTolerationPriority", "weight": 2},
    ]
    plugins = running({"priorities": priorities}, more)
    assert plugins["score"] == [("TaintToleration", 2), ("ImageLocality", 3)]


STRATEGIES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "least": ([{"name": "LeastRequestedPriority", "weight": 1}], "LeastAllocated"),
    "most": ([{"name": "MostRequestedPriority", "weight": 1}], "MostAllocated"),
    "ratio": (
        [
            {
                "name": "mine",
                "weight": 1,
                "argument": {
                    "requestedToCapacityRatioArguments": {
                        "shape": [{"utilization": 0, "score": 10}, {"utilization": 100, "score": 0}],
                        "resources": [{"name": "cpu", "weight": 2}],
                    }
                },
            }
        ],
        "RequestedToCapacityRatio",
    ),
}


@pytest.mark.parametrize(("scores", "strategy"), STRATEGIES.values(), ids=STRATEGIES.keys())
def test_scores_of_requested_resources_are_one_plugin_with_a_strategy(
    scores: list[dict[str, Any]], strategy: str
) -> None:
    policy = json.dumps({"priorities": scores})
    config = load_config(WITH_FILE, read_file=lambda name: policy)
    args: Any = plugin_args(config.profiles[0], "NodeResourcesFit")
    assert args.strategy.type == strategy
    assert named(running({"priorities": scores})["score"]) == ["NodeResourcesFit"]


SPREADS = [("SelectorSpreadPriority", "System"), ("EvenPodsSpreadPriority", "List")]


@pytest.mark.parametrize(("priority", "kind"), SPREADS)
def test_only_a_spreading_priority_spreads_pods_without_constraints(priority: str, kind: str) -> None:
    algorithm = policy_algorithm(json.dumps({"priorities": [{"name": priority, "weight": 1}]}))
    assert algorithm.args["PodTopologySpread"] == {"defaultingType": kind}


def test_the_strategy_joins_arguments_that_the_document_gives() -> None:
    policy = json.dumps({"priorities": [{"name": "MostRequestedPriority", "weight": 1}]})
    more = "pluginConfig:\n- name: NodeResourcesFit\n  args: {ignoredResources: [example.com/x]}\n"
    config = load_config(WITH_FILE + more, read_file=lambda name: policy)
    args: Any = plugin_args(config.profiles[0], "NodeResourcesFit")
    assert (args.ignored_resources, args.strategy.type) == (("example.com/x",), "MostAllocated")


def test_weight_and_extenders_of_a_policy_are_kept() -> None:
    extender = {"urlPrefix": "http://x", "filterVerb": "f", "enableHttps": True, "httpTimeout": 250_000_000}
    policy = json.dumps({"hardPodAffinitySymmetricWeight": 7, "extenders": [extender]})
    config = load_config(WITH_FILE, read_file=lambda name: policy)
    args: Any = plugin_args(config.profiles[0], "InterPodAffinity")
    assert args.hard_pod_affinity_weight == 7
    (kept,) = config.extenders
    assert (kept.url_prefix, kept.enable_https, kept.http_timeout) == ("http://x", True, 0.25)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "an unknown predicate": ({"predicates": [{"name": "Mine"}]}, "predicates[0].name", "NotSupported"),
    "an unknown priority": (
        {"priorities": [{"name": "Mine", "weight": 1}]},
        "priorities[0].name",
        "NotSupported",
    ),
    "no weight": ({"priorities": [{"name": "ImageLocalityPriority"}]}, "priorities[0].weight", "Invalid"),
    "two strategies": (
        {
            "priorities": [
                {"name": "LeastRequestedPriority", "weight": 1},
                {"name": "MostRequestedPriority", "weight": 1},
            ]
        },
        "priorities[1].name",
        "Invalid",
    ),
    "an unknown field": ({"predicate": []}, "predicate", ""),
    "another kind": ({"kind": "Config"}, "kind", "NotSupported"),
}


@pytest.mark.parametrize(("policy", "path", "kind"), REFUSED.values(), ids=REFUSED.keys())
def test_a_broken_policy_is_refused(policy: dict[str, Any], path: str, kind: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        policy_algorithm(json.dumps(policy))
    assert [(error.path, error.kind) for error in caught.value.errors] == [(path, kind)]
    with pytest.raises(ConfigErrors, match=r"algorithmSource\.policy\.file\.path: policy\.json: "):
        running(policy)


def missing(name: str) -> str:
    raise FileNotFoundError(2, "No such file or directory", name)


def test_a_policy_file_that_is_missing_or_must_not_be_read_is_an_error() -> None:
    with pytest.raises(ConfigErrors, match="No such file"):
        load_config(WITH_FILE, read_file=missing)
    with pytest.raises(ConfigErrors, match="cannot be read here"):
        load_config(WITH_FILE)


@pytest.mark.parametrize("provider", ["", *PROVIDERS])
def test_known_providers(provider: str) -> None:
    algorithm = provider_algorithm(provider, "p")
    assert bool(algorithm.args) is (provider == "ClusterAutoscalerProvider")


def test_priorities_without_effect_are_accepted() -> None:
    plain = priorities(EqualPriority=1, NodePreferAvoidPodsPriority=10000)
    assert running(plain)["score"] == []
