"""The status of QuotaGroups and QuotaFlavors: written once, and again when a number or a rule changes."""

from __future__ import annotations

from typing import Any

from scheduler_core.simulate import Simulation
from tests.support.situations import Raw, cluster, node, pod, quota

API = "muster.dev/v1alpha1"


def made(kind: str, name: str, **spec: Any) -> Raw:
    return {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec}


def told(simulation: Simulation, kind: str, name: str) -> tuple[str, dict[str, Any]]:
    """The version of an object, and its status."""
    found = simulation.get(f"{kind}.muster.dev", "", name) or simulation.get(kind, "", name)
    assert found is not None
    return found["metadata"]["resourceVersion"], found["status"]


def test_a_status_is_written_once_and_follows_what_it_tells() -> None:
    machine = node("n1", 8)
    machine["metadata"].setdefault("labels", {})["type"] = "hot"
    team = quota("a", 2, 8)
    team["metadata"]["labels"] = {"muster.dev/quota-group": "dept"}
    flavor = made("QuotaFlavor", "hot", resource="nvidia.com/gpu", nodeSelector={"type": "hot"})
    group = made("QuotaGroup", "dept", min={"nvidia.com/gpu": "2"})
    simulation = cluster(machine, flavor, group, team, pod("a", "p", 3, at="n1"))
    simulation.run()
    first = [told(simulation, kind, name) for kind, name in (("QuotaFlavor", "hot"), ("QuotaGroup", "dept"))]
    assert {key: first[0][1][key] for key in ("nodes", "capacity", "used")} == {
        "nodes": 1,
        "capacity": 8,
        "used": 3,
    }
    assert [status["conditions"][0]["status"] for _, status in first] == ["True", "True"]
    simulation.run()
    again = [told(simulation, kind, name) for kind, name in (("QuotaFlavor", "hot"), ("QuotaGroup", "dept"))]
    assert again == first
    simulation.create(made("QuotaFlavor", "over", resource="nvidia.com/gpu", nodeSelector={"zone": "z"}))
    simulation.run()
    assert told(simulation, "QuotaFlavor", "over")[1]["conditions"][0]["reason"] == "Overlaps"
