"""Ways round a reservation and round the rules: none may get through, on any server.

Where four CPUs are allowed and a group holds three, one is left. Every row asks for two in another disguise.
The refusal must be the webhook's, and the same pod that asks for one gets in: what is refused is the amount.
"""

from __future__ import annotations

import copy
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.model.admission_webhooks import WebhookEndpoint
from tests.e2e.webhook.test_reservations import (
    GROUP_ANNOTATION,
    GROUPS,
    Hook,
    await_asked,
    create,
    group,
    limited,
    pod,
    refusal,
    with_quota,
)
from tests.e2e.webhook.test_webhook import quota, stop
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.server import RequestFailed, Server
from tests.support.eventually import eventually
from tests.support.webhooks.registered import register_patiently
from tests.support.webhooks.try_again import until_decided

pytestmark = pytest.mark.e2e
Obj = dict[str, Any]


@pytest.fixture(scope="module")
def hook(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hook]:
    running = Hook(server, tmp_path_factory.mktemp("bypass") / "hook")
    yield running
    assert stop(running.process) == 0, running.log.read_text()


@pytest.fixture
def guarded(cluster: Cluster, hook: Hook) -> Cluster:
    register_patiently(cluster, WebhookEndpoint(hook.authority, hook.url))
    await_asked(cluster)
    return cluster


@pytest.fixture
def held(guarded: Cluster) -> str:
    """A namespace of four CPUs, three of which a group holds."""
    namespace = limited(guarded, **{"requests.cpu": "4"})
    create(guarded, namespace, group("holder", 1, cpu="3"))
    eventually(lambda: refusal(guarded, namespace, pod("probe", "2"), "?dryRun=All") != "")
    return namespace


def requests(cpu: str) -> Obj:
    return {"requests": {"cpu": cpu}}


def container(name: str, cpu: str) -> Obj:
    return {"name": name, "image": "example.com/app:1", "resources": requests(cpu)}


def spec_of(**spec: Any) -> Obj:
    return {**pod("p", "1"), "spec": spec}


def in_an_init_container(cpu: str) -> Obj:
    return spec_of(initContainers=[container("first", cpu)], containers=[container("main", "100m")])


def half_in_a_sidecar(cpu: str) -> Obj:
    milli = int(cpu) * 1000 - 900
    sidecar = {**container("side", f"{milli}m"), "restartPolicy": "Always"}
    return spec_of(initContainers=[sidecar], containers=[container("main", "900m")])


def in_an_init_container_beside_a_sidecar(cpu: str) -> Obj:
    sidecar = {**container("side", "900m"), "restartPolicy": "Always"}
    heavy = container("heavy", f"{int(cpu) * 1000 - 900}m")
    return spec_of(initContainers=[sidecar, heavy], containers=[container("main", "50m")])


def in_two_containers(cpu: str) -> Obj:
    return spec_of(containers=[container("a", "900m"), container("b", f"{int(cpu) * 1000 - 900}m")])


def at_the_level_of_the_pod(cpu: str) -> Obj:
    return spec_of(resources=requests(cpu), containers=[container("main", "100m")])


def as_a_limit_alone(cpu: str) -> Obj:
    only = {"name": "main", "image": "example.com/app:1", "resources": {"limits": {"cpu": cpu}}}
    return spec_of(containers=[only])


def with_a_generated_name(cpu: str) -> Obj:
    body = pod("p", cpu)
    body["metadata"] = {"generateName": "p-"}
    return body


def in_another_unit(cpu: str) -> Obj:
    return pod("p", f"{int(cpu)}000000u")


def under_another_scheduler(cpu: str) -> Obj:
    body = pod("p", cpu)
    body["spec"]["schedulerName"] = "somebody-else"
    return body


def with_a_node_of_its_own(cpu: str) -> Obj:
    body = pod("p", cpu)
    body["spec"]["nodeName"] = "nowhere"
    return body


def as_member_of_a_group_that_is_not_there(cpu: str) -> Obj:
    return pod("p", cpu, "no-such-group")


def as_member_by_the_label_of_another_dialect(cpu: str) -> Obj:
    body = pod("p", cpu)
    body["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": "no-such-group"}
    return body


DISGUISES: tuple[Callable[[str], Obj], ...] = (
    in_an_init_container,
    half_in_a_sidecar,
    in_an_init_container_beside_a_sidecar,
    in_two_containers,
    at_the_level_of_the_pod,
    as_a_limit_alone,
    with_a_generated_name,
    in_another_unit,
    under_another_scheduler,
    with_a_node_of_its_own,
    as_member_of_a_group_that_is_not_there,
    as_member_by_the_label_of_another_dialect,
)


@pytest.mark.smoke
def test_no_disguise_gets_past_a_reservation(guarded: Cluster, held: str) -> None:
    said = {build.__name__: refusal(guarded, held, build("2"), "?dryRun=All") for build in DISGUISES}
    passed = [name for name, words in said.items() if "reserved: requests.cpu=3" not in words]
    assert not passed, said
    fits = {build.__name__: refusal(guarded, held, build("1"), "?dryRun=All") for build in DISGUISES}
    assert not any(fits.values()), fits


def test_a_pod_cannot_grow_past_a_reservation_in_place(guarded: Cluster, held: str) -> None:
    create(guarded, held, pod("p", "1"))
    path = f"/api/v1/namespaces/{held}/pods/p"
    grown = {"spec": {"containers": [container("main", "2")]}}
    for place in (f"{path}/resize", path):
        with pytest.raises(RequestFailed) as refused:
            until_decided(partial(guarded.request, "PATCH", place, copy.deepcopy(grown)))
        assert refused.value.status in (403, 422), place


def test_ephemeral_containers_bring_no_requests(guarded: Cluster, held: str) -> None:
    create(guarded, held, pod("p", "1"))
    greedy = {"spec": {"ephemeralContainers": [container("debug", "2")]}}
    with pytest.raises(RequestFailed) as refused:
        guarded.request("PATCH", f"/api/v1/namespaces/{held}/pods/p/ephemeralcontainers", greedy)
    assert refused.value.status == 422
    assert "resources: Forbidden: cannot be set for an Ephemeral Container" in str(refused.value)


def test_a_pod_cannot_move_into_the_group_that_holds(guarded: Cluster, held: str) -> None:
    create(guarded, held, pod("p", "1", "another"))
    move = {"metadata": {"annotations": {GROUP_ANNOTATION: "holder"}}}
    with pytest.raises(RequestFailed) as refused:
        guarded.request("PATCH", f"/api/v1/namespaces/{held}/pods/p", move)
    assert refused.value.status == 403
    assert "moves the pod out of group another" in str(refused.value)


def test_a_tenant_cannot_exempt_its_namespace_from_reservations(guarded: Cluster, held: str) -> None:
    guarded.request(
        "PATCH", f"/api/v1/namespaces/{held}", {"metadata": {"labels": {"muster.dev/exempt": "true"}}}
    )
    labelled = f"/api/v1/namespaces/{held}"
    assert guarded.request("GET", labelled)["metadata"]["labels"]["muster.dev/exempt"] == "true"
    assert "reserved: requests.cpu=3" in refusal(guarded, held, pod("p", "2"), "?dryRun=All")


def test_a_group_cannot_change_what_it_holds(guarded: Cluster, held: str) -> None:
    path = f"{GROUPS.format(held)}/holder"
    with pytest.raises(RequestFailed) as refused:
        guarded.request("PATCH", path, {"spec": {"totalResources": {"cpu": "4"}}})
    assert refused.value.status in (403, 422)


@pytest.mark.smoke
def test_every_hook_is_asked_for_equivalent_versions_too() -> None:
    from scheduler_core.model.admission_webhooks import mutating_configuration, validating_configuration

    endpoint = WebhookEndpoint(b"", "https://127.0.0.1:1")
    entries = [
        entry
        for build in (mutating_configuration, validating_configuration)
        for entry in build(endpoint)["webhooks"]
    ]
    assert entries
    assert {entry["matchPolicy"] for entry in entries} == {"Equivalent"}


def test_objects_that_bypass_an_unavailable_webhook_are_reported(
    cluster: Cluster, server: Server, tmp_path: Path
) -> None:
    namespace = with_quota(cluster, **{"requests.cpu": "4"})
    quotas = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas"
    cluster.request("POST", quotas, quota("eq", max={"cpu": "6"}))

    def told() -> list[Obj]:
        found: list[Obj] = cluster.request("GET", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")[
            "items"
        ]
        return [event for event in found if event["reason"] == "RuleBroken"]

    running = Hook(server, tmp_path / "first")
    try:
        (about_quota,) = eventually(told)
        assert about_quota["regarding"]["name"] == "eq"
        assert "spec.max[cpu]=6 exceeds hard[requests.cpu]=4 of ResourceQuota" in about_quota["note"]
        scrape = urllib.request.urlopen(f"{running.metrics}/metrics")
        assert b'muster_admission_objects_breaking_rules{rule="hard"} 1.0' in scrape.read()
    finally:
        assert stop(running.process) == 0, running.log.read_text()

    create(cluster, namespace, pod("left", "1"))
    again = Hook(server, tmp_path / "second")
    try:
        # The first may be told once more: the name of an Event changes with the time.
        eventually(lambda: {event["regarding"]["kind"] for event in told()} == {"ElasticQuota", "Pod"})
    finally:
        assert stop(again.process) == 0, again.log.read_text()
    about_pod = next(event for event in told() if event["regarding"]["kind"] == "Pod")
    assert "spec.schedulerName=default-scheduler though ElasticQuota" in about_pod["note"]
