"""A cluster that holds everything at once: what the approved outputs are about.

It is played like a scenario: objects come in steps, scheduler and controllers run after each. So statuses,
conditions and Events are those that the product writes. What a simulation does not have stands beside it in
`installation.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from scheduler_core.config import load_config
from scheduler_core.model.timestamps import format_time, parse_time
from scheduler_core.simulate import Simulation
from tests.support.builders import Builder, make_budget, make_group, make_node, make_pod, make_quota
from tests.support.load_builders import make_metric
from tests.support.storage_builders import make_claim, make_class

Raw = dict[str, Any]
NOW: Final = parse_time("2026-03-10T12:00:00Z")
BEGIN: Final = NOW - 7200.0
GPU: Final = "nvidia.com/gpu"
H100: Final = "flavor.muster.dev/h100"
CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {resourceName: muster-scheduler, resourceNamespace: muster-system}
profiles:
- schedulerName: muster-scheduler
  plugins:
    multiPoint:
      enabled:
      - {name: CapacityScheduling}
      - {name: Coscheduling}
      - {name: ClusterTopologyPlacementGroup}
      - {name: LoadAwareScheduling}
  pluginConfig:
  - name: CapacityScheduling
    args: {borrowing: {order: FairShare, preemption: FairShare}}
  - name: Coscheduling
    args: {compositePodGroups: true, disruptionBudgets: true}
  - name: ClusterTopologyPlacementGroup
    args: {resultsFormat: Json, solverTimeBudgetMilliseconds: 60000}
  - name: LoadAwareScheduling
    args: {usageThresholds: {cpu: 80}, nodeMetricExpirationSeconds: 100000}
- schedulerName: muster-batch
  plugins: {multiPoint: {enabled: [{name: CapacityScheduling}]}}
"""


@cache
def stages() -> tuple[list[Raw], ...]:
    """All objects of the cluster after each of its steps; for reading only."""
    simulation = company_begins()
    found = []
    for seconds, objects in _steps():
        simulation.advance(seconds)
        for obj in objects:
            simulation.create(obj.dict() if isinstance(obj, Builder) else obj)
        simulation.run()
        found.append(objects_of(simulation))
    return tuple(found)


@cache
def company_begins() -> Simulation:
    """The cluster that `stages` plays."""
    return Simulation(load_config(CONFIG), BEGIN)


def company() -> Simulation:
    """The cluster after all steps; for reading only."""
    stages()
    return company_begins()


def _steps() -> Iterator[tuple[float, Iterator[Builder | Raw]]]:
    """Seconds, and the objects that come then."""
    yield 0, first()
    yield 600, borrowing()
    yield 4800, reclaiming()
    yield 1740, waiting()
    yield 60, iter(())


def objects_of(simulation: Simulation) -> list[Raw]:
    """All objects of a cluster, in the order in which they came."""
    keys = simulation.objects.keys()
    return [obj for key in keys if (obj := simulation.objects.get(key)) is not None]


def company_events() -> list[Raw]:
    """What the scheduler and its controllers told, as Events of the last hour."""
    told = company().events
    return [_event(number, item) for number, item in enumerate(told)]


def _event(number: int, item: dict[str, str]) -> Raw:
    kind, _, key = item["object"].partition(" ")
    namespace, _, name = key.rpartition("/")
    owner = company().get(kind, namespace, name) or {"metadata": {}}
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {
            "namespace": namespace or "default",
            "name": f"event-{number}",
            "uid": f"event-{number}",
        },
        "type": item.get("type", "Normal"),
        "reason": item["reason"],
        "note": item["message"],
        "regarding": {
            "kind": kind,
            "namespace": namespace,
            "name": name,
            "uid": owner["metadata"].get("uid", ""),
        },
        "reportingController": "muster-scheduler",
        "eventTime": format_time(NOW - 1800 + number),
        "series": {"count": 1 + number % 3, "lastObservedTime": format_time(NOW - 900 + number)},
    }


def thing(api_version: str, kind: str, key: str, spec: Raw, **meta: Any) -> Raw:
    """An object of a kind without a builder; cluster-wide where the key has no namespace."""
    namespace, _, name = key.rpartition("/")
    place = {"namespace": namespace} if namespace else {}
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, **place, **meta},
        "spec": spec,
    }


# The first step: nodes, quotas and the work that starts


def first() -> Iterator[Builder | Raw]:
    """What is there from the beginning."""
    for name in ("research", "study", "serving", "batch", "lab"):
        yield thing("v1", "Namespace", name, {}, labels={"muster.dev/schedule": "true"})
    yield from nodes()
    yield from quotas()
    yield from storage()
    yield from running()


def nodes() -> Iterator[Builder | Raw]:
    """Four nodes with GPUs of two kinds in two racks, a tainted one, a cordoned one, and measured load."""
    for name, gpu, rack in (
        ("h100-0", "h100", "r0"),
        ("h100-1", "h100", "r0"),
        ("a100-0", "a100", "r1"),
        ("a100-1", "a100", "r1"),
    ):
        node = make_node(name).allocatable(cpu=64, memory="256Gi", pods=110, gpu=8)
        yield node.label("gpu", gpu).label("rack", rack).label("topology.kubernetes.io/zone", f"z-{rack}")
    yield make_node("cpu-0").allocatable(cpu=16, memory="64Gi", pods=110).taint("dedicated", "batch")
    yield make_node("cpu-1").allocatable(cpu=16, memory="64Gi", pods=110).unschedulable()
    yield make_metric("a100-1").updated(NOW - 30).usage(cpu="60", memory="100Gi").interval(60)
    for name in ("h100-0", "h100-1", "a100-0"):
        yield make_metric(name).updated(NOW - 30).usage(cpu="20", memory="64Gi").interval(60)
    tree = {rack: {node: {} for node in found} for rack, found in TREE.items()}
    data = {
        "name": "tree",
        "resource-names": json.dumps(["cpu", "memory", GPU]),
        "level-names": json.dumps(["rack", "node"]),
        "tree": json.dumps(tree),
    }
    yield _config_map("default", "topology", "sakkara.topology", data)


def _config_map(namespace: str, name: str, label: str, data: Mapping[str, str]) -> Raw:
    """A ConfigMap that tells sakkara something."""
    meta = {"namespace": namespace, "name": name, "labels": {label: ""}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": dict(data)}


TREE: Final = {"r0": ("h100-0", "h100-1"), "r1": ("a100-0", "a100-1")}


def quotas() -> Iterator[Builder | Raw]:
    """Departments with teams, flavors, a team without a department, and a second quota that does not bind."""
    for flavor, cost in (("h100", "2.5"), ("a100", "1")):
        spec = {"resource": GPU, "nodeSelector": {"gpu": flavor}, "cost": cost}
        yield thing("muster.dev/v1alpha1", "QuotaFlavor", flavor, spec)
    yield thing("muster.dev/v1alpha1", "QuotaGroup", "science", {"min": {GPU: "18"}, "max": {GPU: "26"}})
    yield thing("muster.dev/v1alpha1", "QuotaGroup", "products", {"min": {GPU: "10"}})
    yield (
        make_quota("research/quota")
        .min(gpu=12, cpu=32, **{H100: 12})
        .max(gpu=20, cpu=96, **{H100: 14})
        .label("muster.dev/quota-group", "science")
        .annotation("muster.dev/weight", "2")
        .annotation("muster.dev/price", f"{GPU}=2.5,cpu=0.03")
    )
    study = make_quota("study/quota").min(gpu=6, cpu=8).label("muster.dev/quota-group", "science")
    yield study.annotation("muster.dev/reclaim-min-runtime", "10m")
    serving = (
        make_quota("serving/treasure").min(gpu=10, memory="128Gi", **{H100: 4}).max(gpu=16, memory="512Gi")
    )
    yield serving.label("muster.dev/quota-group", "products")
    yield (
        make_quota("batch/quota")
        .min(gpu=2, cpu=8)
        .max(gpu=6, cpu=16)
        .annotation("muster.dev/min-runtime", "1m")
    )
    yield make_quota("batch/younger").min(cpu=4)
    yield make_quota("lab/quota").min(cpu=60)
    hard = {"hard": {"requests.cpu": "12", "pods": "4", "services": "3"}}
    yield thing("v1", "ResourceQuota", "batch/native", hard) | {
        "status": {"hard": hard["hard"], "used": {"requests.cpu": "9", "pods": "3", "services": "0"}}
    }
    yield {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1000,
    }


def storage() -> Iterator[Builder | Raw]:
    """A claim that waits for its first pod, and one that nothing can serve."""
    yield make_class("fast").provisioner("example.com/disk")
    yield make_claim("study/data").storage_class("fast")
    yield make_claim("study/lost").storage_class("none")


def member(key: str, group: str = "", owner: str = "", **requests: Any) -> Any:
    """A pod of a group, with its controller: `Job/train`."""
    pod = make_pod(key).requests(**requests)
    if group:
        pod.group(group)
    kind, _, name = owner.partition("/")
    if owner:
        version = "batch/v1" if kind == "Job" else "apps/v1"
        pod.meta["ownerReferences"] = [
            {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{name}", "controller": True}
        ]
    return pod


def running() -> Iterator[Builder | Raw]:
    """Work of each team: a gang in one rack, a deployment, native groups, a group as a ConfigMap."""
    constraints = '{"rack": {"type": "pack", "hard": true}, "node": {"type": "pack"}}'
    yield make_group("research/train").needs(6).annotation("muster.dev/topology-constraints", constraints)
    job = {"completions": 6, "parallelism": 6, "activeDeadlineSeconds": 14400}
    yield thing("batch/v1", "Job", "research/train", job, uid="uid-train") | {
        "status": {"startTime": format_time(BEGIN), "active": 6}
    }
    for number in range(6):
        pod = member(f"research/train-{number}", "train", "Job/train", gpu=2, cpu=5)
        yield pod.label("batch.kubernetes.io/job-completion-index", str(number)).selector(gpu="h100")
    yield thing("apps/v1", "Deployment", "serving/chat", {"replicas": 2}, uid="uid-chat")
    owner = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "name": "chat",
        "uid": "uid-chat",
        "controller": True,
    }
    yield thing(
        "apps/v1",
        "ReplicaSet",
        "serving/chat-5d8",
        {"replicas": 2},
        uid="uid-chat-5d8",
        ownerReferences=[owner],
    )
    for number in range(2):
        pod = member(f"serving/chat-{number}", owner="ReplicaSet/chat-5d8", gpu=1, memory="32Gi")
        yield pod.labels(app="chat").priority(100)
    yield make_budget("serving/chat").selects(app="chat").allows(1)
    yield from native_groups()
    yield (
        make_pod("batch/done")
        .requests(cpu=1)
        .on("a100-0", "Succeeded")
        .status(
            startTime=format_time(BEGIN - 1000),
            containerStatuses=[
                {"name": "main", "state": {"terminated": {"finishedAt": format_time(BEGIN - 100)}}}
            ],
        )
    )
    yield member("batch/crunch", cpu=3).tolerates("dedicated").on("cpu-0")


def native_groups() -> Iterator[Raw]:
    """Groups of scheduling.k8s.io: a gang, a basic one, and a tree whose second half lacks pods."""
    native = "scheduling.k8s.io/v1beta1"
    yield thing(
        native, "PodGroup", "lab/pair", {"schedulingPolicy": {"gang": {"minCount": 2}}, "priority": 5}
    )
    yield thing(native, "PodGroup", "lab/loose", {"schedulingPolicy": {"basic": {}}})
    root = {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}
    yield thing("scheduling.k8s.io/v1alpha3", "CompositePodGroup", "lab/tree", root)
    for leaf in ("left", "right"):
        spec = {"parentCompositePodGroupName": "tree", "schedulingPolicy": {"gang": {"minCount": 2}}}
        yield thing(native, "PodGroup", f"lab/{leaf}", spec)
    for name, group in (
        ("pair-0", "pair"),
        ("pair-1", "pair"),
        ("loose-0", "loose"),
        ("left-0", "left"),
        ("left-1", "left"),
        ("right-0", "right"),
    ):
        pod = make_pod(f"lab/{name}").requests(cpu=2).spec(schedulingGroup={"podGroupName": group})
        yield (pod.priority(5) if group == "pair" else pod).dict()


# Later steps


def borrowing() -> Iterator[Builder]:
    """A team fills what others leave."""
    for number in range(12):
        yield member(f"study/notebook-{number}", gpu=1, cpu=2).priority(number % 3)


def reclaiming() -> Iterator[Builder | Raw]:
    """Others grow: research borrows, then serving takes back what it is guaranteed."""
    for number in range(4):
        yield member(f"research/probe-{number}", gpu=2, cpu=4)
    yield make_group("serving/embed").needs(2)
    for number in range(2):
        yield member(f"serving/embed-{number}", "embed", gpu=2, memory="32Gi").priority(50)
    data = {"name": "ring", "size": "2", "priority": "0", "constraints": '{"node": {"min": 1, "max": 2}}'}
    yield _config_map("study", "ring", "sakkara.group", data)
    for number in range(2):
        yield member(f"study/ring-{number}", cpu=2).label("sakkara.group.name", "ring")


def waiting() -> Iterator[Builder | Raw]:
    """Work that waits, each for another reason."""
    yield make_group("research/sweep").needs(3).annotation("muster.dev/hold-quota", "1h")
    for number in range(3):
        yield member(f"research/sweep-{number}", "sweep", gpu=2, cpu=8).selector(gpu="h100")
    yield member("research/late", "train", "Job/train", gpu=2, cpu=5).selector(gpu="h100")
    yield make_group("study/short").needs(4)
    yield member("study/short-0", "short", gpu=1)
    yield member("study/gated", gpu=1).gate("example.com/review")
    yield member("study/lost", cpu=1).spec(
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "lost"}}]
    )
    yield member("study/orphan", "nobody", cpu=1)
    yield member("serving/huge", gpu=16).priority(1)
    yield member("serving/zone", gpu=1).selector(**{"topology.kubernetes.io/zone": "z-9"})
    for number in range(3):
        yield member(f"batch/burst-{number}", "", "Job/burst", gpu=2, cpu=4).never()
    yield thing("batch/v1", "Job", "batch/burst", {"parallelism": 3}, uid="uid-burst")
    yield member("batch/tight", cpu=14)
    yield member("batch/other", cpu=1).scheduler("default-scheduler")
    yield (
        make_group("research/racks")
        .needs(2)
        .annotation("muster.dev/topology-constraints", '{"node": {"type": "pack", "hard": true}}')
    )
    for number in range(2):
        yield member(f"research/racks-{number}", "racks", gpu=6)
