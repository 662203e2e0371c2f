"""The same world, told in ways that must not matter, is decided alike.

A flat world, and the same teams below a QuotaGroup without limits, or a chain of such groups. A gang within
its min in one dialect, and in another.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.every import every_seed
from tests.support.fragmented_worlds import Asked, Fragmented, fragmented, played
from tests.support.searches import cases

WORLDS = cases(800, "MUSTER_WORLDS_TOLD_OTHERWISE", least=40)
Raw = dict[str, Any]


def group(name: str, parent: str, low: dict[str, int]) -> Raw:
    spec = {"parent": parent, "min": {name: str(value) for name, value in low.items()}}
    return {
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "QuotaGroup",
        "metadata": {"name": name},
        "spec": spec,
    }


def gang(asked: Asked, dialect: str) -> list[Raw]:
    """The objects of some work: its pods, and a group where there are several."""
    pods = [{**pod, "metadata": dict(pod["metadata"]), "spec": dict(pod["spec"])} for pod in asked.pods]
    if len(pods) == 1:
        return pods
    meta = {"name": asked.name, "namespace": asked.team}
    for pod in pods:
        if dialect == "native":
            pod["spec"]["schedulingGroup"] = {"podGroupName": asked.name}
        else:
            pod["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": asked.name}
    if dialect == "native":
        spec: Raw = {
            "schedulingPolicy": {"gang": {"minCount": len(pods)}},
            "priority": pods[0]["spec"]["priority"],
        }
        return [
            {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec},
            *pods,
        ]
    spec = {"minMember": len(pods)}
    return [
        {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": meta, "spec": spec},
        *pods,
    ]


def flat(world: Fragmented) -> list[Raw]:
    """Nodes, quotas and pods that run; the reserve belongs to a quota of nobody."""
    nobody = world._replace(minimum={"nobody": world.reserve}).quotas()
    return [*world.nodes, *world.quotas(), *nobody, *world.running]


def below(world: Fragmented, depth: int) -> list[Raw]:
    """The same with a chain of groups above the teams, to which the reserve belongs."""
    names = [f"g{number}" for number in range(depth)]
    groups = [group(name, parent, world.total()) for name, parent in zip(names, ["", *names], strict=False)]
    return [*world.nodes, *groups, *world.quotas(names[-1]), *world.running]


@pytest.mark.parametrize("depth", [1, 3], ids=["one group", "a chain of three groups"])
@every_seed(range(WORLDS), each=200)
def test_a_group_without_limits_changes_nothing(seed: int, depth: int) -> None:
    world = fragmented(seed)
    work = [gang(asked, "x") for asked in world.work]
    assert played(below(world, depth), work) == played(flat(world), work)


@every_seed(range(WORLDS), each=200)
def test_a_native_gang_starts_where_one_of_another_dialect_does(seed: int) -> None:
    """A native one may start where the other does not: within its min it evicts pods of its quota, too."""
    world = fragmented(seed)
    asked = next((asked for asked in world.work if len(asked.pods) > 1), None)
    if asked is None:
        return
    started = {}
    for dialect in ("x", "native"):
        for bound, _ in played(flat(world), [gang(asked, dialect)]):
            started[dialect] = [pod for pod in bound if pod.startswith(f"{asked.team}/{asked.name}-")]
    assert len(started.get("native", ())) >= len(started.get("x", ())), started
