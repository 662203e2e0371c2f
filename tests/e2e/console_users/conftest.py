"""A real kube-apiserver: the sandbox has no users and no rights."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import CRDS
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane


@pytest.fixture(scope="session")
def guarded(kubectl: Path) -> Iterator[ControlPlane]:
    """etcd and kube-apiserver with Muster's CRDs."""
    with ControlPlane() as running:
        Cluster(running, kubectl, "kube-apiserver").kubectl("apply", "-f", str(CRDS))
        await_established(running)
        yield running


@pytest.fixture
def cluster(guarded: ControlPlane, kubectl: Path) -> Iterator[Cluster]:
    """The server as one test sees it."""
    own = Cluster(guarded, kubectl, "kube-apiserver")
    yield own
    own.clean()
