"""A tenant fills the object of its running pod up to what etcd takes, so that nobody can delete it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.rendering import CHART
from tests.support.clusters.cluster import Cluster, await_established
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.scheduler import (
    await_node,
    await_quota,
    bound,
    create_node,
    create_pod,
    create_quota,
    scheduler,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.tools.build import have

pytestmark = pytest.mark.timeout(300)

# Of the 1.5 MiB that etcd takes in a request; the rest is an annotation, which a tenant may change later.
ENV_BYTES = 1_450_000
MOST_ANNOTATION = 200_000
TOO_LARGE = "etcdserver: request is too large"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with ControlPlane() as server:
        found = Cluster(server, have("kubectl").path, "kube-apiserver")
        found.kubectl("apply", "-f", str(CHART / "crds"))
        await_established(server)
        yield found


def fill(cluster: Cluster, path: str) -> None:
    """Make the annotation of a pod as long as the server takes it."""
    fits, most = 0, MOST_ANNOTATION
    while most - fits > 1:
        size = (fits + most) // 2
        try:
            cluster.request("PATCH", path, {"metadata": {"annotations": {"full": "x" * size}}})
        except RequestFailed as refused:
            if TOO_LARGE not in str(refused):
                raise
            most = size
        else:
            fits = size


def test_a_quota_gets_its_min_back_beside_pods_that_nobody_can_delete(
    cluster: Cluster, tmp_path: Path
) -> None:
    lender, borrower = cluster.namespace("lender"), cluster.namespace("borrower")
    pods = f"/api/v1/namespaces/{borrower}/pods"
    for name in ("one", "two"):
        create_node(cluster, name, "2")
    create_quota(cluster, lender, {"cpu": "4"}, {"cpu": "4"})
    create_quota(cluster, borrower, {"cpu": "0"}, {"cpu": "4"})
    with scheduler(cluster, tmp_path) as running:
        await_quota(cluster, lender, borrower)
        for name in ("one", "two"):
            await_node(running, name)
        create_pod(cluster, borrower, "may-go", "2")
        eventually(lambda: "may-go" in bound(cluster, borrower), 60)
        env = [{"name": "FAT", "value": "x" * ENV_BYTES}]
        container = {"name": "main", "image": "example.com/app:1", "env": env}
        container["resources"] = {"requests": {"cpu": "2"}}
        spec = {"schedulerName": "muster-scheduler", "containers": [container]}
        cluster.request("POST", pods, {"metadata": {"name": "fat"}, "spec": spec})
        eventually(lambda: "fat" in bound(cluster, borrower), 60)
        fill(cluster, f"{pods}/fat")
        with pytest.raises(RequestFailed, match=TOO_LARGE):
            cluster.request("DELETE", f"{pods}/fat")
        create_pod(cluster, lender, "claims", "2")
        eventually(lambda: "claims" in bound(cluster, lender), 60)
        assert set(bound(cluster, borrower)) == {"fat"}
        assert running.process.poll() is None
        assert "evicting" in running.said()
        assert TOO_LARGE in running.said()
