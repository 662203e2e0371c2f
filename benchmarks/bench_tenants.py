"""Latency of one namespace's pods beside the waiting pods of another one, which all differ.

The other namespace has thousands of waiting pods (or gangs) of one shape, and deletes and creates a running
pod every half second. Each end may help some of them, and each is tried by itself. Every 100 ms the watch has
a pod of the quiet namespace that can start at once; the time until its binding is measured, as in
`bench_flood.py`. `python -m benchmarks.bench_tenants most-terms victims` measures some shapes alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

from benchmarks.bench_flood import FLOOD, PROBE_SECONDS, QUIET, TICK_SECONDS, Flood
from benchmarks.bench_process import synced_scheduler
from benchmarks.bench_restart import (
    MOST_SECONDS,
    QUIET_SECONDS,
    QUOTAS_PATH,
    SMALL_QUIET_SECONDS,
    await_rest,
    plain_pod,
    quota,
)
from benchmarks.support.canned_server import PODS_PATH, metadata, pages
from benchmarks.support.row import Row
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.names import GROUP_NAME_ANNOTATION

GROUPS_PATH: Final = f"/apis/{POD_GROUPS.api_version}/{POD_GROUPS.plural}"
END_SECONDS: Final = 0.5
# Of 32 CPUs of a node; the pod that ends and comes again has one more.
HELD: Final = "30500m"
# The share of a node that the quota of the busy namespace has.
ALL_HELD: Final = "31500m"
CEILING_MS: Final = 200.0
MEMBERS: Final = 32


@dataclass(frozen=True)
class Size:
    """Number of nodes, all but full, of waiting pods, and seconds for which the quiet namespace creates pods.

    `quiet`: for how long a scheduler that has tried all pods is at rest.
    """

    nodes: int
    pods: int
    seconds: float
    quiet: float


FULL = Size(1_000, 3_000, 20.0, QUIET_SECONDS)
SMALL = Size(10, 64, 1.0, SMALL_QUIET_SECONDS)


def no_node(size: Size, number: int) -> dict[str, Any]:
    """A pod with a selector of its own, which no node has."""
    return plain_pod(FLOOD, f"waits-{number}", "1", nodeSelector={"disk": f"kind-{number}"})


def full_node(size: Size, number: int) -> dict[str, Any]:
    """A pod for one node, which is full."""
    name = f"node-{number % size.nodes}"
    asked = f"{2000 + number // size.nodes}m"
    return plain_pod(FLOOD, f"waits-{number}", asked, nodeSelector={"kubernetes.io/hostname": name})


def own_size(size: Size, number: int) -> dict[str, Any]:
    """A pod with requests of its own, for which no node has room."""
    return plain_pod(FLOOD, f"waits-{number}", f"{2000 + number}m")


def own_neighbour(size: Size, number: int) -> dict[str, Any]:
    """A pod that has to be beside one of its own kind, which does not exist."""
    term = {
        "labelSelector": {"matchLabels": {"app": f"missing-{number}"}},
        "topologyKey": "kubernetes.io/hostname",
    }
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return plain_pod(FLOOD, f"waits-{number}", "1", affinity=near)


def many_terms(size: Size, number: int) -> dict[str, Any]:
    """A pod with 32 rules about the pods of its namespace, of which every running pod keeps all."""
    rules = [
        {
            "maxSkew": 1_000_000,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {
                "matchExpressions": [{"key": f"k{rule}", "operator": "NotIn", "values": [f"{number}"]}]
            },
        }
        for rule in range(32)
    ]
    return plain_pod(FLOOD, f"waits-{number}", f"{2000 + number}m", topologySpreadConstraints=rules)


def terms_of_its_own(number: int) -> dict[str, Any]:
    """64 preferences about the pods of the own namespace, which no other pod has: as many as are read."""
    terms = [
        {
            "weight": 1 + term % 100,
            "podAffinityTerm": {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {
                    "matchExpressions": [{"key": f"k{term}", "operator": "NotIn", "values": [f"{number}"]}]
                },
            },
        }
        for term in range(64)
    ]
    return {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def most_terms(size: Size, number: int) -> dict[str, Any]:
    """A pod with 64 terms of its own, for which no node has room."""
    return plain_pod(FLOOD, f"waits-{number}", f"{2000 + number}m", affinity=terms_of_its_own(number))


def runs_with_most_terms(name: str, number: int) -> dict[str, Any]:
    """A pod on a node with 64 terms, which every attempt of its namespace has to look at."""
    terms = terms_of_its_own(1_000_000 + number)
    return plain_pod(FLOOD, f"runs-{name}", HELD, nodeName=name, affinity=terms)


def terms_that_refuse(number: int) -> dict[str, Any]:
    """64 required rules, which no other pod has, that keep pods of the own namespace off the node."""
    terms = [
        {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {
                "matchExpressions": [{"key": f"k{term}", "operator": "NotIn", "values": [f"{number}"]}]
            },
        }
        for term in range(64)
    ]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def runs_and_refuses(name: str, number: int) -> dict[str, Any]:
    """A pod on a node with 64 terms that refuse others of its namespace, whose quota such pods fill."""
    terms = terms_that_refuse(number)
    return plain_pod(FLOOD, f"runs-{name}", ALL_HELD, nodeName=name, affinity=terms)


def evicts(size: Size, number: int) -> dict[str, Any]:
    """A pod that every running pod of its namespace refuses, and that may evict one of them."""
    return plain_pod(FLOOD, f"waits-{number}", f"{2000 + number}m", priority=100)


def runs_plainly(name: str, number: int) -> dict[str, Any]:
    """A pod on a node."""
    return plain_pod(FLOOD, f"runs-{name}", HELD, nodeName=name)


def unlike_member(size: Size, number: int) -> dict[str, Any]:
    """A member of a gang of 32 that all differ and keep away from each other; one of them fits no node."""
    gang, last = f"gang-{number // MEMBERS}", number % MEMBERS == MEMBERS - 1
    term = {"labelSelector": {"matchLabels": {"gang": gang}}, "topologyKey": "kubernetes.io/hostname"}
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asked = f"{40_000 if last else 1000 + number % 500}m"
    made = plain_pod(FLOOD, f"waits-{number}", asked, affinity=away)
    made["metadata"]["labels"] |= {"gang": gang, "to": f"{number}"}
    made["metadata"]["annotations"] |= {GROUP_NAME_ANNOTATION: gang}
    return made


def group(number: int) -> dict[str, Any]:
    """The PodGroup of such a gang."""
    kind = {"apiVersion": POD_GROUPS.api_version, "kind": POD_GROUPS.kind}
    meta = {**metadata(f"gang-{number}", {}), "namespace": FLOOD}
    return {**kind, "metadata": meta, "spec": {"minMembers": MEMBERS}}


@dataclass(frozen=True)
class Shape:
    """How the busy namespace's waiting and running pods are made; one in `share` of `Size.pods` waits."""

    title: str
    make: Callable[[Size, int], dict[str, Any]]
    share: int = 1
    runs: Callable[[str, int], dict[str, Any]] = runs_plainly


SHAPES: Final[dict[str, Shape]] = {
    "no-node": Shape("pods, each with a selector that no node has", no_node),
    "full-node": Shape("pods, each for a full node", full_node),
    "own-size": Shape("pods, each with requests of its own", own_size),
    "own-neighbour": Shape("pods, each beside another pod that does not exist", own_neighbour),
    "spread": Shape("pods, each with 32 spread constraints of its own", many_terms, 3),
    "most-terms": Shape(
        "pods, each with 64 terms of its own, as its running pods", most_terms, 3, runs_with_most_terms
    ),
    "victims": Shape(
        "pods, each of which may evict running pods with 64 terms that refuse it",
        evicts,
        90,
        runs_and_refuses,
    ),
    "gangs": Shape("members of gangs of 32 that all differ", unlike_member, 5),
}


class Beside(Flood):
    """A server whose nodes are all but full of the busy namespace's pods, and which has its waiting pods."""

    def __init__(self, size: Size, shape: Shape, pods: int) -> None:
        super().__init__(size.nodes)
        rooms = 32 * size.nodes
        quotas = [quota(FLOOD, f"{rooms - size.nodes // 2}"), quota(QUIET, f"{size.nodes // 2}")]
        nodes = [f"node-{number}" for number in range(size.nodes)]
        runs = [shape.runs(name, number) for number, name in enumerate(nodes)]
        waiting = [shape.make(size, number) for number in range(pods)]
        self._ends = 0
        listed = [*runs, self._passing(), *waiting]
        self.server.lists |= {
            QUOTAS_PATH: pages(len(quotas), quotas.__getitem__),
            PODS_PATH: pages(len(listed), listed.__getitem__),
            GROUPS_PATH: pages(-(-pods // MEMBERS), group),
        }

    def _passing(self) -> dict[str, Any]:
        return plain_pod(FLOOD, f"passes-{self._ends}", "1", nodeName="node-0")

    def end(self) -> None:
        """Delete the running pod as the API server does, and create another one in its place."""
        leaves = self._passing()
        leaves["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
        self._tell("MODIFIED", [leaves], [])
        self._tell("DELETED", [leaves], [])
        self._ends += 1
        self._tell("ADDED", [self._passing()], [])


def waits(size: Size, shape: Shape, pods: int) -> list[float]:
    """Sorted waiting times of the quiet namespace's pods in milliseconds."""
    beside = Beside(size, shape, pods)
    with beside.server, synced_scheduler(beside.server) as process:
        await_rest(process, size.quiet)
        began = time.monotonic()
        ends, probes = _times(began, END_SECONDS), _times(began, PROBE_SECONDS)
        end, probe = next(ends), next(probes)
        while time.monotonic() < began + size.seconds:
            if time.monotonic() >= end:
                beside.end()
                end = next(ends)
            if time.monotonic() >= probe:
                beside.show([], 1)
                probe = next(probes)
            time.sleep(TICK_SECONDS)
        beside.await_bound(MOST_SECONDS)
    return beside.waited()


def _times(began: float, every: float) -> Iterator[float]:
    return (began + number * every for number in count())


def measured(size: Size, shape: Shape) -> list[Row]:
    """Median, 99th percentile and maximum of the waiting time beside one shape."""
    pods = max(size.pods // shape.share, MEMBERS) // MEMBERS * MEMBERS
    found = waits(size, shape, pods)
    name = f"beside {pods:,} {shape.title}: others wait"
    return [
        Row(f"{name}, p50", found[len(found) // 2], "ms"),
        Row(f"{name}, p99", found[min(len(found) - 1, len(found) * 99 // 100)], "ms", ceiling=CEILING_MS),
        Row(f"{name}, at most", found[-1], "ms"),
    ]


def main(small: bool = False) -> list[Row]:
    """The rows of all shapes."""
    size = SMALL if small else FULL
    return [row for shape in SHAPES.values() for row in measured(size, shape)]


def _command_line() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("shapes", nargs="+", choices=SHAPES, metavar="SHAPE", help=", ".join(SHAPES))
    for name in parser.parse_args().shapes:
        for row in measured(FULL, SHAPES[name]):
            print(f"{row.name}: {row.figure} {row.unit} {row.verdict}", flush=True)


if __name__ == "__main__":
    _command_line()
