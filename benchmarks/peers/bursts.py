"""Burst workloads: pods exist before a scheduler starts; the figure is pods bound per second."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from benchmarks.bench_process import cpu_seconds
from benchmarks.peers.bed import Bed, group, native_group, pod, quota, watching
from benchmarks.peers.programs import scheduler
from scheduler_core.model.writes import Create
from tests.support.eventually import eventually

QUOTAS = 10
MEMBERS = 30
BIND_SECONDS = 180.0
EVENT_SECONDS = 15.0

# (scheduler, namespace, pods) -> what is created first, and the pods.
Maker = Callable[[str, str, int], tuple[list[Create], list[Create]]]


def plain(scheduler: str, space: str, count: int) -> tuple[list[Create], list[Create]]:
    """Equal pods."""
    return [], [pod(scheduler, space, f"pod-{number}") for number in range(count)]


def different(scheduler: str, space: str, count: int) -> tuple[list[Create], list[Create]]:
    """Pods with different CPU requests (some thousands of values)."""
    return [], [pod(scheduler, space, f"pod-{i}", cpu=f"{100 + i}m") for i in range(count)]


def quotas(scheduler: str, space: str, count: int) -> tuple[list[Create], list[Create]]:
    """Pods of ten namespaces within the min of their quotas."""
    spaces = [f"{space}-{number}" for number in range(QUOTAS)]
    room = {"cpu": "1000", "memory": "1000Gi"}
    pods = [pod(scheduler, spaces[i % QUOTAS], f"pod-{i}") for i in range(count)]
    return [quota(name, room, room) for name in spaces], pods


def gangs(scheduler: str, space: str, count: int) -> tuple[list[Create], list[Create]]:
    """Gangs of thirty pods, whose members were created in turn."""
    number = count // MEMBERS
    names = [f"gang-{i:03d}" for i in range(number)]
    pods = [pod(scheduler, space, f"{name}-{i}", gang=name) for i in range(MEMBERS) for name in names]
    return [group(space, name, MEMBERS) for name in names], pods


def native_gangs(scheduler: str, space: str, count: int) -> tuple[list[Create], list[Create]]:
    """The same gangs as Kubernetes' own groups."""
    names = [f"gang-{i:03d}" for i in range(count // MEMBERS)]
    pods = [pod(scheduler, space, f"{name}-{i}", native=name) for i in range(MEMBERS) for name in names]
    return [native_group(space, name, MEMBERS) for name in names], pods


@dataclass(frozen=True)
class Burst:
    """A number of pods of one form on a number of nodes; `floor` is the required ratio to the peer's rate.

    `native`: on the newest kube-apiserver, beside the newest kube-scheduler without plugins.
    """

    name: str
    make: Maker
    nodes: int
    pods: int
    floor: float | None = None
    native: bool = False

    @property
    def title(self) -> str:
        """Title of the workload with its sizes."""
        return f"{self.name}, {self.nodes:,} nodes, {self.pods:,} pods"


@dataclass(frozen=True)
class Bound:
    """Pods bound per second from the first to the last, and CPU time of both programs per pod in ms.

    The scheduler's time includes its start (imports, lists of nodes and pods). Both times end when all pods
    have their events. `seconds` is the time from the scheduler's start to the last binding.
    """

    rate: float
    own_ms: float
    api_ms: float
    seconds: float


_FIGURES = ("rate", "own_ms", "api_ms", "seconds")


def median_of(found: list[Bound]) -> Bound:
    """The median of each figure."""
    return Bound(*(median(getattr(one, name) for one in found) for name in _FIGURES))


def measure(bed: Bed, program: str, burst: Burst, turn: int) -> Bound:
    """One run in its own namespaces, which are emptied afterwards."""
    frame, pods = burst.make(program, f"burst-{turn}", burst.pods)
    bed.create(frame)
    bed.create(pods)
    spaces = sorted({write.namespace for write in pods})
    try:
        with watching(bed, spaces) as watch:
            api = bed.api_cpu()
            began = time.monotonic()
            with scheduler(
                program, bed.server.kubeconfig, bed.folder, native=burst.native, stand_in=bed.stand_in
            ) as process:
                eventually(lambda: len(watch.bound) == len(pods) or process.poll() is not None, BIND_SECONDS)
                _await_events(bed, spaces, len(pods))
                api = bed.api_cpu() - api
                own = cpu_seconds(process.pid)
        times = sorted(watch.bound.values())
        each = 1000 / len(pods)
        return Bound((len(times) - 1) / (times[-1] - times[0]), own * each, api * each, times[-1] - began)
    finally:
        bed.clear(spaces)


def _await_events(bed: Bed, spaces: list[str], pods: int) -> None:
    """Wait for the events after the bindings; lost events are not awaited for long."""
    until = time.monotonic() + EVENT_SECONDS
    while bed.events(spaces) < pods and time.monotonic() < until:
        time.sleep(0.2)
