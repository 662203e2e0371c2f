"""Third-party plugins and solvers by entry point, and the examples of the documentation."""

from __future__ import annotations

import importlib
import json
import re
import sys
import types
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from scheduler_core.app.config_cli import config_group
from scheduler_core.app.entry_points import (
    GROUP,
    SOLVER_GROUP,
    Plugins,
    extension_points,
    load_plugins,
    load_solvers,
)
from scheduler_core.config import load_config, start_up_errors
from scheduler_core.config.args.solvers import solver_errors
from scheduler_core.config.args.typed import default_args
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ConfigError
from scheduler_core.framework.registry import build_profiles
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.placer import GroupPlacement, Infeasible, place
from scheduler_core.topology.solvers import SOLVERS
from scheduler_core.topology.tree import flat
from tests.support.builders import make_node, make_pod

DOCUMENT = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text()


def block(language: str, containing: str) -> str:
    """The code block of the documentation that holds a text."""
    blocks: list[str] = re.findall(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    return next(text for text in blocks if containing in text)


@pytest.fixture
def module() -> Iterator[types.ModuleType]:
    """The module `fast_disks`, with what the documentation shows in it."""
    made = types.ModuleType("fast_disks")
    exec(compile(block("python", "class FastDisks"), "docs/plugins.md", "exec"), made.__dict__)
    sys.modules["fast_disks"] = made
    yield made
    del sys.modules["fast_disks"]


def entry(name: str, value: str) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=GROUP)


def documented(module: types.ModuleType) -> Plugins:
    line = re.search(r'^(\w+) = "([\w:.]+)"$', block("toml", GROUP), re.M)
    assert line
    return load_plugins([entry(line[1], line[2])])


def engine(plugins: Plugins, state: ClusterState) -> Scheduler:
    config = load_config(block("yaml", "FastDisks"))
    assert start_up_errors(config, plugins.points) == []
    return Scheduler(state, build_profiles(config, plugins.factories, plugins.points))


def test_the_documented_plugin_filters_and_scores(module: types.ModuleType) -> None:
    scheduler = engine(documented(module), ClusterState())
    for name, disks in (("one", "1"), ("four", "4"), ("none", "")):
        node = make_node(name).allocatable(cpu="8", memory="8Gi")
        scheduler.put((node.label("disk.example.com/nvme", disks) if disks else node).obj(), 0.0)
    wants = make_pod("x/p").scheduler("batch")
    wants.meta["annotations"] = {"example.com/needs-disk": "nvme"}
    scheduler.put(wants.obj(), 0.0)
    (placed,) = scheduler.step(0.0)
    assert isinstance(placed, Placed)
    assert placed.node == "four"


def test_the_documented_plugin_wakes_when_a_node_gets_the_disk(module: types.ModuleType) -> None:
    scheduler = engine(documented(module), ClusterState())
    scheduler.put(make_node("n").allocatable(cpu="8", memory="8Gi").obj(), 0.0)
    wants = make_pod("x/p").scheduler("batch")
    wants.meta["annotations"] = {"example.com/needs-disk": "tape"}
    scheduler.put(wants.obj(), 0.0)
    (rejected,) = scheduler.step(0.0)
    assert isinstance(rejected, Rejected)
    assert "1 node(s) had no such disk" in rejected.message
    labelled = make_node("n").allocatable(cpu="8", memory="8Gi").label("disk.example.com/tape", "1")
    scheduler.put(labelled.obj(), 60.0)
    assert [type(d) for d in scheduler.step(60.0)] == [Placed]


def test_args_of_the_configuration_reach_the_plugin(module: types.ModuleType) -> None:
    plugins = documented(module)
    config = load_config(block("yaml", "FastDisks").replace("labelPrefix: disk.", "labelPrefix: volume."))
    profile = build_profiles(config, plugins.factories, plugins.points)["batch"]
    plugin: Any = next(p for p in profile.plugins if p.name == "FastDisks")
    assert plugin.prefix == "volume.example.com/"
    assert profile.weight(plugin) == 2


def test_without_the_package_the_configuration_is_refused() -> None:
    errors = start_up_errors(load_config(block("yaml", "FastDisks")), load_plugins([]).points)
    assert any("FastDisks" in str(error) for error in errors)


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("scheduler_core.framework.interface", ["Scope"]),
        ("scheduler_core.framework.scoring", ["default_normalize"]),
        ("scheduler_core.framework.status", ["SKIP", "SUCCESS", "Reason"]),
        ("scheduler_core.framework.cycle", ["Cycle"]),
        ("scheduler_core.framework.view", ["NodeView"]),
        ("scheduler_core.framework.obstacles", ["Obstacle"]),
        ("scheduler_core.framework.hints", ["NarrowHint", "Reach", "Room", "StandingHint"]),
        ("scheduler_core.state.events", ["Happened"]),
        ("scheduler_core.topology.question", ["Question", "Solver", "fault"]),
        ("scheduler_core.topology.tables", ["OutOfBudget"]),
    ],
)
def test_the_import_paths_for_other_packages_stay(module: str, names: list[str]) -> None:
    found = importlib.import_module(module)
    assert [name for name in names if not hasattr(found, name)] == []


def test_no_entry_points_leave_the_plugins_of_muster() -> None:
    plugins = load_plugins([])
    assert plugins.points == KNOWN_PLUGINS
    assert plugins.factories == FACTORIES


class NamelessPlugin:
    """No plugin."""


class Empty:
    """Has a name and nothing to do."""

    name = "Empty"


class NodeName:
    """Would replace a plugin of Muster."""

    name = "NodeName"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        pytest.param("NodeName", "NodeName", "the name is taken by another plugin", id="a plugin of Muster"),
        pytest.param("DynamicResources", "Empty", "the name is taken", id="a plugin of Kubernetes"),
        pytest.param("Ghost", "Ghost", "cannot be loaded", id="what does not exist"),
        pytest.param("Other", "Empty", "is not a class whose name is Other", id="another name than its own"),
        pytest.param("NamelessPlugin", "NamelessPlugin", "is not a class whose name", id="no name"),
        pytest.param("Empty", "Empty", "extends no point", id="no extension point"),
    ],
)
def test_broken_plugin_entry_points(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = types.ModuleType("broken_plugins")
    for kind in (NamelessPlugin, Empty, NodeName):
        setattr(broken, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "broken_plugins", broken)
    with pytest.raises(ConfigError) as caught:
        load_plugins([entry(name, f"broken_plugins:{value}")])
    assert caught.value.path == f"muster.plugins[{name}]"
    assert problem in caught.value.problem


def test_two_packages_cannot_give_the_same_name(module: types.ModuleType) -> None:
    twice = [entry("FastDisks", "fast_disks:FastDisks")] * 2
    with pytest.raises(ConfigError, match="the name is taken"):
        load_plugins(twice)


@pytest.mark.parametrize("name", sorted(FACTORIES))
def test_the_table_of_extension_points_is_that_of_the_classes(name: str) -> None:
    plugin = FACTORIES[name](default_args(name))
    assert plugin.name == name
    assert extension_points(type(plugin)) == KNOWN_PLUGINS[name]


def config(**args: object) -> str:
    entry = {"name": "ClusterTopologyPlacementGroup", "args": args}
    enabled = {"multiPoint": {"enabled": [{"name": "ClusterTopologyPlacementGroup"}]}}
    profile = {"schedulerName": "s", "plugins": enabled, "pluginConfig": [entry]}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return json.dumps({**head, "profiles": [profile]})


def test_the_documented_solver_is_found_and_places_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks: list[str] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    made = types.ModuleType("first_fit")
    exec(compile(next(b for b in blocks if "class FirstFit" in b), "plugins.md", "exec"), made.__dict__)
    monkeypatch.setitem(sys.modules, "first_fit", made)
    line = re.search(r'muster\.solvers"\]\n([\w-]+) = "([\w:.]+)"', DOCUMENT)
    assert line
    solvers = load_solvers([EntryPoint(line[1], line[2], SOLVER_GROUP)])
    assert list(solvers) == [*SOLVERS, "first-fit"]
    assert solver_errors(load_config(config(solver="first-fit")), solvers) == []
    tree = flat(("a", "b", "c"))
    room, solver = np.array([2, 2, 2]), solvers["first-fit"]
    found = place(tree, room, 3, parse_rules(tree.levels, ""), solver=solver)
    assert isinstance(found, GroupPlacement)
    assert found.counts.tolist() == [2, 1, 0]
    even = parse_rules(tree.levels, '{"node": {"max": 1}}')
    refused = place(tree, room, 3, even, solver=solver)
    assert isinstance(refused, Infeasible)
    assert refused.reason == "solver first-fit found no place for 3 members; there is one"


class NamelessSolver:
    """No solver."""


class Idle:
    """Has a name and nothing to do."""

    name = "idle"


class Broken:
    """Cannot be made."""

    name = "broken"

    def __init__(self) -> None:
        raise ValueError("no")

    def solve(self) -> None:
        """Nothing."""


class Exact:
    """Would replace Muster's own."""

    name = "exact"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        pytest.param("exact", "Exact", "the name is taken by another solver", id="one of Muster"),
        pytest.param("ghost", "Ghost", "cannot be loaded", id="what does not exist"),
        pytest.param("other", "Idle", "is not a class whose name is other", id="another name than its own"),
        pytest.param("NamelessSolver", "NamelessSolver", "is not a class whose name", id="no name"),
        pytest.param("idle", "Idle", "has no method solve", id="nothing to do"),
        pytest.param("broken", "Broken", "cannot be made: ValueError('no')", id="cannot be made"),
    ],
)
def test_broken_solver_entry_points(
    name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = types.ModuleType("broken_solvers")
    for kind in (NamelessSolver, Idle, Broken, Exact):
        setattr(broken, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "broken_solvers", broken)
    with pytest.raises(ConfigError) as caught:
        load_solvers([EntryPoint(name, f"broken_solvers:{value}", SOLVER_GROUP)])
    assert caught.value.path == f"muster.solvers[{name}]"
    assert problem in caught.value.problem


def test_an_unknown_solver_stops_the_start_and_lists_the_known_ones(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(config(solver="chic"))
    done = CliRunner().invoke(config_group, ["validate", str(file)])
    assert done.exit_code == 1
    assert (
        'profiles[0].pluginConfig[0].args.solver: Unsupported value: "chic": '
        'supported values: "exact", "greedy"'
    ) in done.output
    file.write_text(config(solver="greedy"))
    assert CliRunner().invoke(config_group, ["validate", str(file)]).exit_code == 0
