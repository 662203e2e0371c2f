"""Claims in a simulation get their volumes as in a cluster with a volume controller and a provisioner."""

from __future__ import annotations

from typing import Any

from scheduler_core.config.load import muster_config
from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import Scenario, ScenarioStep
from tests.support.builders import Raw, make_node, make_pod
from tests.support.storage_builders import make_claim, make_class, make_volume

HOST = "kubernetes.io/hostname"


def play(*created: Raw) -> Any:
    """The report of one step on two nodes; `n2` has a local volume."""
    there = [
        make_node("n1").allocatable(cpu="4", memory="4Gi").dict(),
        make_node("n2").allocatable(cpu="4", memory="4Gi").dict(),
        make_class("local").dict(),
        make_class("fast").provisioner("csi.example.com").dict(),
        make_volume("disk").storage_class("local").on(HOST, "n2").dict(),
    ]
    step = ScenarioStep(create=created)
    scenario = Scenario("volumes", "volumes.yaml", muster_config(), 0.0, tuple(there), (step,))
    return run_scenario(scenario)["steps"][0]


def using(name: str, claim: str) -> Raw:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
    return make_pod(f"a/{name}").spec(volumes=volumes).dict()


def test_a_pod_goes_where_the_free_volume_is_and_the_next_one_finds_none() -> None:
    claims = [make_claim(f"a/c{i}").storage_class("local").dict() for i in range(2)]
    report = play(*claims, using("p", "c0"), using("q", "c1"))
    assert report["bound"] == {"a/p": "n2"}
    assert "2 node(s) didn't find available persistent volumes to bind" in report["pending"]["a/q"]["message"]


def test_a_volume_is_made_and_its_pods_follow() -> None:
    claim = make_claim("a/c").storage_class("fast").dict()
    report = play(claim, using("p", "c"), using("q", "c"))
    assert sorted(report["bound"]) == ["a/p", "a/q"]
    messages = [event["message"] for event in report["events"]]
    assert any(text.startswith("waiting for volumes to be provisioned on node") for text in messages)


def test_a_pod_that_needs_a_resource_claim_is_refused_with_the_reason() -> None:
    report = play(make_pod("a/p").spec(resourceClaims=[{"name": "gpu"}]).dict())
    assert "resource claims are not supported by this scheduler" in report["pending"]["a/p"]["message"]
