"""Snapshots of pods that are being resized."""

from __future__ import annotations

import pytest
import yaml

from scheduler_core.answers.snapshot.document import SnapshotOptions, scenario_document
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.simulate import load_scenarios, run_scenario
from scheduler_core.simulate.world import Simulation
from tests.support.builders import make_node
from tests.support.resized_pods import MOVED, quota, resized_pod


@pytest.mark.parametrize("rule", ResizeRule, ids=lambda rule: rule.value)
def test_a_snapshot_counts_as_the_cluster(rule: ResizeRule) -> None:
    simulation = Simulation(rule=rule)
    for obj in (make_node("n").allocatable(cpu=64, pods=99).raw, quota(), resized_pod("default/p", MOVED)):
        simulation.create(obj)
    document = scenario_document(simulation, "", SnapshotOptions())
    (scenario,) = load_scenarios(yaml.safe_dump(document))
    assert scenario.rule is rule
    assert run_scenario(scenario)["warnings"] == []
