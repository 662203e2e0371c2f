"""What a load consists of: a repeatable series of pods, Jobs and gangs. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from sandbox.nodes.pod_status import RUN_SECONDS
from sandbox.objects import Obj
from scheduler_core.model.kinds import JOBS, POD_GROUPS, PODS, Resource
from scheduler_core.model.names import GROUP_NAME_ANNOTATION

LABEL: Final = "sandbox.muster.dev/load"
"""Label of every object of a load; its value names the run."""
SHORTEST, LONGEST = 5.0, 120.0
"""Run times of pods, in seconds."""
Shape = Literal["pod", "job", "gang"]
# Of ten arrivals seven are pods, two are Jobs and one is a gang; Jobs and gangs have 2 to 8 pods.
_SHAPES: Final[tuple[Shape, ...]] = (*("pod",) * 7, *("job",) * 2, "gang")
_MEMBERS: Final = (2, 8)
# cpu and memory of a pod.
_REQUESTS: Final = (("250m", "256Mi"), ("500m", "512Mi"), ("1", "1Gi"), ("2", "4Gi"))


@dataclass(frozen=True)
class Arrival:
    """One pod, Job or gang: the number of its pods, and what determines them."""

    number: int
    shape: Shape
    namespace: str
    pods: int
    cpu: str
    memory: str
    seconds: float


def arrivals(seed: int, pods: int, namespaces: Sequence[str]) -> Iterator[Arrival]:
    """A series with exactly so many pods; equal seeds give equal series."""
    draw = random.Random(seed)
    number = 0
    while pods > 0:
        shape = draw.choice(_SHAPES)
        count = 1 if shape == "pod" else draw.randint(*_MEMBERS)
        cpu, memory = draw.choice(_REQUESTS)
        seconds = math.exp(draw.uniform(math.log(SHORTEST), math.log(LONGEST)))
        count = min(count, pods)
        yield Arrival(number, shape, draw.choice(namespaces), count, cpu, memory, round(seconds, 1))
        pods -= count
        number += 1


def objects_of(arrival: Arrival, run: str) -> list[tuple[Resource, Obj]]:
    """The objects to create for an arrival, in this order."""
    name = f"load-{run}-{arrival.number}"
    if arrival.shape == "pod":
        return [(PODS, _object(PODS, name, arrival, run, _pod_template(arrival, run)))]
    if arrival.shape == "job":
        return [(JOBS, _job(name, arrival, run))]
    group = _object(POD_GROUPS, name, arrival, run, {"spec": {"minMembers": arrival.pods}})
    member = _pod_template(arrival, run, {GROUP_NAME_ANNOTATION: name})
    names = (f"{name}-{member}" for member in range(arrival.pods))
    return [(POD_GROUPS, group), *((PODS, _object(PODS, each, arrival, run, member)) for each in names)]


def _object(resource: Resource, name: str, arrival: Arrival, run: str, body: Obj) -> Obj:
    meta = {**(body.get("metadata") or {}), "name": name, "namespace": arrival.namespace}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        **body,
        "metadata": {**meta, "labels": {LABEL: run}},
    }


def _pod_template(arrival: Arrival, run: str, annotations: dict[str, str] | None = None) -> Obj:
    requests = {"cpu": arrival.cpu, "memory": arrival.memory}
    return {
        "metadata": {
            "labels": {LABEL: run},
            "annotations": {RUN_SECONDS: str(arrival.seconds), **(annotations or {})},
        },
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "busybox", "resources": {"requests": requests}}],
        },
    }


def _job(name: str, arrival: Arrival, run: str) -> Obj:
    spec = {
        "parallelism": arrival.pods,
        "completions": arrival.pods,
        "ttlSecondsAfterFinished": 60,
        "template": _pod_template(arrival, run),
    }
    return _object(JOBS, name, arrival, run, {"spec": spec})
