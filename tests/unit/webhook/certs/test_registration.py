"""The webhook configurations: what is sent, and what an update leaves alone."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from scheduler_core.kube.errors import Conflict, NotFound
from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from scheduler_core.model.kinds import Resource
from scheduler_core.model.writes import Create, Delete, Replace
from webhook.certs.registration import merged, register, unregister

URL = WebhookEndpoint(b"PEM", "https://127.0.0.1:9443/")
EXEMPT = ["kube-node-lease", "kube-public", "kube-system", "muster-system"]


def by_name(configuration: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry for entry in configuration["webhooks"]}


POLICIES = [
    ("pods.mutate.muster.dev", "Ignore", 2, "pods", ["CREATE"]),
    ("jobs.mutate.muster.dev", "Ignore", 2, "jobs", ["CREATE"]),
    ("elasticquotas.validate.muster.dev", "Fail", 5, "elasticquotas", ["CREATE", "UPDATE"]),
    ("elasticquotas.delete.muster.dev", "Ignore", 5, "elasticquotas", ["DELETE"]),
    ("resourcequotas.validate.muster.dev", "Ignore", 5, "resourcequotas", ["CREATE", "UPDATE"]),
    ("podgroups.validate.muster.dev", "Fail", 5, "podgroups", ["CREATE", "UPDATE"]),
    ("pods.validate.muster.dev", "Ignore", 5, "pods", ["CREATE"]),
    ("pods.moves.muster.dev", "Ignore", 5, "pods", ["UPDATE"]),
    ("topologies.validate.muster.dev", "Ignore", 5, "configmaps", ["CREATE", "UPDATE"]),
    ("groups.validate.muster.dev", "Ignore", 5, "configmaps", ["CREATE", "UPDATE"]),
    ("lookalikes.validate.muster.dev", "Ignore", 1, "configmaps", ["CREATE", "UPDATE"]),
    ("x-podgroups.validate.muster.dev", "Ignore", 5, "podgroups", ["CREATE", "UPDATE"]),
    ("native-podgroups.validate.muster.dev", "Ignore", 5, "podgroups", ["CREATE", "UPDATE"]),
    ("quotagroups.validate.muster.dev", "Fail", 5, "quotagroups", ["CREATE", "UPDATE"]),
    ("quotagroups.delete.muster.dev", "Ignore", 5, "quotagroups", ["DELETE"]),
    ("quotaflavors.validate.muster.dev", "Fail", 5, "quotaflavors", ["CREATE", "UPDATE"]),
    ("quotaflavors.delete.muster.dev", "Ignore", 5, "quotaflavors", ["DELETE"]),
]


@pytest.mark.parametrize(("name", "policy", "timeout", "resource", "operations"), POLICIES)
def test_each_webhook_asks_for_little_and_says_what_its_absence_means(
    name: str, policy: str, timeout: int, resource: str, operations: list[str]
) -> None:
    entries = by_name(mutating_configuration(URL)) | by_name(validating_configuration(URL))
    entry = entries[name]
    assert len(entries) == len(POLICIES)
    assert (entry["failurePolicy"], entry["timeoutSeconds"]) == (policy, timeout)
    writes = name in ("podgroups.validate.muster.dev", "pods.validate.muster.dev", "pods.mutate.muster.dev")
    assert entry["sideEffects"] == ("NoneOnDryRun" if writes else "None")
    assert entry["matchPolicy"] == "Equivalent"
    rule = entry["rules"][0]
    scope = "Cluster" if resource in ("quotaflavors", "quotagroups") else "Namespaced"
    assert (rule["resources"], rule["operations"], rule["scope"]) == ([resource], operations, scope)
    assert entry["namespaceSelector"]["matchExpressions"][0] == {
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": EXEMPT,
    }


@pytest.mark.parametrize(
    ("endpoint", "config"),
    [
        pytest.param(URL, {"url": "https://127.0.0.1:9443/validate"}, id="a URL, without its last slash"),
        pytest.param(
            WebhookEndpoint(b"PEM", namespace="muster-system", service="hook"),
            {"service": {"namespace": "muster-system", "name": "hook", "port": 443, "path": "/validate"}},
            id="a Service, on the port of HTTPS",
        ),
        pytest.param(
            WebhookEndpoint(b"PEM", namespace="muster-system", service="hook", port=8443),
            {"service": {"namespace": "muster-system", "name": "hook", "port": 8443, "path": "/validate"}},
            id="a Service on another port",
        ),
    ],
)
def test_an_api_server_is_told_where_to_ask(endpoint: WebhookEndpoint, config: dict[str, Any]) -> None:
    assert endpoint.client_config("/validate") == {"caBundle": base64.b64encode(b"PEM").decode(), **config}


def test_only_labelled_config_maps_are_sent() -> None:
    entries = by_name(validating_configuration(URL))
    for name, label in (("topologies", "sakkara.topology"), ("groups", "sakkara.group")):
        selector = entries[f"{name}.validate.muster.dev"]["objectSelector"]
        assert selector == {"matchExpressions": [{"key": label, "operator": "Exists"}]}
    [condition] = entries["lookalikes.validate.muster.dev"]["matchConditions"]
    for said in (
        "'size' in object.data",
        "'tree' in object.data",
        "'sakkara.group' in object.metadata.labels",
    ):
        assert said in condition["expression"]


def test_native_groups_are_sent_in_every_version_that_can_be_read() -> None:
    [rule] = by_name(validating_configuration(URL))["native-podgroups.validate.muster.dev"]["rules"]
    assert rule["apiVersions"] == ["v1", "v1beta1", "v1alpha3", "v1alpha2"]


def test_reached_by_url_or_by_service() -> None:
    bundle = base64.b64encode(b"PEM").decode()
    assert URL.client_config("/mutate") == {"caBundle": bundle, "url": "https://127.0.0.1:9443/mutate"}
    service = WebhookEndpoint(b"PEM", namespace="muster-system", service="hook", port=8443)
    assert service.client_config("/validate") == {
        "caBundle": bundle,
        "service": {"namespace": "muster-system", "name": "hook", "port": 8443, "path": "/validate"},
    }


class FakeClient:
    """Stores configurations; `rivals` writes come in between as often as asked."""

    def __init__(self, rivals: int = 0) -> None:
        self.stored: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.rivals = rivals

    def get_json(self, resource: Resource, namespace: str, name: str) -> dict[str, Any]:
        if resource.plural not in self.stored:
            raise NotFound(404, "NotFound", name)
        return dict(self.stored[resource.plural])

    def _contend(self) -> None:
        if self.rivals:
            self.rivals -= 1
            raise Conflict(409, "Conflict", "lost")

    def create(self, write: Create) -> bytes:
        self._contend()
        self.writes.append(f"create {write.resource.plural}")
        metadata = {**write.body["metadata"], "resourceVersion": "1"}
        self.stored[write.resource.plural] = {**write.body, "metadata": metadata}
        return b""

    def replace(self, write: Replace) -> bytes:
        self._contend()
        assert write.body["metadata"]["resourceVersion"] == "1"
        self.writes.append(f"replace {write.resource.plural}")
        self.stored[write.resource.plural] = dict(write.body)
        return b""

    def delete(self, write: Delete) -> bytes:
        if self.stored.pop(write.resource.plural, None) is None:
            raise NotFound(404, "NotFound", write.name)
        return b""


VALIDATING, MUTATING = "validatingwebhookconfigurations", "mutatingwebhookconfigurations"


def test_registering_twice_writes_once() -> None:
    client: Any = FakeClient()
    register(client, URL)
    register(client, URL)
    assert client.writes == [f"create {VALIDATING}", f"create {MUTATING}"]


def test_new_authority_is_written_and_lost_races_are_run_again() -> None:
    client: Any = FakeClient(rivals=3)
    register(client, URL)
    client.rivals = 3
    register(client, WebhookEndpoint(b"OTHER", URL.url))
    assert client.writes[2:] == [f"replace {VALIDATING}", f"replace {MUTATING}"]
    bundle = client.stored[MUTATING]["webhooks"][0]["clientConfig"]["caBundle"]
    assert base64.b64decode(bundle) == b"OTHER"


def test_race_that_is_lost_for_ever_is_an_error() -> None:
    client: Any = FakeClient(rivals=99)
    with pytest.raises(Conflict):
        register(client, URL)


def test_update_keeps_what_others_added() -> None:
    wanted = validating_configuration(URL)
    stored = validating_configuration(WebhookEndpoint(b"OLD", "https://old"))
    stored["metadata"] = {"name": "muster-webhook", "resourceVersion": "7", "annotations": {"a": "b"}}
    stored["webhooks"][0]["objectSelector"] = {"matchLabels": {"x": "y"}}
    stored["webhooks"].insert(0, {"name": "other.example.com"})
    del stored["webhooks"][2]

    result = merged(stored, wanted)

    assert result["metadata"] == stored["metadata"]
    names = [entry["name"] for entry in result["webhooks"]]
    assert names[0] == "other.example.com"
    assert sorted(names[1:]) == sorted(by_name(wanted))
    assert result["webhooks"][1]["objectSelector"] == {"matchLabels": {"x": "y"}}
    assert result["webhooks"][1]["clientConfig"] == wanted["webhooks"][0]["clientConfig"]


def test_unregister_takes_both_away_and_does_not_mind_their_absence() -> None:
    client: Any = FakeClient()
    register(client, URL)
    unregister(client)
    assert client.stored == {}
    unregister(client)
