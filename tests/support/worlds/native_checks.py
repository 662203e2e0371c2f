"""What must be true of Kubernetes' own groups, read from the raw objects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tests.support.worlds.checks import Fault, Preemption
from tests.support.worlds.endings import going
from tests.support.worlds.filters import why_not
from tests.support.worlds.reading import Raw, View, evicted_for, finished, group_key, key, node_of, nominated

INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


def is_native(view: View, group: str) -> bool:
    return group in view.groups and view.groups[group].dialect == "native"


def domain_faults(view: View, bound: Sequence[tuple[Raw, str]]) -> Iterator[Fault]:
    """Right after members were bound: all that run are in one domain."""
    for group in {group_key(pod) for pod, _ in bound}:
        if not is_native(view, group) or not view.groups[group].where:
            continue
        topology_key = view.groups[group].where
        there = [pod for pod in view.members(group) if node_of(pod) in view.nodes]
        running = [pod for pod in there if not finished(pod) and not going(pod)]
        labels = [view.nodes[node_of(pod)]["metadata"].get("labels", {}) for pod in running]
        values = {own.get(topology_key) for own in labels}
        if len(values) > 1 or None in values:
            where = sorted(f"{key(pod)} on {node_of(pod)}" for pod in running)
            yield Fault("domain", f"{group} runs in {values} of {topology_key}: {where}")


def whole_faults(view: View, found: Preemption) -> Iterator[Fault]:
    """A group with disruptionMode all goes as a whole or not at all; one that ends anyhow may be hurried."""
    for group in {group_key(victim) for victim in found.victims if not going(victim)}:
        if not is_native(view, group) or "all" not in view.groups[group].obj["spec"].get(
            "disruptionMode", {}
        ):
            continue
        members = [pod for pod in view.members(group) if node_of(pod) and not finished(pod)]
        there = [pod for pod in members if not going(pod) and view.evictable(pod)]
        left = [key(pod) for pod in there if key(pod) not in found.gone]
        if left:
            yield Fault("evict-part", f"{found}: {sorted(left)} of {group} stay, and it goes as a whole")


def again_faults(view: View, found: Preemption) -> Iterator[Fault]:
    """A native group evicts nobody while pods that it evicted leave, and its nodes are still there."""
    group = group_key(found.pods[0])
    if not is_native(view, group):
        return
    mine = {key(pod) for pod in view.members(group)}
    earlier = [pod for pod in view.holders if view.leaves(pod) and evicted_for(pod) in mine]
    if earlier:
        names = sorted(key(pod) for pod in earlier)
        yield Fault("evict-before-they-left", f"{found}, while {names} leave for {group}")


def spare_faults(view: View, found: Preemption) -> Iterator[Fault]:
    """A native group evicts a unit although all of its placed members keep their nodes beside it."""
    group = group_key(found.pods[0])
    if not is_native(view, group):
        return
    placed = [(pod, found.nodes[key(pod)]) for pod in found.pods if found.nodes.get(key(pod))]
    placed += [
        (pod, found.nodes[key(pod)])
        for pod in view.members(group)
        if key(pod) not in {key(own) for own in found.pods} and found.nodes.get(key(pod))
    ]
    units: dict[str, set[str]] = {}
    for victim in found.victims:
        own = group_key(victim)
        whole = own in view.groups and (not is_native(view, own) or _goes_whole(view, own))
        units.setdefault(own if whole else key(victim), set()).add(key(victim))
    leaving = view.leaving()
    own = {key(pod) for pod, _ in placed}
    others = [pod for pod in view.waiting if nominated(pod) and key(pod) not in own]
    for unit in units.values():
        beside = view.without((found.gone - unit) | leaving)
        full = beside
        for other in others:
            full = full.placed(other, nominated(other))
        if _all_fit(beside, placed) and _all_fit(full, placed):
            yield Fault(
                "evict-needless", f"{found} for {placed_text(placed)}, which fit beside {sorted(unit)}"
            )


def _goes_whole(view: View, group: str) -> bool:
    return "all" in view.groups[group].obj["spec"].get("disruptionMode", {})


def placed_text(placed: Sequence[tuple[Raw, str]]) -> str:
    return ", ".join(f"{key(pod)} on {node}" for pod, node in placed)


def _all_fit(view: View, placed: Sequence[tuple[Raw, str]]) -> bool:
    for pod, node in placed:
        if why_not(view, pod, node) or view.refused(pod, reserved=False):
            return False
        view = view.placed(pod, node)
    return True


def is_scheduled(group: Raw) -> bool:
    """Whether the condition says that a group was scheduled."""
    conditions = (group.get("status") or {}).get("conditions") or ()
    return any(item["type"] == INITIALLY_SCHEDULED and item["status"] == "True" for item in conditions)


def scheduled_faults(groups: Collection[Raw], before: set[str], bound: set[str]) -> Iterator[Fault]:
    """Once True, the condition of a group (by uid) stays; it is True once members were bound.

    `before` are those that were True, `bound` those of which members were bound.
    """
    for group in groups:
        uid = group["metadata"]["uid"]
        if not is_scheduled(group) and uid in before | bound:
            name = group["metadata"]["name"]
            yield Fault("unscheduled", f"{name} started, and its condition does not say so")
