"""Score plugins before v1beta2: every translation gives a warning with its path."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduler_core.config import effective_plugins, load_config, plugin_args
from scheduler_core.config.versions import KIND

LEAST, MOST, RATIO = "NodeResourcesLeastAllocated", "NodeResourcesMostAllocated", "RequestedToCapacityRatio"
SHAPE = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
BECOMES = "plugins.score: {} becomes NodeResourcesFit with the scoring strategy {}"
DEFAULT = "plugins.score: the default score LeastAllocated gives way to {}"
ARGUMENTS = "pluginConfig: the arguments of {} become the scoringStrategy of NodeResourcesFit"
UNUSED = "pluginConfig: the arguments of {} are left out: it does not score"
DISABLED = "plugins.score: {}, which is disabled, is the score of NodeResourcesFit today"
DROPPED = "plugins.score: {} (weight {}) is left out: NodeResourcesFit scores by one strategy, that of {}"

# Enabled with weights, disabled, arguments; then the strategy, the weight (0: no such score), the warnings.
Case = tuple[dict[str, int], list[str], dict[str, Any], str, int, list[str]]
CASES: dict[str, Case] = {
    "nothing old is no change": ({}, [], {}, "LeastAllocated", 1, []),
    "the default by its name, with a weight": (
        {LEAST: 4},
        [],
        {},
        "LeastAllocated",
        4,
        [BECOMES.format(LEAST, "LeastAllocated")],
    ),
    "another in place of the default": (
        {MOST: 3},
        [LEAST],
        {},
        "MostAllocated",
        3,
        [BECOMES.format(MOST, "MostAllocated"), DISABLED.format(LEAST)],
    ),
    "another beside the default": (
        {MOST: 0},
        [],
        {},
        "MostAllocated",
        1,
        [BECOMES.format(MOST, "MostAllocated"), DEFAULT.format(MOST)],
    ),
    "another where everything is disabled": (
        {RATIO: 2},
        ["*"],
        {RATIO: SHAPE},
        "RequestedToCapacityRatio",
        2,
        [BECOMES.format(RATIO, RATIO), ARGUMENTS.format(RATIO)],
    ),
    "the largest weight of several": (
        {LEAST: 2, MOST: 5},
        [],
        {LEAST: {}},
        "MostAllocated",
        5,
        [
            DROPPED.format(LEAST, 2, MOST),
            BECOMES.format(MOST, "MostAllocated"),
            DEFAULT.format(MOST),
            UNUSED.format(LEAST),
        ],
    ),
    "the first of several with one weight": (
        {MOST: 0, LEAST: 1},
        [],
        {},
        "MostAllocated",
        1,
        [BECOMES.format(MOST, "MostAllocated"), DROPPED.format(LEAST, 1, MOST), DEFAULT.format(MOST)],
    ),
    "an old name goes before today's": (
        {"NodeResourcesFit": 9, MOST: 1},
        [],
        {},
        "MostAllocated",
        1,
        [
            DROPPED.format("NodeResourcesFit", 9, MOST),
            BECOMES.format(MOST, "MostAllocated"),
            DEFAULT.format(MOST),
        ],
    ),
    "no score without the default": ({}, [LEAST], {}, "LeastAllocated", 0, [DISABLED.format(LEAST)]),
    "what was not there cannot be disabled": ({}, [MOST], {}, "LeastAllocated", 1, []),
    "arguments of the default alone": ({}, [], {LEAST: {}}, "LeastAllocated", 1, [ARGUMENTS.format(LEAST)]),
    "arguments of nobody": ({}, [], {MOST: {}}, "LeastAllocated", 1, [UNUSED.format(MOST)]),
    "a strategy of today gives way to a listed score": (
        {LEAST: 1},
        [],
        {"NodeResourcesFit": {"scoringStrategy": {"type": "MostAllocated"}}},
        "LeastAllocated",
        1,
        [
            BECOMES.format(LEAST, "LeastAllocated"),
            "plugins.score: the default score MostAllocated gives way to NodeResourcesLeastAllocated",
        ],
    ),
}


@pytest.mark.parametrize(
    ("enabled", "disabled", "args", "strategy", "weight", "warnings"), CASES.values(), ids=CASES.keys()
)
def test_an_old_score_becomes_a_strategy(
    enabled: dict[str, int],
    disabled: list[str],
    args: dict[str, Any],
    strategy: str,
    weight: int,
    warnings: list[str],
) -> None:
    score = {
        "enabled": [{"name": name, "weight": number} for name, number in enabled.items()],
        "disabled": [{"name": name} for name in disabled],
    }
    profile = {
        "schedulerName": "second",
        "plugins": {"score": score},
        "pluginConfig": [{"name": name, "args": given} for name, given in args.items()],
    }
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1alpha2", "kind": KIND}
    config = load_config(yaml.safe_dump({**document, "profiles": [{"schedulerName": "first"}, profile]}))
    found = config.profiles[1]
    fit: Any = plugin_args(found, "NodeResourcesFit")
    scores = {ref.name: ref.weight for ref in effective_plugins(found)["score"]}
    assert (fit.strategy.type, scores.get("NodeResourcesFit", 0)) == (strategy, weight)
    assert config.warnings == [f"profiles[1].{warning}" for warning in warnings]
    assert [entry.name for entry in found.plugin_config].count("NodeResourcesFit") == 1
