"""A pod that asks for a flavor by its own name, as if a type of node were a resource of nodes."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.simulate import Simulation

GPU, H100 = "nvidia.com/gpu", "flavor.muster.dev/h100"
Raw = dict[str, Any]


def pod(namespace: str, name: str, asks: dict[str, str], *, node: str = "") -> Raw:
    spec: Raw = {
        "schedulerName": "muster-scheduler",
        "nodeSelector": {"gpu": "h100"},
        "containers": [{"name": "main", "resources": {"limits": asks, "requests": asks}}],
    }
    if node:
        spec["nodeName"] = node
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def quota(namespace: str, low: dict[str, str], high: dict[str, str] | None = None) -> Raw:
    spec: Raw = {"min": low}
    if high:
        spec["max"] = high
    metadata = {"name": "q", "namespace": namespace}
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": metadata,
        "spec": spec,
    }


def world() -> Simulation:
    made = Simulation()
    made.create(
        {
            "apiVersion": "muster.dev/v1alpha1",
            "kind": "QuotaFlavor",
            "metadata": {"name": "h100"},
            "spec": {"resource": GPU, "nodeSelector": {"gpu": "h100"}},
        }
    )
    made.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n1", "labels": {"gpu": "h100"}},
            "status": {"allocatable": {GPU: "8", "cpu": "64", "pods": "110"}},
        }
    )
    made.create(quota("attacker", {GPU: "0"}, {GPU: "1"}))
    made.create(quota("owner", {GPU: "8", H100: "8"}))
    made.create(quota("other", {GPU: "0"}))
    made.run()
    return made


def node_of(made: Simulation, namespace: str, name: str) -> str:
    found = made.get("Pod", namespace, name)
    assert found is not None
    return str(found["spec"].get("nodeName", ""))


@pytest.mark.parametrize("node", ["", "n1"], ids=["placed by the scheduler", "with a node of its own"])
def test_who_asks_for_a_flavor_by_its_name_takes_nothing_of_it(node: str) -> None:
    """It asks for no device, and the max of its quota names no flavor."""
    made = world()
    made.create(pod("attacker", "fake", {H100: "8"}, node=node))
    made.create(pod("other", "borrows", {GPU: "1"}))
    made.run()
    assert node_of(made, "attacker", "fake") == "n1"
    assert made.state.ledger.used("attacker").get(H100, 0) == 0
    assert node_of(made, "other", "borrows") == "n1"


def test_a_pod_with_a_node_past_the_max_of_a_flavor_counts_is_reported_and_goes_first() -> None:
    """What docs/security.md says of this known limit."""
    made = world()
    made.update(quota("attacker", {GPU: "0"}, {GPU: "8", H100: "1"}))
    for number in range(4):
        made.create(pod("attacker", f"past-{number}", {GPU: "1"}, node="n1"))
    made.create(pod("other", "borrows", {GPU: "2"}))
    made.create(pod("attacker", "more", {GPU: "1"}))
    made.run()
    assert made.state.ledger.used("attacker")[H100] == 4
    found = made.get("ElasticQuota", "attacker", "q")
    assert found is not None
    shown = found["status"]["conditions"]
    said = [item["message"] for item in shown if item["type"] == "AboveMax" and item["status"] == "True"]
    assert said == [f"uses {H100}=4 of max=1; its pods are the first to be evicted for others"]
    assert node_of(made, "other", "borrows") == "n1", "others may borrow as before"
    assert list(made.rejected) == ["attacker/more"], "nothing more of it starts there"
    made.create(pod("owner", "claims", {GPU: "4"}))
    made.run()
    gone = [item.pod.key for item in made.evicted]
    assert len(gone) == 2
    assert {key.split("/")[0] for key in gone} == {"attacker"}
