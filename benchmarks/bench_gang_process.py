"""Gangs through the whole scheduler process on a real kube-apiserver: CPU time and time to the last binding.

100 gangs of 30 pods wait for 1,000 nodes before the process starts; all gangs fit. kube-scheduler with the
Coscheduling plugin needs 8 to 9 s for the same work on a similar machine.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from benchmarks.bench_process import (
    NAMESPACE,
    Watcher,
    await_true,
    cpu_seconds,
    create_all,
    events_posted,
    is_served,
    node,
    pod,
    require_apiserver,
    scheduler,
    start,
    synced_scheduler,
)
from benchmarks.support.row import Row
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.model.kinds import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
)
from scheduler_core.model.names import GROUP_NAME_ANNOTATION
from scheduler_core.model.writes import Create
from tests.support.clusters.server import Server

CRD = Path(__file__).parents[1] / "charts" / "muster" / "crds" / "incubator.scheduling.k8s.io_podgroups.yaml"


class Size(NamedTuple):
    """Number and size of pending gangs, and number of nodes."""

    nodes: int
    gangs: int
    members: int


FULL, SMALL = Size(1000, 100, 30), Size(20, 3, 10)


class Result(NamedTuple):
    """`seconds` from the first to the last binding that a client sees."""

    seconds: float
    cpu_ms_per_pod: float


def member(gang: int, number: int, members: int) -> dict[str, Any]:
    """A pod of a gang."""
    made = pod(gang * members + number)
    made["metadata"]["annotations"] = {GROUP_NAME_ANNOTATION: f"gang-{gang:03d}"}
    return made


def group(number: int, members: int) -> dict[str, Any]:
    """A PodGroup whose members start together."""
    return {
        "apiVersion": POD_GROUPS.api_version,
        "kind": POD_GROUPS.kind,
        "metadata": {"name": f"gang-{number:03d}"},
        "spec": {"minMembers": members},
    }


def measure(server: Server, size: Size) -> Result:
    """One run on a fresh server."""
    client, _ = connect(Overrides(kubeconfig=str(server.kubeconfig)))
    client.create(Create(CUSTOM_RESOURCE_DEFINITIONS, "", yaml.safe_load(CRD.read_text())))
    client.create(Create(NAMESPACES, "", {"metadata": {"name": NAMESPACE}}))
    create_all(client, [Create(NODES, "", node(number)) for number in range(size.nodes)])
    await_true("PodGroups are served", lambda: is_served(client, POD_GROUPS, NAMESPACE))
    with synced_scheduler(server) as process:
        idle = cpu_seconds(process.pid)
    groups = [group(number, size.members) for number in range(size.gangs)]
    create_all(client, [Create(POD_GROUPS, NAMESPACE, made) for made in groups])
    turns, gangs = range(size.members), range(size.gangs)
    members = [member(gang, number, size.members) for number in turns for gang in gangs]
    create_all(client, [Create(PODS, NAMESPACE, made) for made in members])
    watcher = Watcher(client)
    with scheduler(server) as process:
        await_true("all bound", lambda: len(watcher.bound) == len(members))
        await_true("all events", lambda: events_posted(client) >= len(members))
        time.sleep(0.3)
        busy = cpu_seconds(process.pid)
    watcher.close()
    spread = watcher.times[-1] - watcher.times[0]
    return Result(spread, (busy - idle) / len(members) * 1000)


def main(small: bool = False) -> list[Row]:
    """The figures of gangs whose pods were created in turn."""
    require_apiserver()
    size = SMALL if small else FULL
    with start("kube-apiserver") as server:
        result = measure(server, size)
    name = f"{size.gangs} gangs of {size.members}, {size.nodes:,} nodes"
    return [
        Row(f"bound on a kube-apiserver, {name}", result.seconds, "s", ceiling=9.0),
        Row(f"own CPU per member, {name}", result.cpu_ms_per_pod, "ms", ceiling=1.0),
    ]
