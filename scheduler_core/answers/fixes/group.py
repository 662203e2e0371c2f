"""Fixes of the work itself: fewer members, less per member, another priority, no topology constraint."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any, Final

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.fixes.fix import Amount, Fix, TriedFix, proven, step_of
from scheduler_core.answers.fixes.trial import Prover, least
from scheduler_core.answers.why.ladder import Examination
from scheduler_core.errors import ModelError
from scheduler_core.model import names
from scheduler_core.model.groups.gang import RESOURCES, Gang
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.quantity import format_resource, parse_resource
from scheduler_core.simulate.kinds import full_name
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.gangs.gangs import take_census
from scheduler_core.state.topology import is_constrained

Object = dict[str, Any]
# The field of the minimum in each dialect, as a path.
_MINIMUM: Final = {
    "PodGroup": ("spec", "minMembers"),
    "x-PodGroup": ("spec", "minMember"),
    "native-PodGroup": ("spec", "schedulingPolicy", "gang", "minCount"),
}


def group_object(simulation: Simulation, gang: Gang) -> Object | None:
    """A copy of the object of a group; None for a group ConfigMap."""
    resource = RESOURCES.get(gang.ref.dialect)
    if resource is None:
        return None
    version = f"{resource.group}/{gang.version}" if gang.version else resource.api_version
    kind = full_name(resource.kind, version)
    found = simulation.get(kind, gang.ref.namespace, gang.ref.name)
    return copy.deepcopy(found) if found is not None else None


def with_minimum(simulation: Simulation, gang: Gang, minimum: int) -> Changes | None:
    """The group with another minimum."""
    obj, path = group_object(simulation, gang), _MINIMUM.get(gang.ref.dialect)
    if obj is None or path is None:
        return None
    place = obj
    for name in path[:-1]:
        place = place.setdefault(name, {})
    place[path[-1]] = minimum
    return Changes(update=(obj,))


def fewer_members(prover: Prover, gang: Gang, examined: Examination) -> TriedFix | None:
    """The group with the largest minimum that starts."""
    census = take_census(prover.base.state, gang.key)
    floor = max(census.allocated + 1, 1)
    most = gang.min_members - floor
    if most < 1 or gang.basic or with_minimum(prover.base, gang, 1) is None:
        return None
    fits = examined.room.fits if examined.room is not None else 0
    need = gang.min_members - census.allocated

    def starts(fewer: int) -> bool:
        changes = with_minimum(prover.base, gang, gang.min_members - fewer)
        return changes is not None and prover.starts(changes)

    fewer = least(0, most, need - fits, starts)
    changes = with_minimum(prover.base, gang, gang.min_members - fewer) if fewer is not None else None
    if fewer is None or changes is None:
        return None
    field = ".".join(_MINIMUM[gang.ref.dialect])
    then = gang.min_members - fewer
    fix = Fix(
        "members",
        f"lower {field} from {gang.min_members} to {then} of {gang.ref}",
        (str(gang.ref),),
        (Amount(field, gang.min_members, then),),
    )
    return proven(prover, fix, changes)


def with_requests(
    objects: Sequence[Object], resource: str, cut: int, rule: ResizeRule = ResizeRule.LARGEST_SUM
) -> Changes | None:
    """The pods with `cut` less of a resource each, taken from the container that requests most.

    `rule` is that of the cluster. None where that does not lower what the pod requests, as for a pod whose
    init containers ask for more.
    """
    changed = []
    for obj in objects:
        twin = copy.deepcopy(obj)
        try:
            before = parse_pod(twin, rule).requests.get(resource, 0)
            if not _cut(twin, resource, cut):
                return None
            if parse_pod(twin, rule).requests.get(resource, 0) != before - cut:
                return None
        except ModelError:
            return None
        changed.append(twin)
    return Changes(update=tuple(changed))


def _cut(pod: Object, resource: str, cut: int) -> bool:
    def asks(container: Object) -> int:
        resources = container.get("resources") or {}
        given = (resources.get("requests") or {}).get(
            resource, (resources.get("limits") or {}).get(resource, 0)
        )
        return parse_resource(resource, given)

    containers = pod["spec"].get("containers") or []
    largest = max(containers, key=asks, default=None)
    if largest is None or asks(largest) < cut:
        return False
    amount = format_resource(resource, asks(largest) - cut)
    resources = largest["resources"]
    resources["requests"] = {**(resources.get("requests") or {}), resource: amount}
    if resource in (resources.get("limits") or {}) and not _may_exceed(resource):
        resources["limits"] = {**resources["limits"], resource: amount}
    return True


def _may_exceed(resource: str) -> bool:
    """Whether a limit may be above the request: only for resources of Kubernetes itself."""
    return "/" not in resource and not resource.startswith(names.HUGEPAGES_PREFIX)


def less_per_member(
    prover: Prover, pods: Sequence[Pod], need: int, examined: Examination
) -> Iterator[TriedFix]:
    """For each resource that is short: the least that each waiting pod must ask for less."""
    base = prover.base
    objects = [obj for pod in pods if (obj := base.get("Pod", pod.namespace, pod.name)) is not None]
    for resource, guess in _short(examined, pods, need).items():
        each = {pod.requests.get(resource, 0) for pod in pods}
        if len(each) != 1 or not objects:
            continue
        own, step = each.pop(), step_of(resource)
        most = own // step if own % step else own // step - 1
        least_own = -(-guess // step)

        def starts(steps: int, *, resource: str = resource, step: int = step) -> bool:
            changes = with_requests(objects, resource, steps * step, base.rule)
            return changes is not None and prover.starts(changes)

        steps = least(0, most, min(max(least_own, 1), most), starts)
        changes = with_requests(objects, resource, steps * step, base.rule) if steps is not None else None
        if steps is None or changes is None:
            continue
        then = own - steps * step
        now_text, then_text = format_resource(resource, own), format_resource(resource, then)
        which = "each of the waiting pods" if len(pods) > 1 else "the pod"
        fix = Fix(
            "per-member",
            f"request {then_text} instead of {now_text} {resource} in {which}",
            tuple(f"Pod {pod.key}" for pod in pods),
            (Amount(f"requests[{resource}]", own, then, step),),
        )
        found = proven(prover, fix, changes)
        if found is not None:
            yield found


def _short(examined: Examination, pods: Sequence[Pod], need: int) -> dict[str, int]:
    """Resources that are short, and by how much less each pod would do, by quota or on the best node."""
    found: dict[str, int] = {}
    for line in examined.quota:
        short = max(line.above_max, line.above_sum)
        if short > 0 and line.resource != names.PODS:
            found[line.resource] = -(-short // max(need, 1))
    room = examined.room
    if room is not None and room.fits < need and room.scarce != names.PODS:
        own = pods[0].requests.get(room.scarce, 0)
        found[room.scarce] = max(found.get(room.scarce, 0), own - room.free if room.free < own else own // 2)
    return {name: cut for name, cut in found.items() if cut > 0 and pods[0].requests.get(name, 0) > 1}


def with_priority(
    simulation: Simulation, objects: Sequence[Object], group: Gang | None, value: int
) -> Changes:
    """The pods, and the group if it has a priority of its own, with another priority."""
    changed = []
    for obj in objects:
        twin = copy.deepcopy(obj)
        twin["spec"]["priority"] = value
        twin["spec"].pop("priorityClassName", None)
        changed.append(twin)
    if group is not None and group.priority is not None:
        own = group_object(simulation, group)
        if own is not None:
            own["spec"]["priority"] = value
            own["spec"].pop("priorityClassName", None)
            changed.append(own)
    return Changes(update=tuple(changed))


def higher_priority(prover: Prover, pods: Sequence[Pod], group: Gang | None) -> TriedFix | None:
    """The lowest priority with which the work starts."""
    base = prover.base
    objects = [obj for pod in pods if (obj := base.get("Pod", pod.namespace, pod.name)) is not None]
    lowest, own = min(pod.priority for pod in pods), max(pod.priority for pod in pods)
    others = {pod.priority for pod in base.state.pods.values() if not pod.finished}
    # Decisions differ only where the order towards another pod does; equal members may be enough.
    steps = {value for other in others for value in (other, other + 1) if own < value <= _HIGHEST}
    values = sorted(steps | ({own} if lowest < own else set()))
    if not values or not objects:
        return None

    def starts(number: int) -> bool:
        return prover.starts(with_priority(base, objects, group, values[number]))

    found = least(-1, len(values) - 1, len(values) - 1, starts)
    if found is None:
        return None
    value = values[found]
    classes = sorted(
        obj["metadata"]["name"]
        for obj in base.objects.all("PriorityClass")
        if int(obj.get("value", 0)) == value
    )
    hint = f" (PriorityClass {classes[0]})" if classes else ""
    what = f"the {len(pods)} waiting pods" if len(pods) > 1 else "the pod"
    fix = Fix(
        "priority",
        f"raise the priority of {what} from {lowest} to {value}{hint}",
        tuple(f"Pod {pod.key}" for pod in pods),
        (Amount("spec.priority", lowest, value),),
    )
    return proven(prover, fix, with_priority(base, objects, group, value))


# The highest priority that users may give (Kubernetes: 1 billion); above it are the system's own classes.
_HIGHEST: Final = 1_000_000_000


def without_constraints(prover: Prover, gang: Gang) -> TriedFix | None:
    """The group without its topology constraints."""
    obj = group_object(prover.base, gang)
    if obj is None or not is_constrained(gang):
        return None
    annotations = obj["metadata"].get("annotations") or {}
    annotations.pop(names.TOPOLOGY_CONSTRAINTS_ANNOTATION, None)
    obj["spec"].pop("schedulingConstraints", None)
    fix = Fix("topology", f"drop the topology constraints of {gang.ref}", (str(gang.ref),))
    return proven(prover, fix, Changes(update=(obj,)))
