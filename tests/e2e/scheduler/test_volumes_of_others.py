"""A tenant with the role `edit` tries for a volume of another team."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.sandbox.test_volumes import NO_PROVISIONER, WAIT, ZONE, Storage
from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    create_node,
    create_pod,
    node_of,
    scheduled_condition,
    scheduler,
)
from tests.support.clusters.tenant import Tenant, admit_tenant
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture
def running(cluster: Cluster, tmp_path: Path) -> Iterator[SchedulerProcess]:
    """A scheduler on a node in each of two zones."""
    create_node(cluster, "near", "16", {ZONE: "near"})
    create_node(cluster, "far", "16", {ZONE: "far"})
    with scheduler(cluster, tmp_path) as process:
        yield process
        assert process.end() == 0, process.said()


@pytest.fixture
def theirs(cluster: Cluster) -> Storage:
    """Another team with the claim `data`, whose volume is in the zone `far`."""
    storage = Storage(cluster)
    storage.make_class(NO_PROVISIONER)
    storage.make_claim("data")
    storage.complete("data", storage.make_volume("disk", "far", claim="data"))
    return storage


@pytest.fixture
def tenant(cluster: Cluster) -> Tenant:
    return admit_tenant(cluster, cluster.namespace("tenant"))


def test_a_claim_that_names_their_volume_starts_no_pod(
    cluster: Cluster, running: SchedulerProcess, theirs: Storage, tenant: Tenant
) -> None:
    """The tenant may write both the name and the mark of a complete binding."""
    volume = f"disk-{theirs.namespace}"
    body = {
        "metadata": {"name": "mine", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": theirs.class_name,
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": volume,
        },
    }
    assert tenant.tries("POST", "persistentvolumeclaims", body) == ""
    uses = [{"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}]
    create_pod(cluster, tenant.namespace, "thief", volumes=uses)

    def refused() -> bool:
        told = scheduled_condition(cluster, tenant.namespace, "thief").get("message", "")
        assert 'persistentvolumeclaim "mine" names a volume of another claim' in told, told
        return True

    eventually(refused, WAIT)
    theirs.create_pod("owner", "data")
    assert theirs.await_node("owner") == "far"
    assert node_of(cluster, tenant.namespace, "thief") == ""
    assert theirs.volume(volume)["spec"]["claimRef"]["namespace"] == theirs.namespace
