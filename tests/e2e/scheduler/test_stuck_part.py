"""A scheduler one part of which is due for ever: it is named wherever one looks, and nobody waits for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, create_pod, scheduler
from tests.support.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.told_by("tests/property/test_loop_rests.py")]
WAIT = 60.0
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/muster-scheduler"
FAULTY = """
import sys
from scheduler_core.app.__main__ import main
from scheduler_core.controllers.gang_budgets import GangBudgets

GangBudgets.next_time = lambda self, state: 1.0
sys.argv = ["program", *sys.argv[1:]]
main()
"""


def annotations(cluster: Cluster) -> dict[str, str]:
    """Those of the Lease."""
    found: dict[str, str] = cluster.request("GET", LEASE)["metadata"]["annotations"]
    return found


def test_a_part_that_is_stuck_is_named_and_nobody_waits_for_it(cluster: Cluster, tmp_path: Path) -> None:
    create_node(cluster, "one")
    namespace = cluster.namespace()
    with scheduler(cluster, tmp_path, elect=True, program=("-c", FAULTY)) as running:
        eventually(lambda: running.metric("muster_stuck_part", part="GangBudgets") == 1.0, WAIT)
        assert running.metric("muster_stuck_part") == 1.0, "no other part"
        assert "a part of the loop is stuck" in running.said()
        create_pod(cluster, namespace, "a")
        eventually(lambda: bound(cluster, namespace) == {"a": "one"}, WAIT)
        assert running.page("/readyz")[0] == 200
        eventually(lambda: annotations(cluster).get("muster.dev/stuck-parts") == "GangBudgets", WAIT)
        told = cluster.kubectl("elasticquota", "doctor", "-A", check=False).stdout
        assert "is due and does nothing: GangBudgets; " in told, told
