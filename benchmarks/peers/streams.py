"""Stream workloads: pods arrive while a scheduler runs, with or without a backlog; figures are latencies."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median
from subprocess import Popen

from benchmarks.bench_process import cpu_seconds
from benchmarks.peers.bed import Bed, Watch, paced, pod, quota, watching
from benchmarks.peers.programs import scheduler
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Create, Delete

# A scheduler that has not begun to bind by then is measured as it is.
START_SECONDS = 120.0
# How long after the last pod came a scheduler may still bind; what is not bound then counts as not bound.
LATE_SECONDS = 30.0
# A scheduler has written the reasons of the whole backlog once each of these seconds is below both limits.
QUIET_SHARE, QUIET_WRITES, QUIET_SECONDS = 0.1, 10, 3
SETTLE_SECONDS = 240.0
ENDING_QUOTA = {"cpu": "1000", "memory": "1000Gi"}


@dataclass(frozen=True)
class Stream:
    """Pods that arrive at `rate` per second on a number of nodes, and concurrent work.

    `waiting` pods wait under a full quota, and `ends` running pods per second are deleted; with `charged`,
    these have a quota too. The bounds are the 50th and 99th percentile in milliseconds, and CPU cores.
    """

    name: str
    nodes: int
    pods: int
    rate: float
    waiting: int = 0
    ends: float = 0.0
    charged: bool = False
    p50: float | None = None
    p99: float | None = None
    cores: float | None = None


@dataclass(frozen=True)
class Waited:
    """Share of bound pods, milliseconds from creation to binding, and used CPU cores."""

    bound: float
    p50: float
    p99: float
    cores: float
    api_cores: float


NAMES = ("bound", "p50", "p99", "cores", "api_cores")


def median_of(found: list[Waited]) -> Waited:
    """The median of each figure."""
    return Waited(*(median(getattr(one, name) for one in found) for name in NAMES))


def measure(bed: Bed, program: str, stream: Stream, turn: int) -> Waited:
    """One run in its own namespaces, which are emptied afterwards."""
    space, full, ending = (f"{part}-{turn}" for part in ("stream", "full", "ending"))
    seconds = stream.pods / stream.rate
    leaving = [pod(program, ending, f"end-{i}") for i in range(int(stream.ends * seconds))]
    bed.create([pod(program, space, "probe")])
    try:
        if stream.charged:
            bed.create([quota(ending, ENDING_QUOTA, ENDING_QUOTA)])
        if leaving:
            bed.create(leaving)
            bed.bind(leaving)
        if stream.waiting:
            _fill(bed, program, full, stream.waiting)
        with (
            watching(bed, [space]) as watch,
            scheduler(program, bed.server.kubeconfig, bed.folder, stand_in=bed.stand_in) as process,
        ):
            _await_probe(f"{space}/probe", watch, process)
            if stream.waiting:
                settle(bed, process)
            return _arrivals(bed, program, stream, space, leaving, watch, process)
    finally:
        bed.clear([space, full, ending])


def _fill(bed: Bed, program: str, space: str, waiting: int) -> None:
    """Create a quota that one running pod fills, and pods that wait for it."""
    room = {"cpu": "100m", "memory": "1000Gi"}
    running = pod(program, space, "running")
    bed.create([quota(space, room, room), running])
    bed.bind([running])
    bed.create([pod(program, space, f"wait-{number}") for number in range(waiting)])


def _await_probe(key: str, watch: Watch, process: Popen[bytes]) -> None:
    until = time.monotonic() + START_SECONDS
    while key not in watch.bound and time.monotonic() < until and not _ended(process):
        time.sleep(0.05)


def _ended(process: Popen[bytes]) -> bool:
    return process.poll() is not None


def settle(bed: Bed, process: Popen[bytes]) -> None:
    """Wait until the scheduler is idle, for SETTLE_SECONDS at most."""
    until = time.monotonic() + SETTLE_SECONDS
    quiet = 0
    while quiet < QUIET_SECONDS and time.monotonic() < until and not _ended(process):
        used, written = cpu_seconds(process.pid), bed.revision()
        time.sleep(1.0)
        busy = cpu_seconds(process.pid) - used >= QUIET_SHARE or bed.revision() - written >= QUIET_WRITES
        quiet = 0 if busy else quiet + 1


def _arrivals(
    bed: Bed,
    program: str,
    stream: Stream,
    space: str,
    leaving: list[Create],
    watch: Watch,
    process: Popen[bytes],
) -> Waited:
    born: dict[str, float] = {}

    def arrival(write: Create) -> Callable[[], None]:
        def create() -> None:
            born[f"{space}/{write.body['metadata']['name']}"] = time.monotonic()
            bed.client.create(write)

        return create

    def departure(write: Create) -> Callable[[], bytes]:
        gone = Delete(PODS, write.namespace, write.body["metadata"]["name"], grace_seconds=0)
        return lambda: bed.client.delete(gone)

    arrivals = [arrival(pod(program, space, f"pod-{i}")) for i in range(stream.pods)]
    began, own, api = time.monotonic(), cpu_seconds(process.pid), bed.api_cpu()
    with ThreadPoolExecutor(2) as both:
        jobs = [both.submit(paced, stream.rate, arrivals)]
        if leaving:
            jobs.append(both.submit(paced, stream.ends, [departure(write) for write in leaving], 2))
        for job in jobs:
            job.result()
    until = time.monotonic() + LATE_SECONDS
    while len(watch.bound) <= stream.pods and time.monotonic() < until and not _ended(process):
        time.sleep(0.02)
    took = time.monotonic() - began
    cores = 0.0 if _ended(process) else (cpu_seconds(process.pid) - own) / took
    waits = sorted((watch.bound[key] - at) * 1000 for key, at in born.items() if key in watch.bound)
    share = len(waits) / stream.pods
    # Who was not bound has waited longer than all others.
    waits += [float("inf")] * (stream.pods - len(waits))
    half, most = waits[len(waits) // 2], waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    return Waited(share, half, most, cores, (bed.api_cpu() - api) / took)
