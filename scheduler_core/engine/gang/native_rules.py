"""The rules of native groups that come before any placement (docs/gangs.md#native-groups).

The group must exist, be readable and have enough pods; no member may have scheduling gates; and its members
must agree with the group, or among themselves where the group says nothing. Counterpart of kube-scheduler's
PreEnqueue of GangScheduling, its queue, and validatePodGroup.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.outcome import AtFault, Lack, MustWait, Outcome, Starts, at_fault, waits
from scheduler_core.framework.preemption.eligibility import leaving_for
from scheduler_core.model.groups.gang import Gang, GroupRef, two_groups
from scheduler_core.model.pods.pod import PREEMPT_LOWER_PRIORITY, Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.forest import Group, text_of
from scheduler_core.state.gangs.gangs import missing, take_census, too_few
from scheduler_core.state.gangs.verdicts import SCHEDULED, SCHEDULER_ERROR, UNSCHEDULABLE


def claimed_by_two(state: ClusterState, members: Members) -> str:
    """The line about the first member that names a native group beside its own one; empty if none does.

    It becomes the verdict on the native group as well.
    """
    for _, pod in members:
        text = two_groups(pod) if pod.native_group else ""
        if text:
            native = state.gangs.gangs.get(GroupRef("native-PodGroup", pod.namespace, pod.native_group).key)
            if native is not None:
                record_error(state, native, text)
            return text
    return ""


def native_refusal(
    state: ClusterState, ref: GroupRef, gang: Gang | None, members: Members, gated: Sequence[Pod]
) -> MustWait | AtFault | None:
    """The outcome of waiting members of a native group that may not be placed now; else None.

    `gated`: the waiting members that a PreEnqueue plugin holds back.
    """
    if gang is None:
        return waits(members, f"{ref} does not exist", lack=Lack.PODS)
    if gang.problem:
        return at_fault(members, gang.problem, error=True)
    if gated:
        first = min(pod.key for pod in gated)
        text = f"{gang.ref}: Pod {first} has spec.schedulingGates, and a gated member holds its whole group"
        return waits(members, text, lack=Lack.PODS)
    census = take_census(state, gang.key)
    need = missing(gang, census)
    if need <= census.waiting:
        text = contradiction(state, gang)
        if text:
            return at_fault(members, text, error=True)
    if need > len(members):
        return waits(members, too_few(gang, census, len(members)), lack=Lack.PODS)
    return None


def contradiction(state: ClusterState, group: Group) -> str:
    """The line that says how a member contradicts its group or another member; empty if all agree.

    Of a CompositePodGroup the members are those of all groups below it. Finished members, and members that
    leave without a node, do not count.
    """
    unit, priority, policy = group.key, group.priority, group.preemption_policy or None
    pods = list(_counting(state, unit))
    names = {pod.scheduler_name for pod in pods}
    priorities = {pod.priority for pod in pods}
    policies = {pod.preemption_policy or PREEMPT_LOWER_PRIORITY for pod in pods}
    if not pods or (len(names) == 1 and _agree(priorities, priority) and _agree(policies, policy)):
        return ""
    pods.sort(key=lambda pod: pod.key)
    first = pods[0]
    for pod in pods:
        for field, value, other, given in (
            ("schedulerName", pod.scheduler_name, first.scheduler_name, None),
            ("priority", pod.priority, first.priority, priority),
            (
                "preemptionPolicy",
                pod.preemption_policy or PREEMPT_LOWER_PRIORITY,
                first.preemption_policy or PREEMPT_LOWER_PRIORITY,
                policy,
            ),
        ):
            if value != (other if given is None else given):
                return _line(text_of(group), pod, first, field, value, other, given)
    raise ValueError("members that do not agree contradict the group or the first of them")


def _agree(values: Collection[object], given: object) -> bool:
    return len(values) == 1 if given is None else set(values) == {given}


def _line(group: str, pod: Pod, first: Pod, field: str, value: object, other: object, given: object) -> str:
    if given is None:
        return (
            f"Pod {pod.key}: spec.{field} {value} differs from spec.{field} {other} of Pod {first.key}; "
            f"all pods of {group} must have the same"
        )
    return (
        f"Pod {pod.key}: spec.{field} {value} differs from spec.{field} {given} of {group}; "
        f"all pods of a group must have that of the group"
    )


def _counting(state: ClusterState, unit: str) -> Iterator[Pod]:
    placed = state.placed
    for uid, pod in state.gangs.members_of_unit(unit).items():
        if not pod.finished and (uid in placed or not pod.terminating):
            yield pod


def record_verdict(state: ClusterState, gang: Gang, outcome: Outcome) -> None:
    """Record the outcome of a cycle of a native group for its condition.

    As in kube-scheduler a group that still waits for pods or gates had no cycle.
    """
    text = next(iter(outcome.refused.values()), "")
    match outcome:
        case Starts():
            record_start(state, gang)
        case AtFault(error=True):
            record_error(state, gang, text)
        case AtFault() | MustWait(lack=Lack.ROOM | Lack.QUOTA):
            state.gangs.verdicts.decided(gang.key, UNSCHEDULABLE, _with_awaited(state, gang, text))


def _with_awaited(state: ClusterState, gang: Gang, text: str) -> str:
    """The line about a group without room, with the number of pods that were evicted for it and still end."""
    count = len(leaving_for(state, tuple(state.gangs.members(gang.key).values())))
    if not count:
        return text
    return f"{text.removesuffix('.')}; waiting for {count} evicted pod{'' if count == 1 else 's'} to end"


def record_start(state: ClusterState, gang: Gang) -> None:
    """Record that members of a native group start, or that they run and no more are needed."""
    total = take_census(state, gang.key).allocated
    state.gangs.verdicts.decided(gang.key, SCHEDULED, f"{gang.ref}: {total} pods have a node")


def record_error(state: ClusterState, gang: Gang, message: str) -> None:
    """Record that the cycle of a native group failed with an error."""
    state.gangs.verdicts.decided(gang.key, SCHEDULER_ERROR, message)
