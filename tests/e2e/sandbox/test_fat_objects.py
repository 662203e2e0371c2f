"""Many objects of maximum size do not exhaust the memory of their readers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, create_pod, scheduler
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e
# A page of these has some 200 MB: of what is stored, each character takes six bytes in JSON.
PODS, CHARACTERS = 30, 1_100_000
MOST_MIB = 250


def create_fat_pod(cluster: Cluster, namespace: str, name: str) -> None:
    main: dict[str, Any] = {"name": "main", "image": "example.com/app:1"}
    main["env"] = [{"name": "FAT", "value": "<" * CHARACTERS}]
    spec = {"schedulerName": "elsewhere", "terminationGracePeriodSeconds": 0, "containers": [main]}
    cluster.request(
        "POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec}
    )


def peak_mib(pid: int) -> float:
    """The most memory that a process has had so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def test_pages_of_fat_pods_are_read_in_bounded_memory(cluster: Cluster, tmp_path: Path) -> None:
    if cluster.kind == "sandbox":
        # It takes no such objects; tests/contract/test_fat_pages.py has the sizes of pages.
        return
    tenant, other = cluster.namespace(), cluster.namespace()
    create_node(cluster, "one", "6")
    for number in range(PODS):
        create_fat_pod(cluster, tenant, f"fat-{number}")
    with scheduler(cluster, tmp_path) as process:
        create_pod(cluster, other, "small")
        eventually(lambda: "small" in bound(cluster, other), 60)
        peak = peak_mib(process.process.pid)
        assert process.end() == 0, process.said()
    assert peak < MOST_MIB, peak
