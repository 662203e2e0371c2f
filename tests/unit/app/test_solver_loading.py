"""Third-party solvers by entry point, the documented one, and the names that a configuration may use."""

from __future__ import annotations

import json
import re
import sys
import types
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scheduler_core.app.config_cli import config_group
from scheduler_core.app.solver_loading import SOLVER_GROUP, load_solvers
from scheduler_core.config import load_config
from scheduler_core.config.solver_names import solver_errors
from scheduler_core.errors import ConfigError
from scheduler_core.topology.constraints import parse_rules
from scheduler_core.topology.placer import Infeasible, Placement, place
from scheduler_core.topology.solvers import SOLVERS
from scheduler_core.topology.tree import flat

DOCUMENT = (Path(__file__).parents[3] / "docs" / "plugins.md").read_text()


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
    assert isinstance(found, Placement)
    assert found.counts.tolist() == [2, 1, 0]
    even = parse_rules(tree.levels, '{"node": {"max": 1}}')
    refused = place(tree, room, 3, even, solver=solver)
    assert isinstance(refused, Infeasible)
    assert refused.reason == "solver first-fit found no place for 3 members; there is one"


class Nameless:
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
        pytest.param("Nameless", "Nameless", "is not a class whose name", id="no name"),
        pytest.param("idle", "Idle", "has no method solve", id="nothing to do"),
        pytest.param("broken", "Broken", "cannot be made: ValueError('no')", id="cannot be made"),
    ],
)
def test_broken_entry_points(name: str, value: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = types.ModuleType("broken_solvers")
    for kind in (Nameless, Idle, Broken, Exact):
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
