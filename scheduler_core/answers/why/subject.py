"""What a question is about: a pod, a group or the pods of an owner, and when that counts as started."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from scheduler_core.errors import ConfigError
from scheduler_core.model.groups.gang import (
    DIALECT_NAMES,
    DIALECT_ORDER,
    RESOURCES,
    Gang,
    GroupRef,
    group_key,
    group_of,
)
from scheduler_core.model.kinds import POD_GROUPS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.gangs.gangs import missing, take_census

POD: Final = "Pod"
POD_GROUP: Final = "PodGroup"
_TEMPLATE_HASH: Final = "pod-template-hash"


class Goal(msgspec.Struct, frozen=True):
    """The work counts as started if the group has its minimum (`group`, a key), and these pods have nodes.

    `pods` are `namespace/name`.
    """

    group: str = ""
    pods: tuple[str, ...] = ()


class Subject(msgspec.Struct, frozen=True):
    """The work that a question is about.

    `text` names it for people. `waiting` are its pods without a node, `placed` those with one, as
    `namespace/name`. `group` is the key of its group, empty without one. `need` is how many of the waiting
    pods must start together.
    """

    kind: str
    namespace: str
    name: str
    text: str
    waiting: tuple[str, ...]
    placed: tuple[str, ...]
    goal: Goal
    group: str = ""
    need: int = 1


def raw_pods(simulation: Simulation, subjects: Iterable[Subject]) -> list[bytes]:
    """The pods of some subjects as JSON."""
    keys = [name.partition("/") for subject in subjects for name in (*subject.waiting, *subject.placed)]
    found = (simulation.objects.get((POD, namespace, name)) for namespace, _, name in dict.fromkeys(keys))
    return [msgspec.json.encode(pod) for pod in found if pod is not None]


def subject_of(simulation: Simulation, kind: str, namespace: str, name: str) -> Subject:
    """The subject with a kind (`Pod`, `PodGroup`, or that of an owner of pods, in any case).

    A member of a group that lacks its minimum stands for its group, as does an owner whose pods are all of
    one group. The name of a PodGroup may begin with its dialect (`native/train`), as several dialects may
    have the same names. Raises ConfigError if there is no such object.
    """
    if kind == POD_GROUP:
        return subject_of_group(simulation, _group_named(simulation, namespace, name))
    if kind == POD:
        found = simulation.known.get((POD, namespace, name))
        if found is None:
            raise ConfigError(f"pod/{name}", f"there is no pod {namespace}/{name}")
        pods = [found]
    else:
        pods = pods_of_owner(simulation.state.pods.values(), kind, namespace, name)
        if not pods:
            help_text = "its controller made none, or it does not exist; see its events"
            raise ConfigError(f"{kind.lower()}/{name}", f"{kind} {namespace}/{name} has no pods: {help_text}")
        kind = _shown_kind(kind, pods)
    text = f"{kind} {namespace}/{name}"
    gang = _only_group(simulation, pods)
    if gang is not None and missing(gang, take_census(simulation.state, gang.key)):
        return subject_of_group(simulation, gang)
    waiting = tuple(sorted(pod.key for pod in pods if _waits(pod)))
    placed = tuple(sorted(pod.key for pod in pods if pod.assigned and not pod.finished))
    key = gang.key if gang is not None else group_key(pods[0]) or ""
    return Subject(kind, namespace, name, text, waiting, placed, Goal("", waiting), key, len(waiting))


def work_in(simulation: Simulation, objects: Iterable[Mapping[str, Any]]) -> list[Subject]:
    """The subjects of new objects: their groups, their pods, and owners of pods; each pod only once."""
    found: dict[str, Subject] = {}
    for obj in objects:
        kind, meta = str(obj["kind"]), obj["metadata"]
        namespace, name = str(meta.get("namespace") or ""), str(meta["name"])
        if kind == POD_GROUP:
            name = f"{_dialect_of(obj)}/{name}"
        try:
            subject = subject_of(simulation, kind, namespace, name)
        except ConfigError:
            continue  # quotas, nodes and other objects that are no work
        found.setdefault(subject.text, subject)
    groups = {item.group for item in found.values() if item.goal.group}
    return [item for item in found.values() if item.goal.group or item.group not in groups]


def _dialect_of(obj: Mapping[str, Any]) -> str:
    """The dialect of a PodGroup that a manifest has; without apiVersion it is the incubator's."""
    api_group = str(obj.get("apiVersion") or POD_GROUPS.group).partition("/")[0]
    found = (DIALECT_NAMES[dialect] for dialect, resource in RESOURCES.items() if resource.group == api_group)
    return next(found, "")


def pods_of_owner(pods: Iterable[Pod], kind: str, namespace: str, name: str) -> list[Pod]:
    """The pods whose controller is this object, or a ReplicaSet of this Deployment."""
    found = []
    for pod in pods:
        owner = pod.controller
        if owner is None or pod.namespace != namespace:
            continue
        if owner.kind.lower() == kind.lower() and owner.name == name:
            found.append(pod)
        elif kind.lower() == "deployment" and owner.kind == "ReplicaSet":
            made = f"{name}-{pod.labels.get(_TEMPLATE_HASH, '')}"
            if owner.name == made:
                found.append(pod)
    return found


def _shown_kind(kind: str, pods: Iterable[Pod]) -> str:
    """The kind as the owner itself writes it."""
    kinds = (pod.controller.kind for pod in pods if pod.controller is not None)
    return next((found for found in kinds if found.lower() == kind.lower()), kind.capitalize())


def reached(simulation: Simulation, goal: Goal) -> bool:
    """Whether the work has started in a simulation that has run."""
    if goal.group:
        gang = simulation.state.gangs.gangs.get(goal.group)
        if gang is None or missing(gang, take_census(simulation.state, gang.key)):
            return False
    return all(_has_node(simulation, key) for key in goal.pods)


def members_of(simulation: Simulation, subject: Subject) -> list[Pod]:
    """The waiting pods of a subject that are still there, in order of their names."""
    found = (_known(simulation, key) for key in subject.waiting)
    return [pod for pod in found if pod is not None and _waits(pod)]


def _known(simulation: Simulation, key: str) -> Pod | None:
    namespace, _, name = key.partition("/")
    pod = simulation.known.get((POD, namespace, name))
    return pod if isinstance(pod, Pod) else None


def _has_node(simulation: Simulation, key: str) -> bool:
    pod = _known(simulation, key)
    return pod is not None and pod.assigned


def _waits(pod: Pod) -> bool:
    return not (pod.assigned or pod.finished or pod.terminating)


def subject_of_group(simulation: Simulation, gang: Gang) -> Subject:
    """The waiting pods of a group, of which those that it lacks must start together."""
    members = simulation.state.gangs.members(gang.key).values()
    waiting = tuple(sorted(pod.key for pod in members if _waits(pod)))
    placed = tuple(sorted(pod.key for pod in members if pod.assigned and not pod.finished))
    need = missing(gang, take_census(simulation.state, gang.key))
    goal = Goal(gang.key) if need else Goal("", waiting)
    ref = gang.ref
    return Subject(
        POD_GROUP, ref.namespace, ref.name, str(ref), waiting, placed, goal, gang.key, need or len(waiting)
    )


def groups_named(simulation: Simulation, namespace: str, name: str) -> list[Gang]:
    """The groups of a name, which may begin with a dialect; that of `subject_of` comes first."""
    wanted, _, plain = name.rpartition("/")
    dialects = [dialect for dialect in DIALECT_ORDER if wanted in ("", DIALECT_NAMES[dialect])]
    keys = (GroupRef(dialect, namespace, plain).key for dialect in dialects)
    found = (simulation.state.gangs.gangs.get(key) for key in keys)
    return [gang for gang in found if gang is not None]


def _group_named(simulation: Simulation, namespace: str, name: str) -> Gang:
    for gang in groups_named(simulation, namespace, name):
        return gang
    raise ConfigError(f"podgroup/{name}", f"there is no PodGroup {namespace}/{name}")


def _only_group(simulation: Simulation, pods: Iterable[Pod]) -> Gang | None:
    keys = {ref.key if (ref := group_of(pod)) is not None else "" for pod in pods}
    return simulation.state.gangs.gangs.get(keys.pop()) if len(keys) == 1 else None
