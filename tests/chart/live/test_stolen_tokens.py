"""What whoever has a token of Muster's accounts can do on a real API server, and what is refused.

All rights of the chart are granted, and its policies are in force. Every request is a dry run, so no case
disturbs another.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from scheduler_core.certificates import make_authority
from tests.chart.live.installation import CONFIGURATIONS
from tests.chart.live.test_chart_policies import ADMISSION, await_policies
from tests.chart.live.token_cases import CARRIED_OUT, REFUSED
from tests.chart.live.token_objects import CORE, STRATEGIC, Obj, binding, condition, fill, pod
from tests.chart.rendering import CHART, NAMESPACE, objects
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import RequestFailed, Server, request
from tests.support.eventually import eventually
from tests.tools.build import have

ONLY_CA = "the webhook changes only webhooks[].clientConfig.caBundle"
CA = base64.b64encode(make_authority(time.time()).certificate).decode()
KINDS = (
    "ServiceAccount",
    "Secret",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
    "MutatingWebhookConfiguration",
)


@dataclass(frozen=True)
class Holder:
    """Whoever has a token of an account."""

    url: str
    ca_file: Path
    token: str
    kubeconfig: Path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with ControlPlane() as running:
        cluster = Cluster(running, have("kubectl").path, "kube-apiserver")
        cluster.kubectl("apply", "-f", str(CHART / "crds"))
        await_established(running)
        fill(running)
        path = tmp_path_factory.mktemp("chart") / "objects.yaml"
        path.write_text(yaml.safe_dump_all([item for item in objects("everything") if item["kind"] in KINDS]))
        cluster.kubectl("apply", "-f", str(path))
        await_policies(running)
        yield running


@pytest.fixture(scope="module")
def holders(server: Server) -> dict[str, Holder]:
    """By account. Every account has its rights when this returns."""
    found = {}
    for name in ("scheduler", "webhook", "console"):
        path = f"{CORE}/{NAMESPACE}/serviceaccounts/muster-{name}/token"
        token = request(server, "POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
        holder = found[name] = Holder(server.url, server.ca_file, token, server.kubeconfig)
        eventually(lambda holder=holder: said(holder, "GET", "/api/v1/pods") == "")  # type: ignore[misc]
    return found


def said(holder: Holder, method: str, path: str, body: Obj | None = None) -> str:
    """The words of a refusal; empty where the request was carried out, or would have been."""
    dry = "" if method == "GET" else "?dryRun=All"
    strategic = method == "PATCH" and "/pods/" in path
    try:
        request(holder, method, path + dry, body, headers=STRATEGIC if strategic else ())
    except RequestFailed as error:
        return str(error)
    return ""


def each_of(table: dict[str, dict[str, Any]]) -> list[tuple[str, str]]:
    return [(account, what) for account, requests in table.items() for what in requests]


@pytest.mark.parametrize(("account", "what"), each_of(REFUSED))
def test_a_stolen_token_does_not_change(holders: dict[str, Holder], account: str, what: str) -> None:
    method, path, body, words = REFUSED[account][what]
    answer = said(holders[account], method, path, body)
    assert words in answer, answer or f"carried out: {what}"


@pytest.mark.parametrize(("account", "what"), each_of(CARRIED_OUT))
def test_an_account_does_its_work(holders: dict[str, Holder], account: str, what: str) -> None:
    method, path, body = CARRIED_OUT[account][what]
    assert said(holders[account], method, path, body) == ""


def widest(name: str) -> Obj:
    """A pod in the worst shape: 60,000 labels, annotations and variables."""
    made = pod(name)
    made["metadata"]["labels"] = {f"l{number}": "" for number in range(20_000)}
    made["metadata"]["annotations"] = {f"a{number}": "" for number in range(30_000)}
    made["spec"]["containers"][0]["env"] = [{"name": f"V{number}", "value": ""} for number in range(10_000)]
    return made


@pytest.mark.parametrize("what", ["status", "eviction", "binding", "labels"])
def test_no_pod_is_too_large_for_the_work_of_the_scheduler(
    server: Server, holders: dict[str, Holder], what: str
) -> None:
    """Policies have a budget, and a tenant must not be able to use it up."""
    path = f"{CORE}/team/pods"
    with suppress(RequestFailed):
        request(server, "POST", path, widest("wide"))
    asked: dict[str, tuple[str, str, Obj]] = {
        "status": ("PATCH", "/wide/status", condition("PodScheduled")),
        "eviction": ("PATCH", "/wide/status", condition("DisruptionTarget", "True")),
        "binding": ("POST", "/wide/binding", binding("wide")),
        "labels": ("PATCH", "/wide", {"metadata": {"labels": {"sakkara.member.rank": "1"}}}),
    }
    method, place, body = asked[what]
    assert said(holders["scheduler"], method, path + place, body) == ""


def mislead(found: Obj) -> None:
    everything = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*/*"]}
    for entry in found["webhooks"]:
        entry |= {"rules": [everything | {"scope": "*"}], "namespaceSelector": {}}


def divert(found: Obj) -> None:
    for entry in found["webhooks"]:
        entry["clientConfig"] = {"url": "https://192.0.2.1/all"}


def add(found: Obj) -> None:
    found["webhooks"].append({**found["webhooks"][0], "name": "more.muster.dev"})


def rename(found: Obj) -> None:
    found["webhooks"][0]["name"] = "other.muster.dev"


def lessen(found: Obj) -> None:
    found["webhooks"].pop()


def certify(found: Obj) -> None:
    for entry in found["webhooks"]:
        entry["clientConfig"]["caBundle"] = CA


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(mislead, ONLY_CA, id="which objects the API server sends"),
        pytest.param(divert, ONLY_CA, id="where it sends them"),
        pytest.param(add, ONLY_CA, id="one webhook more"),
        pytest.param(rename, ONLY_CA, id="another webhook"),
        pytest.param(lessen, ONLY_CA, id="one webhook less"),
        pytest.param(certify, "", id="the CA, which is its work"),
    ],
)
@pytest.mark.parametrize("plural", CONFIGURATIONS)
def test_of_its_configurations_the_webhook_s_account_changes_the_ca_only(
    holders: dict[str, Holder], plural: str, change: Callable[[Obj], None], words: str
) -> None:
    path = f"{ADMISSION}/{plural}/muster-webhook"
    found = request(holders["webhook"], "GET", path)
    change(found)
    answer = said(holders["webhook"], "PUT", path, found)
    assert words in answer
    assert bool(words) == bool(answer)
