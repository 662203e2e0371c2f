"""The public class: a write that fails changes nothing, and copies are apart."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scheduler_core.errors import ConfigError, MusterError
from scheduler_core.model.kinds import Resource
from scheduler_core.model.watched import COMPOSITES, WATCHED
from scheduler_core.simulate import Simulation
from scheduler_core.simulate.kinds import full_name

NODE: dict[str, Any] = {
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "4", "pods": "9"}},
}


def pod(name: str, cpu: Any) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
    return {
        "kind": "Pod",
        "metadata": {"namespace": "a", "name": name},
        "spec": {"schedulerName": "muster-scheduler", "containers": [container]},
    }


@pytest.fixture
def simulation() -> Simulation:
    made = Simulation()
    made.create(NODE)
    made.create(pod("old", "1"))
    made.run()
    return made


@pytest.mark.parametrize(
    ("verb", "obj"),
    [
        pytest.param("create", pod("new", "lots"), id="a new object that cannot be read"),
        pytest.param("update", pod("old", "lots"), id="a change that cannot be read"),
        pytest.param("create", pod("old", "1"), id="an object that exists"),
        pytest.param("delete", pod("nobody", "1"), id="the removal of nothing"),
    ],
)
def test_a_write_that_fails_changes_nothing(simulation: Simulation, verb: str, obj: dict[str, Any]) -> None:
    before = simulation.report()
    with pytest.raises(MusterError):
        getattr(simulation, verb)(obj)
    assert simulation.report() == before
    simulation.run()
    assert simulation.report() == before


def test_an_object_may_be_made_after_a_failure(simulation: Simulation) -> None:
    with pytest.raises(MusterError):
        simulation.create(pod("new", "lots"))
    simulation.create(pod("new", "3"))
    simulation.run()
    assert simulation.report()["bound"] == {"a/old": "n", "a/new": "n"}


def test_copies_are_apart(simulation: Simulation) -> None:
    twin = simulation.copy()
    twin.delete({"kind": "Pod", "metadata": {"namespace": "a", "name": "old"}})
    twin.create(pod("big", "4"))
    twin.run()
    assert twin.report()["bound"] == {"a/big": "n"}
    assert simulation.report()["bound"] == {"a/old": "n"}
    with pytest.raises(ConfigError):
        simulation.delete({"kind": "Pod", "metadata": {"namespace": "a", "name": "big"}})


KINDS = [resource for resource, _ in (*WATCHED, COMPOSITES)]


@pytest.mark.parametrize("resource", KINDS, ids=lambda kind: f"{kind.plural}.{kind.group}")
def test_an_object_of_every_kind_is_found_under_its_name(resource: Resource) -> None:
    place = {"namespace": "a"} if resource.namespaced else {}
    labels = {"sakkara.group": "", "sakkara.topology": ""}
    obj: dict[str, Any] = {"metadata": {**place, "name": "o", "uid": "u", "labels": labels}}
    if resource.kind == "PodGroup":
        obj["spec"] = {"minMembers": 1, "minMember": 1, "schedulingPolicy": {"basic": {}}}
    if resource.kind == "QuotaFlavor":
        obj["spec"] = {"resource": "nvidia.com/gpu", "nodeSelector": {"a": "b"}}
    if resource.kind == "ConfigMap":
        obj["data"] = {"name": "o", "size": "1"}
    simulation = Simulation()
    simulation.load(resource, json.dumps(obj).encode())
    kind = full_name(resource.kind, resource.api_version)
    found = simulation.get(kind, place.get("namespace", ""), "o")
    assert found is not None
    assert found["metadata"]["uid"] == "u"
    assert (kind, place.get("namespace", ""), "o") in simulation.known
