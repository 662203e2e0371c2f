"""Every file in topology/ says in its header what a right placement is; the simulation must find one.

`properties` are rules that the counts per unit keep: `must` ones are demands of the group, `optimal` ones the
best value of the objective. `ranks` says which distances from rank 0 there may be, in order of rank.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import load_scenarios
from tests.support.expectations import expectation

FILES = sorted((Path(__file__).parent / "topology").glob("*.yaml"))

Path_ = tuple[str, ...]


def expected_of(path: Path) -> dict[str, Any]:
    expected: dict[str, Any] = expectation(path.read_text(), "expected")
    return expected


def tree_of(path: Path) -> tuple[list[str], dict[str, Path_]]:
    """The level names, and for every node the names of the units from the top down to it."""
    objects = yaml.load(path.read_text(), yaml.CSafeLoader)["objects"]
    data = next(obj["data"] for obj in objects if obj["kind"] == "ConfigMap")

    def walk(below: dict[str, Any], above: Path_) -> Iterator[Path_]:
        for name, rest in below.items():
            yield from walk(rest, (*above, name)) if rest else iter([(*above, name)])

    return json.loads(data["level-names"]), {units[-1]: units for units in walk(json.loads(data["tree"]), ())}


def last_step(path: Path) -> dict[str, Any]:
    (scenario,) = load_scenarios(path.read_text(), path.name)
    step: dict[str, Any] = run_scenario(scenario)["steps"][-1]
    assert step["mismatches"] == []
    return step


def broken(rule: dict[str, Any], families: list[list[int]]) -> str:
    """What is wrong with the counts of the used units, given per used parent; empty if they keep the rule."""
    counts = [count for family in families for count in family]
    actual: dict[str, Callable[[Any], bool]] = {
        "multiple_of": lambda value: all(count % value == 0 for count in counts),
        "partitions": lambda value: all(len(family) == value for family in families),
        "each_between": lambda value: all(
            (value[0] or 0) <= count <= (value[1] or count) for count in counts
        ),
        "used_units": lambda value: len(counts) == value,
        "max_minus_min": lambda value: all(max(family) - min(family) <= value for family in families),
        "sum_sq_at_most": lambda value: sum(count * count for count in counts) <= value,
    }
    (name,) = set(rule) - {"level", "tier"}
    return "" if actual[name](rule[name]) else f"{rule} does not hold for {families}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_placement_is_what_the_header_says(path: Path) -> None:
    expected, step = expected_of(path), last_step(path)
    if expected.get("infeasible"):
        assert step["groups"] == {}
        assert {item["reason"] for item in step["pending"].values()} == {"Unschedulable"}
        return
    levels, paths = tree_of(path)
    placed = {pod: node for pod, node in step["bound"].items() if pod.startswith("default/")}
    assert not step["pending"]
    for rule in expected["properties"]:
        depth = levels.index(rule["level"])
        counts = Counter(paths[node][: depth + 1] for node in placed.values())
        families: dict[Path_, list[int]] = {}
        for unit, count in counts.items():
            families.setdefault(unit[:-1], []).append(count)
        assert broken(rule, list(families.values())) == ""
    for key in ("perNode", "perNodePreferred"):
        if key in expected:
            assert Counter(placed.values()) == expected[key]


@pytest.mark.parametrize("path", [f for f in FILES if "ranks" in expected_of(f)], ids=lambda path: path.stem)
def test_ranks_grow_with_the_distance_from_the_master(path: Path) -> None:
    expected, step = expected_of(path)["ranks"], last_step(path)
    _, paths = tree_of(path)
    ranks = step["groups"]["default/group-a"]["ranks"]
    assert [rank for _, rank in ranks] == list(range(len(ranks)))
    nodes = [step["bound"][f"default/{pod}"] for pod, _ in ranks]
    home = paths[nodes[0]]
    found = [0]
    for node in nodes[1:]:
        apart = sum(mine != theirs for mine, theirs in zip(home, paths[node], strict=True))
        found.append(2 * (apart + 1))
    if "possible_distance_sequences" in expected:
        assert found in expected["possible_distance_sequences"]
    else:
        assert found == expected["distances_by_master_node"][nodes[0]]
