"""CompositePodGroups as values."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.model.groups.composite import (
    Composite,
    composite_key,
    composite_text,
    is_composite_key,
    parse_composite,
)
from scheduler_core.model.groups.gang import Disruption, GroupRef


def parsed(**spec: Any) -> Composite:
    return parse_composite({"metadata": {"name": "g", "namespace": "a", "uid": "u1"}, "spec": spec})


@pytest.mark.parametrize(
    ("spec", "field", "value"),
    [
        pytest.param({"schedulingPolicy": {"gang": {"minGroupCount": 3}}}, "min_groups", 3, id="gang"),
        pytest.param({"schedulingPolicy": {"basic": {}}}, "min_groups", 1, id="basic"),
        pytest.param({}, "min_groups", 1, id="no policy"),
        pytest.param({"parentCompositePodGroupName": "root"}, "parent", "root", id="parent"),
        pytest.param(
            {"schedulingConstraints": {"topology": [{"key": "rack"}]}}, "topology_key", "rack", id="topology"
        ),
        pytest.param({"disruptionMode": {"all": {}}}, "disruption", Disruption.ALL, id="all"),
        pytest.param({"disruptionMode": {"single": {}}}, "disruption", Disruption.SINGLE, id="single"),
        pytest.param({}, "disruption", Disruption.SINGLE, id="no disruption mode"),
        pytest.param({"priority": -5}, "priority", -5, id="priority"),
        pytest.param({}, "priority", 0, id="no priority"),
        pytest.param({"preemptionPolicy": "Never"}, "preemption_policy", "Never", id="preemption policy"),
    ],
)
def test_a_field_is_read(spec: dict[str, Any], field: str, value: object) -> None:
    assert getattr(parsed(**spec), field) == value


@pytest.mark.parametrize("least", [0, -1])
def test_a_minimum_below_one_is_a_problem_with_its_field(least: int) -> None:
    found = parsed(schedulingPolicy={"gang": {"minGroupCount": least}})
    assert found.problem == (
        f"CompositePodGroup a/g: spec.schedulingPolicy.gang.minGroupCount: {least} must be at least 1"
    )


def test_no_group_of_pods_has_the_key_of_a_composite_group() -> None:
    key = composite_key("a", "g")
    assert is_composite_key(key)
    assert parsed().key == key
    assert composite_text(key) == str(parsed()) == "CompositePodGroup a/g"
    dialects = ("PodGroup", "native-PodGroup", "x-PodGroup", "ConfigMap")
    assert not any(is_composite_key(GroupRef(dialect, "a", "g").key) for dialect in dialects)
