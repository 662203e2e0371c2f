"""How long a scheduler process takes to know a large cluster, and how much memory that holds.

5,000 nodes and 50,000 running pods are listed from a server that has the pages ready (`canned_server.py`);
time counts from the start of the process, interpreter and imports included, to its word that every list was
read.
"""

from __future__ import annotations

import re
import tempfile
import time
from pathlib import Path

from benchmarks.bench_process import await_true, cpu_seconds, scheduler
from benchmarks.canned_server import CannedServer
from benchmarks.row import Row

NODES, PODS = 5_000, 50_000


def most_resident(pid: int) -> float:
    """The largest resident memory of a process so far, in MiB."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.M)
    if found is None:
        raise OSError(f"/proc/{pid}/status does not say VmHWM")
    return int(found[1]) / 1024


def main() -> list[Row]:
    """Seconds, processor seconds and memory of one start."""
    log = Path(tempfile.mkdtemp()) / "scheduler.log"
    with CannedServer(NODES, PODS) as server:
        began = time.monotonic()
        with scheduler(server, log) as process:
            await_true("synced", lambda: "synced" in log.read_text() or process.poll() is not None)
            seconds, cpu = time.monotonic() - began, cpu_seconds(process.pid)
            resident = most_resident(process.pid)
    size = f"{NODES:,} nodes, {PODS:,} pods"
    return [
        Row(f"start to synced, {size}", seconds, "s", ceiling=20),
        Row(f"own CPU until synced, {size}", cpu, "s CPU", ceiling=10),
        Row(f"most resident memory, {size}", resident, "MiB", ceiling=600),
    ]
