"""A real kube-apiserver, real controllers of Jobs and JobSets, the CRDs of projects, and Muster's webhook."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.conftest import CRDS
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import request
from tests.support.eventually import eventually
from tests.support.webhooks.process import WebhookProcess
from tests.tools.build import have
from tests.tools.owner_crds import RELEASED, released
from tests.upstream.programs import controllers, jobset

HERE = Path(__file__).parent
START_AND_TEST_SECONDS = 300
CRD_PATH = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
# Another release of the same CRD as MPIJob v2beta1.
LATER = frozenset({"MPIJob v1"})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            # The first test of a process starts a whole control plane.
            item.add_marker(pytest.mark.timeout(START_AND_TEST_SECONDS))


def install(server: ControlPlane, name: str) -> None:
    """Create a CRD as its project released it."""
    request(server, "POST", CRD_PATH, released(name), headers=(("Content-Type", "application/yaml"),))


@contextmanager
def owner_kinds(server: ControlPlane) -> Iterator[None]:
    """The CRDs, before any controller looks which kinds there are."""
    Cluster(server, have("kubectl").path, "kube-apiserver").kubectl("apply", "-f", str(CRDS))
    for name in RELEASED.keys() - LATER:
        install(server, name)
    await_established(server)
    yield


@pytest.fixture(scope="session")
def plane() -> Iterator[ControlPlane]:
    """etcd, kube-apiserver, kube-controller-manager and the controller of JobSets."""
    with ControlPlane(companions=(owner_kinds, partial(controllers, heartbeats=False), jobset)) as server:
        yield server


@pytest.fixture(scope="session")
def webhook(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebhookProcess]:
    """Muster's webhook, asked by the server."""
    folder = tmp_path_factory.mktemp("webhook")
    log = folder / "webhook.log"
    process = WebhookProcess(plane, log, "--register", "--cert-dir", str(folder / "certificates"))
    request(
        plane,
        "POST",
        "/api/v1/namespaces",
        {"metadata": {"name": "probe", "labels": {"muster.dev/schedule": "true"}}},
    )
    containers = [{"name": "main", "image": "example.com/app:1"}]
    probe = {"metadata": {"name": "p"}, "spec": {"containers": containers}}

    def asked() -> bool:
        answer = request(plane, "POST", "/api/v1/namespaces/probe/pods?dryRun=All", probe)
        return bool(answer["spec"]["schedulerName"] == "muster-scheduler")

    # The service account comes with its controller.
    eventually(lambda: request(plane, "GET", "/api/v1/namespaces/probe/serviceaccounts")["items"])
    eventually(asked, 40.0)
    try:
        yield process
    finally:
        process.terminate()
        code = process.wait()
    assert code == 0, process.text


@pytest.fixture
def cluster(plane: ControlPlane, webhook: WebhookProcess) -> Iterator[Cluster]:
    """The server as one test sees it."""
    own = Cluster(plane, have("kubectl").path, "kube-apiserver")
    yield own
    hooks = "/apis/admissionregistration.k8s.io/v1/"
    own.clean(keep=tuple(f"{hooks}{kind}webhookconfigurations" for kind in ("validating", "mutating")))


@pytest.fixture
def team(cluster: Cluster) -> str:
    """A namespace whose pods become gangs as their owners say; it has its service account."""
    # From the beginning: the webhook learns of later labels by a watch.
    name = cluster.namespace("team", {"muster.dev/gang": "auto"})
    eventually(lambda: cluster.request("GET", f"/api/v1/namespaces/{name}/serviceaccounts")["items"])
    return name
