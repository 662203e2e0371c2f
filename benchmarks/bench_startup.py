"""Start of a scheduler process on a large cluster: time until all lists are read, and memory.

A server sends prepared lists of nodes and running pods (`canned_server.py`). The time starts with the
process, so that interpreter and imports are included, and ends with its report that all lists were read.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.bench_process import cpu_seconds, synced_scheduler
from benchmarks.support.canned_server import CannedServer, running_cluster
from benchmarks.support.row import Row


@dataclass(frozen=True)
class Size:
    """Size of a cluster, and limits of a start on it: seconds, CPU seconds, MiB."""

    nodes: int
    pods: int
    seconds: float
    cpu: float
    resident: float


# Wall time is at the mercy of other work on the machine, processor time hardly.
CLUSTERS = (Size(1_000, 10_000, 8, 3, 250), Size(5_000, 50_000, 20, 10, 600))
SMALL = (Size(20, 200, 8, 3, 250),)


def memory(pid: int, field: str) -> float:
    """Resident memory of a process in MiB: now (`VmRSS`) or at most (`VmHWM`)."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    if found is None:
        raise OSError(f"/proc/{pid}/status does not say {field}")
    return int(found[1]) / 1024


def measured(nodes: int, pods: int) -> tuple[float, float, float]:
    """Seconds, CPU seconds and MiB of one start."""
    with CannedServer(running_cluster(nodes, pods)) as server:
        began = time.monotonic()
        with synced_scheduler(server) as process:
            return time.monotonic() - began, cpu_seconds(process.pid), memory(process.pid, "VmHWM")


def main(small: bool = False) -> list[Row]:
    """Seconds, CPU seconds and memory of a start on each cluster."""
    rows = []
    for cluster in SMALL if small else CLUSTERS:
        seconds, cpu, resident = measured(cluster.nodes, cluster.pods)
        size = f"{cluster.nodes:,} nodes, {cluster.pods:,} pods"
        rows += [
            Row(f"start to synced, {size}", seconds, "s", ceiling=cluster.seconds),
            Row(f"own CPU until synced, {size}", cpu, "s CPU", ceiling=cluster.cpu),
            Row(f"most resident memory, {size}", resident, "MiB", ceiling=cluster.resident),
        ]
    return rows
