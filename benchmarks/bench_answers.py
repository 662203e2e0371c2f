"""Answers about a live cluster: CPU time from its lists to the first answer, wall time of whole commands.

The server on loopback sends prepared lists, so the figures are those of the plugin. Each figure is the
minimum of several runs, which is the time on an idle CPU.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from benchmarks.bench_cli import PROGRAM, quickest_seconds, served, write_kubeconfig
from benchmarks.support import canned_server
from benchmarks.support.row import Row
from kubectl_plugin.live.configuration import EffectiveConfig
from kubectl_plugin.live.lists import KindList
from kubectl_plugin.live.live_world import world_of_lists
from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.run_result import RunResult, run
from scheduler_core.config.load import muster_config
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NAMESPACES, NODES, PODS
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.simulate.world import Simulation

# The command whose whole time is measured, about work that waits.
COMMAND: Final = ("why", "--no-fixes")
CONFIG: Final = Path(__file__).parent.parent / "examples" / "scheduler-config.yaml"
TEAMS: Final = 20
NOW: Final = 1_767_312_000.0
RUNS: Final = 7
# Pods that wait: some owners with some pods each.
OWNERS, OF_OWNER = 10, 10
# A pod of `canned_server` is of one of so many templates.
TEMPLATES: Final = 200


@dataclass(frozen=True)
class Size:
    """How large the clusters of the figures are."""

    nodes: int
    pods: int
    runs: int = RUNS


LARGE: Final = Size(1000, 10_000)
MIDDLE: Final = Size(100, 1000)
SMALL: Final = Size(5, 50, 1)


def waiting_pod(number: int) -> dict[str, Any]:
    """A pod that waits for Muster, as admission leaves it."""
    made = canned_server.pod(number, 1)
    del made["spec"]["nodeName"]
    made["spec"]["schedulerName"] = MUSTER_SCHEDULER
    made["status"] = {"phase": "Pending"}
    return made


def running_pod(number: int, nodes: int) -> dict[str, Any]:
    """A pod that runs; its kubelet reports what its containers hold, as since Kubernetes 1.33."""
    made = canned_server.pod(number, nodes)
    asked = made["spec"]["containers"][0]["resources"]
    made["status"]["containerStatuses"][0] |= {"resources": asked, "allocatedResources": asked["requests"]}
    return made


def objects(size: Size) -> dict[str, list[dict[str, Any]]]:
    """The cluster by plural: nodes, pods that run and that wait, and a quota per namespace."""
    spaces = [f"team-{number}" for number in range(TEAMS)]
    # Numbers beyond those of the running pods; one owner has one template.
    waiting = [
        size.pods + TEMPLATES * (1 + pod) + owner for owner in range(OWNERS) for pod in range(OF_OWNER)
    ]
    return {
        NODES.plural: [canned_server.node(number) for number in range(size.nodes)],
        NAMESPACES.plural: [{"metadata": canned_server.metadata(name, {})} for name in spaces],
        ELASTIC_QUOTAS.plural: [
            {
                "metadata": canned_server.metadata("quota", {}) | {"namespace": name, "uid": name},
                "spec": {"min": {"cpu": f"{size.pods}"}, "max": {"cpu": f"{2 * size.pods}"}},
            }
            for name in spaces
        ],
        PODS.plural: [
            *(running_pod(number, size.nodes) for number in range(size.pods)),
            *map(waiting_pod, waiting),
        ],
    }


def raw_lists(size: Size) -> list[KindList]:
    """The lists as the server sends them."""
    kinds = {kind.plural: kind for kind in (NODES, NAMESPACES, ELASTIC_QUOTAS, PODS)}
    return [
        KindList(kinds[plural], tuple(msgspec.Raw(msgspec.json.encode(item)) for item in items))
        for plural, items in objects(size).items()
    ]


def seconds_to_answer(lists: list[KindList]) -> tuple[float, RunResult]:
    """CPU time, that of the child process that answers included, and the answer."""
    gc.collect()
    config = muster_config()
    began = _cpu()
    live = world_of_lists(Simulation(config, NOW), lists, EffectiveConfig(config))
    answer = live.world.ask(NOTHING, run, RunResult)
    took = _cpu() - began
    gc.unfreeze()
    return took, answer


def _cpu() -> float:
    return time.process_time() + _of_children()


def times_of_command(size: Size, named: bool) -> tuple[float, float]:
    """Wall and CPU time of a whole command: about a pod that waits, or about one in a manifest."""
    about = waiting_pod(size.pods + TEMPLATES)["metadata"]
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "new", "namespace": about["namespace"]},
        "spec": waiting_pod(0)["spec"],
    }
    with served(objects(size)) as url, tempfile.TemporaryDirectory() as folder:
        kubeconfig, file = Path(folder, "config"), Path(folder, "pod.json")
        write_kubeconfig(kubeconfig, url)
        file.write_text(json.dumps(manifest))
        what = [f"pod/{about['name']}"] if named else ["-f", str(file)]
        command = [str(PROGRAM), *COMMAND, *what, "-n", about["namespace"], "--config", str(CONFIG)]
        environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
        found = [_times(command, environment) for _ in range(size.runs)]
    return min(wall for wall, _ in found), min(cpu for _, cpu in found)


def _times(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    before = _of_children()
    wall = quickest_seconds(command, environment, 1)
    return wall, _of_children() - before


def _of_children() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def main(small: bool = False) -> list[Row]:
    """CPU and wall times in milliseconds."""
    large, middle = (SMALL, SMALL) if small else (LARGE, MIDDLE)
    lists = raw_lists(large)
    found = [seconds_to_answer(lists) for _ in range(large.runs)]
    answered = len(found[0][1].started) + len(found[0][1].waiting)
    if answered != OWNERS * OF_OWNER:
        raise RuntimeError(f"the answer is about {answered} pods, not {OWNERS * OF_OWNER}")
    scale, less = (f"{size.nodes:,} nodes, {size.pods:,} pods" for size in (large, middle))
    whole, cold = f"why pod/NAME, {scale}", f"why -f FILE, {less}"
    (whole_wall, whole_cpu), (cold_wall, cold_cpu) = (
        times_of_command(large, named=True),
        times_of_command(middle, named=False),
    )
    return [
        Row(f"lists to first answer, {scale}", min(took for took, _ in found) * 1000, "ms CPU", ceiling=600),
        Row(whole, whole_wall * 1000, "ms", ceiling=3000),
        Row(whole, whole_cpu * 1000, "ms CPU"),
        Row(cold, cold_wall * 1000, "ms", ceiling=1200),
        Row(cold, cold_cpu * 1000, "ms CPU"),
    ]
