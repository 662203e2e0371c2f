"""The chart with certificates of cert-manager's, whose part the test plays: it issues, mounts and injects."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from tests.chart.live.installation import (
    ADMISSION,
    CONFIGURATIONS,
    Plane,
    arguments,
    await_serving,
    configuration,
    program,
    reach,
    release,
    replaced,
)
from tests.chart.rendering import CHART, NAMESPACE, VALUES, objects, one
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.free_port import free_port

CASE = "cert-manager"

pytestmark = pytest.mark.timeout(300)


def mount(authority: trustme.CA, folder: Path) -> None:
    """A certificate for the names that the chart asks for, and for where this webhook listens."""
    names = one(objects(CASE), "Certificate", "muster-webhook")["spec"]["dnsNames"]
    leaf = authority.issue_cert("127.0.0.1", *names)
    leaf.private_key_pem.write_to_path(folder / "tls.key")
    leaf.cert_chain_pems[0].write_to_path(folder / "tls.crt")


def inject(authority: trustme.CA, plane: Plane) -> None:
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    for plural in CONFIGURATIONS:
        found = configuration(plane, plural)
        assert (
            found["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            == f"{NAMESPACE}/muster-webhook"
        )
        for entry in found["webhooks"]:
            entry["clientConfig"]["caBundle"] = bundle
        plane.cluster.request("PUT", f"{ADMISSION}/{plural}/muster-webhook", found)


@pytest.fixture(scope="module")
def served(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Plane, int]]:
    """The chart installed and its webhook at work; how much had been asked before."""
    before = len(plane.requests("muster-webhook"))
    folder, authority = tmp_path_factory.mktemp("cert-manager"), trustme.CA()
    release("install", "muster", str(CHART), "-f", str(VALUES / f"{CASE}.yaml"), plane=plane)
    try:
        mount(authority, folder)
        port = free_port()
        reach(plane, port)
        inject(authority, plane)
        listen = f"127.0.0.1:{port}"
        places = {"listen": listen, "metrics_listen": "127.0.0.1:0", "certificate_dir": folder}
        flags = replaced(arguments(objects(CASE), "webhook"), **places, drain=0)
        flags.append(f"--kubeconfig={plane.kubeconfig('muster-webhook', folder)}")
        log = folder / "webhook.log"
        with program("webhook", log, flags) as process:
            await_serving(process, log)
            yield plane, before
    finally:
        release("uninstall", "muster", plane=plane)


def test_reviews_are_answered_with_the_mounted_certificate(served: tuple[Plane, int]) -> None:
    cluster = served[0].cluster
    namespace = cluster.namespace("issued")

    def refused() -> bool:
        path = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/elasticquotas?dryRun=All"
        body = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "quota"},
            "spec": {"min": {"cpu": "1000"}, "max": {"cpu": "1000"}},
        }
        try:
            cluster.request("POST", path, body)
        except RequestFailed as error:
            return error.status == 403 and "more than the" in str(error)
        return False

    assert eventually(refused)


def test_it_asks_for_no_secret_and_no_configuration(served: tuple[Plane, int]) -> None:
    plane, before = served
    asked = plane.requests("muster-webhook")[before:]
    assert asked
    assert [found.right for found in asked if found.code in (401, 403)] == []
    parts = {resource for _, _, resource in (found.right for found in asked)}
    assert not parts & {"secrets", *CONFIGURATIONS}
