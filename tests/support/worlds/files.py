"""Worlds as scenario files, and scenario files as worlds."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Final

import yaml

from scheduler_core.simulate.scenario import load_scenarios
from tests.support.worlds.objects import ELSEWHERE, SCHEDULER, Raw
from tests.support.worlds.player import World, play
from tests.support.worlds.rest import configuration

# Said in the description of worlds whose evicted pods stay a while: in a simulation they vanish at once.
_GRACE: Final = "evicted pods keep their nodes, terminating, until a step deletes them"
_SLOW: Final = "evicted pods keep their nodes until a step deletes them, and say when they will have ended"


def scenario_text(world: World, finding: str) -> str:
    """The world as a scenario file; what was found stands in its description."""
    player = play(copy.deepcopy(world))
    document: Raw = {
        "name": world["name"],
        "description": finding + _ways(world),
        "config": yaml.safe_load(configuration(topology=world["topology"], fair=bool(world.get("fair")))),
        "now": "2026-01-01T00:00:00Z",
        "objects": world["objects"],
        "steps": [step for step in player.compiled if step],
    }
    return yaml.dump(document, Dumper=_Plain, sort_keys=False, width=110)


def _ways(world: World) -> str:
    if world.get("slow"):
        return f" ({_SLOW})"
    return f" ({_GRACE})" if world["grace"] else ""


class _Plain(yaml.SafeDumper):
    """No anchors: every object stands where it is."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def world_of(path: Path) -> World:
    """The world of a scenario file, one that was written here or any other. Raises ConfigError."""
    text = path.read_text()
    scenario = load_scenarios(text, str(path))[0]
    raw = yaml.load(text, yaml.CSafeLoader)
    steps = [
        {"delete": step.delete, "update": step.update, "create": step.create, "advance": step.advance}
        for step in scenario.steps
    ]
    return {
        "name": scenario.name,
        "seed": 0,
        "grace": _GRACE in str(raw.get("description")),
        "slow": _SLOW in str(raw.get("description")),
        "topology": "ClusterTopologyPlacementGroup" in str(raw.get("config")),
        "fair": "FairShare" in str(raw.get("config")),
        "objects": _ours(list(scenario.objects)),
        "steps": _ours([{name: items for name, items in step.items() if items} for step in steps]),
    }


def _ours(value: Any) -> Any:
    """With the scheduler's name that the player knows; another scheduler's pods stay with it."""
    if isinstance(value, dict):
        ours = value.get("schedulerName", ELSEWHERE) != ELSEWHERE
        named = {"schedulerName": SCHEDULER} if ours else {}
        return {**{name: _ours(item) for name, item in value.items()}, **named}
    return [_ours(item) for item in value] if isinstance(value, list | tuple) else value
