"""Worlds of native groups: all members are there before their group, and the question is who starts.

The members of a group are alike and less important than all else, so what starts depends neither on their
order nor on victims: on either side only the number is compared.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from scheduler_core.kube.errors import Invalid
from scheduler_core.model.kinds import NATIVE_POD_GROUPS, PODS
from scheduler_core.model.writes import Create
from scheduler_core.simulate import Simulation
from tests.beside.rig import ours
from tests.beside.rig.outcome import UNDECIDED, Finding, Undecided
from tests.beside.rig.real import Real, State, in_time, refusal
from tests.beside.rig.scenario import document, plain_objects
from tests.beside.rig.shapes import ZONE, Shapes
from tests.beside.rig.world import Raw, named

_NAMESPACE: Final = "t"
_GROUP: Final = "g"
_LOWEST: Final = "p-lowest"
# What depends on the nodes of other members: the number that fits would depend on where the first ones go.
_AMONG_MEMBERS: Final = ("topologySpreadConstraints", "resources", "initContainers")


@dataclass(frozen=True, slots=True)
class GroupWorld:
    """`objects` are there, then `members` come, then `group`: a PodGroup without its version.

    `last`: a pod that no node takes, which is looked at after them.
    """

    name: str
    objects: tuple[Raw, ...]
    members: tuple[Raw, ...]
    group: Raw
    last: Raw


@dataclass(frozen=True, slots=True)
class GroupStep:
    """A world that was played: its objects before the decision, and what differs.

    `theirs`: how many members start; None where kube-scheduler decides nothing.
    """

    world: str
    state: State
    theirs: int | None
    findings: tuple[Finding, ...]


def group_world(seed: int) -> GroupWorld:
    """The world of a seed: nodes with pods, and a gang or a basic group of up to six members."""
    dice = random.Random(f"groups beside {seed}")
    shapes = Shapes(dice, dice.choice((0.0, 0.3, 0.6)))
    nodes = [shapes.node(f"n{i}") for i in range(dice.choice((1, 2, 3, 3, 4)))]
    running = [
        shapes.pod(f"r{i}", node=dice.choice(nodes)["metadata"]["name"])
        for i in range(dice.randint(0, 3 * len(nodes)))
    ]
    template = _template(shapes)
    members = tuple(_member(template, f"m{i}") for i in range(dice.randint(1, 6)))
    minimum = dice.randint(1, len(members) + 1)
    spec: Raw = {"priorityClassName": _LOWEST, "schedulingPolicy": {"gang": {"minCount": minimum}}}
    if dice.random() < 0.25:
        spec["schedulingPolicy"] = {"basic": {}}
    if dice.random() < 0.3:
        spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
    group = {"kind": "PodGroup", "metadata": {"name": _GROUP, "namespace": _NAMESPACE}, "spec": spec}
    return GroupWorld(f"groups {seed}", (*nodes, *running), members, group, _last())


def _template(shapes: Shapes) -> Raw:
    pod = shapes.pod("template")
    spec = pod["spec"]
    for name in _AMONG_MEMBERS:
        spec.pop(name, None)
    affinity = spec.pop("affinity", {})
    if "nodeAffinity" in affinity:
        spec["affinity"] = {"nodeAffinity": affinity["nodeAffinity"]}
    spec |= {"priorityClassName": _LOWEST, "schedulingGroup": {"podGroupName": _GROUP}}
    return pod


def _member(template: Raw, name: str) -> Raw:
    meta = {"name": name, "namespace": _NAMESPACE, "labels": template["metadata"].get("labels", {})}
    return {**template, "metadata": meta}


def _last() -> Raw:
    container = {"name": "c", "image": "registry.example/small:1"}
    spec: Raw = {"containers": [container], "priorityClassName": _LOWEST, "nodeSelector": {"no": "node"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "z", "namespace": "u"}, "spec": spec}


def lowest() -> Raw:
    """The class of members: nobody is less important, so they evict nobody."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": _LOWEST},
        "value": -100,
    }


def play_group(real: Real, world: GroupWorld) -> GroupStep | str:
    """Play a world on a cleared server; the words of a server that refuses an object of it."""
    served = real.client.served(NATIVE_POD_GROUPS)
    group = {"apiVersion": served.api_version, **world.group}
    real.clear()
    try:
        for obj in (*world.objects, *world.members):
            real.put(obj)
        with real.scheduling(groups=True):
            state = real.state()
            state[served] = [real.client.create(Create(NATIVE_POD_GROUPS, _NAMESPACE, group))]
            theirs = _started(real, world)
    except Undecided as error:
        finding = Finding(UNDECIDED, str(error), f"{_ours(state, real)} members start")
        return GroupStep(world.name, state, None, (finding,))
    except Invalid as error:
        return f"{world.name}: {error}"
    finally:
        real.clear()
    here = _ours(state, real)
    found = () if theirs == here else (Finding("members that start", str(theirs), str(here)),)
    return GroupStep(world.name, state, theirs, found)


def _started(real: Real, world: GroupWorld) -> int:
    """How many members run, once all of them and the pod behind them are decided. Raises Undecided."""
    real.offer(world.last)
    in_time(lambda: _decided(real.pod(named(world.last))))
    if len(world.members) >= _minimum(world.group):
        in_time(lambda: all(map(_decided, _pods(real, world))))
    return sum(bool(pod["spec"].get("nodeName")) for pod in _pods(real, world))


def _minimum(group: Raw) -> int:
    count: int = group["spec"]["schedulingPolicy"].get("gang", {}).get("minCount", 1)
    return count


def _pods(real: Real, world: GroupWorld) -> Iterator[dict[str, Any]]:
    return (real.pod(named(member)) for member in world.members)


def _decided(pod: dict[str, Any]) -> bool:
    """Whether it is; a LookupError says of whom nothing is decided."""
    if not pod["spec"].get("nodeName") and refusal(pod) is None:
        raise LookupError(f"nothing is decided about {named(pod)}")
    return True


def _ours(state: State, real: Real) -> int:
    simulation = Simulation(ours.KUBE_SCHEDULER, time.time(), real.rule)
    for kind in sorted(state, key=lambda kind: kind == PODS):
        for error in simulation.load_list(kind, state[kind]):
            raise error
    simulation.run()
    return sum(bool(pod.native_group) and pod.assigned for pod in simulation.state.pods.values())


def group_scenario(step: GroupStep, minor: str) -> str:
    """The step as a scenario that expects as many members as kube-scheduler started."""
    found = plain_objects(step.state)
    coming = [obj for obj in found if obj["kind"] == "PodGroup" or _is_member(obj)]
    members = [named(obj) for obj in coming if obj["kind"] == "Pod"]
    title, expect = f"nothing is decided about {len(members)} members", {}
    if step.theirs is not None:
        title = f"{step.theirs} of {len(members)} members start"
        expect = {"boundAny": {"from": members, "count": step.theirs}, "evicted": []}
    return document(title, [obj for obj in found if obj not in coming], coming, expect, minor)


def _is_member(obj: Raw) -> bool:
    return obj["kind"] == "Pod" and "schedulingGroup" in obj["spec"]
