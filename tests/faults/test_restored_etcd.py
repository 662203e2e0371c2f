"""etcd restored from a backup, beneath a scheduler and a webhook that remember what came after it.

What was bound since the backup is not bound any more, what was deleted is back, and versions count from an
earlier number again. On a control plane of its own: everything in it is turned back.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import (
    SchedulerProcess,
    bound,
    create_node,
    create_pod,
    create_quota,
    scheduler,
)
from tests.support.clusters.server import RequestFailed
from tests.support.eventually import eventually
from tests.support.faults.plane import FaultPlane
from tests.support.faults.stage import NO_KUBECTL
from tests.support.webhooks.process import WebhookProcess

pytestmark = pytest.mark.timeout(300)

MAX = 6
NODES_HAVE = 16
SETTLE_SECONDS = 60.0


def cache_of(process: SchedulerProcess) -> dict[str, Any]:
    status, text = process.page("/debug/cache")
    assert status == 200, text
    found: dict[str, Any] = json.loads(text)
    return found


def agrees(cluster: Cluster, process: SchedulerProcess, namespace: str, wanted: int) -> bool:
    """Whether so many pods have a node, and the scheduler knows these and no others."""
    cache = cache_of(process)
    used = next(
        (str(quota["used"].get("cpu", "0")) for quota in cache["quotas"] if namespace in quota["quota"]), ""
    )
    unrest = {what: cache[what] for what in ("assumed", "differences", "broken") if cache[what]}
    assert (len(bound(cluster, namespace)), used, unrest) == (wanted, str(wanted), {})
    return True


def accepted(cluster: Cluster, namespace: str, minimum: int) -> bool:
    """Whether a quota is let in; False where the webhook says that the nodes do not have as much."""
    try:
        create_quota(cluster, namespace, {"cpu": str(minimum)}, {"cpu": str(minimum)})
    except RequestFailed as refused:
        if "makes the sum of min" not in str(refused):
            raise
        return False
    return True


# A backup is older than what controllers write while the server comes back: a watch that asks later sees no
# version go back (docs/reliability.md).
WRITES_SINCE = 500
# The server is away for as long as etcd and kube-apiserver take to start.
PATIENT = ("--leader-elect-lease-duration=90s", "--leader-elect-renew-deadline=80s")


def write_often(cluster: Cluster, namespace: str, times: int) -> None:
    """Let the versions of the server grow by so many."""
    path, meta = f"/api/v1/namespaces/{namespace}/configmaps", {"name": "written-often"}
    cluster.request("POST", path, {"metadata": meta})
    for number in range(times):
        cluster.request("PUT", f"{path}/written-often", {"metadata": meta, "data": {"number": str(number)}})


def test_a_restored_etcd_is_believed(plane: FaultPlane, tmp_path: Path) -> None:
    cluster = Cluster(plane, NO_KUBECTL, "kube-apiserver")
    namespace = cluster.namespace("restored")
    for number in range(2):
        create_node(cluster, f"node-{number}", "8")
    webhook = WebhookProcess(plane, tmp_path / "webhook.log", "--register")
    try:
        with scheduler(cluster, tmp_path, *PATIENT, elect=True) as process:
            create_quota(cluster, namespace, {"cpu": str(MAX)}, {"cpu": str(MAX)})
            for number in range(4):
                create_pod(cluster, namespace, f"before-{number}")
            eventually(lambda: agrees(cluster, process, namespace, 4), SETTLE_SECONDS)
            plane.save()
            eventually(lambda: agrees(cluster, process, namespace, 4), SETTLE_SECONDS)

            write_often(cluster, namespace, WRITES_SINCE)
            assert accepted(cluster, cluster.namespace("forgotten"), NODES_HAVE - MAX)
            for number in range(3):
                cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/before-{number}")
            for number in range(40):
                create_pod(cluster, namespace, f"after-{number}")
            eventually(lambda: agrees(cluster, process, namespace, MAX), SETTLE_SECONDS)
            plane.restore()

            kept = {f"before-{number}" for number in range(4)}
            eventually(lambda: set(bound(cluster, namespace)) == kept, SETTLE_SECONDS)
            eventually(lambda: agrees(cluster, process, namespace, 4), SETTLE_SECONDS)
            # Names and versions of the past come again, with other objects behind them.
            for number in range(4):
                create_pod(cluster, namespace, f"after-{number}")
            eventually(lambda: agrees(cluster, process, namespace, MAX), SETTLE_SECONDS)
            # The webhook has forgotten the other quota, and knows the first one.
            later = cluster.namespace("later")
            assert not accepted(cluster, later, NODES_HAVE - MAX + 1)
            eventually(lambda: accepted(cluster, later, NODES_HAVE - MAX), SETTLE_SECONDS)
            cluster.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/before-0")
            eventually(lambda: len(bound(cluster, namespace)) == MAX, SETTLE_SECONDS)
            eventually(lambda: agrees(cluster, process, namespace, MAX), SETTLE_SECONDS)
            assert process.process.poll() is None, process.said()
        assert webhook.process.poll() is None, webhook.text
    finally:
        webhook.kill()
