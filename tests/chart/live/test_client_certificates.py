"""A kube-apiserver that shows a client certificate, and one that does not."""

from __future__ import annotations

import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml

from scheduler_core.model.names import MUSTER_SCHEDULER
from tests.chart.rendering import CHART
from tests.support.clusters.cluster import await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import RequestFailed, exchange, request
from tests.support.eventually import eventually
from tests.support.webhooks.process import WebhookProcess

Body = dict[str, Any]
API_SERVER = "kube-apiserver"
QUOTA = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/tenant/elasticquotas"


def admission_configuration(folder: Path, authority: trustme.CA) -> Path:
    """For a webhook at any address; what docs/install.md has is tried beside this file."""
    leaf = authority.issue_cert("apiserver.example.com", common_name=API_SERVER)
    leaf.cert_chain_pems[0].write_to_path(folder / "client.crt")
    leaf.private_key_pem.write_to_path(folder / "client.key")
    files = {"client-certificate": str(folder / "client.crt"), "client-key": str(folder / "client.key")}
    kubeconfig = {"apiVersion": "v1", "kind": "Config", "users": [{"name": "*", "user": files}]}
    (folder / "webhooks.kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    configuration = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": str(folder / "webhooks.kubeconfig"),
    }
    names = ("ValidatingAdmissionWebhook", "MutatingAdmissionWebhook")
    plugins = [{"name": name, "configuration": configuration} for name in names]
    kind = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}
    (folder / "admission.yaml").write_text(yaml.safe_dump(kind))
    return folder / "admission.yaml"


@contextmanager
def installed(*, shows: bool) -> Iterator[tuple[ControlPlane, WebhookProcess]]:
    """A server with the webhook registered, which wants certificates; `shows`: the server has one."""
    with tempfile.TemporaryDirectory(prefix="muster-clients-") as name:
        folder, authority = Path(name), trustme.CA()
        authority.cert_pem.write_to_path(folder / "clients.crt")
        said = admission_configuration(folder, authority)
        with ControlPlane(extra_flags=[f"--admission-control-config-file={said}"] if shows else []) as server:
            for file in sorted((CHART / "crds").glob("*.yaml")):
                body = yaml.safe_load(file.read_text())
                request(server, "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
            await_established(server)
            request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "tenant"}})
            options = ("--cert-dir", name, "--register", "--drain", "0")
            known = ("--client-ca", str(folder / "clients.crt"), "--client-name", API_SERVER)
            webhook = WebhookProcess(server, folder / "webhook.log", *options, *known)
            try:
                yield server, webhook
            finally:
                webhook.kill()


def quota(name: str, least: str) -> Body:
    spec = {"min": {"cpu": least}, "max": {"cpu": "100"}}
    kind = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    return {**kind, "metadata": {"name": name, "namespace": "tenant"}, "spec": spec}


def test_reviews_of_a_server_with_a_certificate_are_answered_and_those_of_others_not() -> None:
    with installed(shows=True) as (server, webhook):
        request(server, "POST", QUOTA, quota("quota", "0"))
        pod = {"metadata": {"generateName": "p-"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}

        def sent_to_muster() -> bool:
            path = "/api/v1/namespaces/tenant/pods?dryRun=All"
            made: Body = request(server, "POST", path, pod)
            return bool(made["spec"]["schedulerName"] == MUSTER_SCHEDULER)

        eventually(sent_to_muster)
        request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": "other"}})
        other = quota("quota", "0")
        other["metadata"]["namespace"], other["spec"] = "other", {"min": {"ephemeral-storage": "0"}}

        def names_the_tenant() -> bool:
            """An administrator of whom a known API server speaks."""
            path = QUOTA.replace("tenant", "other")
            _, warnings = exchange(server, "POST", f"{path}?dryRun=All", other)
            return any("Quotas that guarantee none of it: tenant" in text for text in warnings)

        eventually(names_the_tenant)
        call = urllib.request.Request(f"https://127.0.0.1:{webhook.port}/validate", b"{}", method="POST")
        call.add_header("Content-Type", "application/json")
        stranger = ssl.create_default_context()
        stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(call, timeout=30, context=stranger)
        refused.value.close()
        assert refused.value.code == 403


def test_a_server_without_one_is_told_so_where_the_webhook_must_answer() -> None:
    with installed(shows=False) as (server, _):

        def told() -> bool:
            with pytest.raises(RequestFailed) as refused:
                request(server, "POST", f"{QUOTA}?dryRun=All", quota("quota", "0"))
            said = str(refused.value)
            assert "elasticquotas.validate.muster.dev" in said
            return "certificate is known here" in said

        # Before the API server knows the configuration, it asks nobody.
        eventually(told)
