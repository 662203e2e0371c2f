"""SelectorSpread before v1beta2: without it, only pods with constraints are spread."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduler_core.config import effective_plugins, load_config, plugin_args, start_up_errors
from scheduler_core.config.versions import KIND

OLD = "DefaultPodTopologySpread"
SPREAD = "PodTopologySpread"
BECOMES = f"plugins.score: {OLD} becomes {SPREAD}"
LOST = "plugins.score: without SelectorSpread only pods with constraints are spread"

# Score lists; then weight (0: no such score), what spreads by default, warnings.
Case = tuple[dict[str, int], list[str], int, str, list[str]]
CASES: dict[str, Case] = {
    "both by default": ({}, [], 2, "System", []),
    "listed again": ({OLD: 1}, [], 2, "System", [BECOMES]),
    "listed with a larger weight": ({OLD: 9}, [], 9, "System", [BECOMES]),
    "both listed": ({SPREAD: 4, OLD: 3}, ["*"], 4, "System", [BECOMES]),
    "one by its later name": (
        {"SelectorSpread": 3},
        ["*"],
        3,
        "System",
        [BECOMES.replace(OLD, "SelectorSpread")],
    ),
    "alone": ({OLD: 1}, [SPREAD], 1, "System", [BECOMES]),
    "disabled": ({}, [OLD], 2, "List", [LOST]),
    "not listed where all is disabled": ({SPREAD: 2}, ["*"], 2, "List", [LOST]),
    "neither": ({}, [OLD, SPREAD], 0, "System", []),
    "neither, where all is disabled": ({}, ["*"], 0, "System", []),
}


def profile(score: dict[str, Any], **more: Any) -> Any:
    document = {"apiVersion": "kubescheduler.config.k8s.io/v1alpha2", "kind": KIND}
    return load_config(yaml.safe_dump({**document, "profiles": [{"plugins": {"score": score}, **more}]}))


@pytest.mark.parametrize(
    ("enabled", "disabled", "weight", "kind", "warnings"), CASES.values(), ids=CASES.keys()
)
def test_the_old_plugin_is_a_default_of_todays(
    enabled: dict[str, int], disabled: list[str], weight: int, kind: str, warnings: list[str]
) -> None:
    config = profile(
        {
            "enabled": [{"name": name, "weight": number} for name, number in enabled.items()],
            "disabled": [{"name": name} for name in disabled],
        }
    )
    (found,) = config.profiles
    args: Any = plugin_args(found, SPREAD)
    scores = {ref.name: ref.weight for ref in effective_plugins(found)["score"]}
    assert (scores.get(SPREAD, 0), args.defaulting_type) == (weight, kind)
    assert config.warnings == [f"profiles[0].{warning}" for warning in warnings]


def test_arguments_say_more_than_the_lists() -> None:
    entry = {"name": SPREAD, "args": {"defaultingType": "System"}}
    config = profile({"disabled": [{"name": OLD}]}, pluginConfig=[entry])
    args: Any = plugin_args(config.profiles[0], SPREAD)
    assert (args.defaulting_type, config.warnings) == ("System", [])


def test_from_v1beta2_on_the_old_plugin_is_refused() -> None:
    text = yaml.safe_dump(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1beta2",
            "kind": KIND,
            "profiles": [{"plugins": {"score": {"enabled": [{"name": "SelectorSpread"}]}}}],
        }
    )
    assert "replaced by PodTopologySpread" in str(start_up_errors(load_config(text))[0])
