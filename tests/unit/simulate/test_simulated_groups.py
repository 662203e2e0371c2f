"""Groups in a simulation: every dialect and version, and groups of one name side by side."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.controllers.native_status import INITIALLY_SCHEDULED, SCHEDULED_V1ALPHA2
from scheduler_core.simulate.scenario import Scenario, load_scenarios
from scheduler_core.simulate.world import Simulation

GROUPS = """
objects:
- {apiVersion: incubator.scheduling.k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, namespace: a},
   spec: {minMembers: 2}}
- {apiVersion: scheduling.x-k8s.io/v1alpha1, kind: PodGroup, metadata: {name: g, namespace: a},
   spec: {minMember: 3}}
- {apiVersion: scheduling.k8s.io/v1, kind: PodGroup, metadata: {name: g, namespace: a},
   spec: {schedulingPolicy: {gang: {minCount: 4}}}}
"""


def simulation(text: str) -> Simulation:
    (scenario,) = load_scenarios(text)
    assert isinstance(scenario, Scenario)
    played = Simulation(scenario.config, scenario.now)
    for i, obj in enumerate(scenario.objects):
        played.observe(played.objects.create(obj, f"objects[{i}]"))
    return played


def test_groups_of_one_name_are_three_objects() -> None:
    played = simulation(GROUPS)
    found = {key: gang.min_members for key, gang in played.state.gangs.gangs.items()}
    assert found == {"a/g PodGroup": 2, "a/g x-PodGroup": 3, "a/g native-PodGroup": 4}
    labels = [played.objects.label(key) for key in played.known]
    assert labels == ["PodGroup a/g", "PodGroup.scheduling.x-k8s.io a/g", "PodGroup.scheduling.k8s.io a/g"]


@pytest.mark.parametrize("key", ["a/g PodGroup", "a/g x-PodGroup", "a/g native-PodGroup"])
def test_a_status_goes_to_the_group_of_its_dialect(key: str) -> None:
    played = simulation(GROUPS)
    played.state.gangs.verdicts.decided("a/g native-PodGroup", "Unschedulable", "no nodes")
    played.run()
    types = {
        known: {condition.type for condition in gang.status.conditions or ()}
        for known, gang in played.state.gangs.gangs.items()
    }
    expected: dict[str, set[str]] = {
        "a/g PodGroup": {"Scheduled", "Unschedulable"},
        "a/g x-PodGroup": set(),
        "a/g native-PodGroup": {INITIALLY_SCHEDULED},
    }
    assert types[key] == expected[key]


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha3", "v1alpha2"])
def test_every_version_of_a_native_group_is_read_and_told(version: str) -> None:
    group: dict[str, Any] = {"apiVersion": f"scheduling.k8s.io/{version}", "kind": "PodGroup"}
    played = simulation(f"objects: [{group | {'metadata': {'name': 'g', 'namespace': 'a'}}}]")
    gang = played.state.gangs.gangs["a/g native-PodGroup"]
    played.state.gangs.verdicts.decided(gang.key, "Scheduled", "")
    played.run()
    gang = played.state.gangs.gangs[gang.key]
    wanted = SCHEDULED_V1ALPHA2 if version == "v1alpha2" else INITIALLY_SCHEDULED
    assert [(item.type, item.status) for item in gang.status.conditions or ()] == [(wanted, "True")]
