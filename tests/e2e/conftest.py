"""End-to-end tests take an API server as a fixture: the sandbox, a real kube-apiserver, or each in turn.

One server serves the whole session; a test gets namespaces of its own, and what it left in the cluster is
taken away when it ends. A server that was asked for and cannot be had is a failure.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.server import Server, servers_of
from tests.tools.build import have

CRDS = Path(__file__).parents[2] / "charts" / "muster" / "crds"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        metafunc.parametrize("server", _asked(metafunc), indirect=True, scope="session")
    if "served_by" in metafunc.fixturenames:
        metafunc.parametrize("served_by", _asked(metafunc), scope="session")


def _asked(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    """The servers that this run is for; `served_by` is for tests that start the server themselves."""
    return servers_of(metafunc.config.getoption("--server"))


def _start(name: str) -> AbstractContextManager[Server]:
    if name == "sandbox":
        from tests.support.clusters.sandbox_server import SandboxServer

        return SandboxServer()
    from tests.support.clusters.control_plane import ControlPlane

    return ControlPlane(apiserver=name)


@pytest.fixture(scope="session")
def kubectl() -> Path:
    """The kubectl binary of this run."""
    return have("kubectl").path


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest, kubectl: Path) -> Iterator[Server]:
    """A running API server with Muster's CRDs."""
    with _start(request.param) as running:
        cluster = Cluster(running, kubectl, request.param)
        cluster.kubectl("apply", "-f", str(CRDS))
        await_established(running)
        cluster.forget_kinds()
        yield running


@pytest.fixture
def cluster(server: Server, kubectl: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """The server as one test sees it; `cluster.kind` says which one it is."""
    own = Cluster(server, kubectl, request.node.callspec.params["server"])
    yield own
    own.clean()
