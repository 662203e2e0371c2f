"""What is decided of pods that found no node: why they wait, what is nominated for them, who has to go."""

from __future__ import annotations

from scheduler_core.engine.decisions import Decision, Evicted, Rejected
from scheduler_core.engine.extender_consent import agreed, all_may_go
from scheduler_core.engine.gang_capacity import Members
from scheduler_core.engine.gang_cycle import COSCHEDULING, GangOutcome
from scheduler_core.engine.gang_preemption import GangPreemption
from scheduler_core.engine.messages import eviction_message, unschedulable_event
from scheduler_core.engine.pod_cycle import Attempt
from scheduler_core.framework.preemption.eligibility import awaited, leaving_for
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Code, Diagnosis, Status
from scheduler_core.model.gang import RESOURCES, Gang, group_key, group_of
from scheduler_core.model.names import EVENT_FAILED_SCHEDULING, REASON_UNSCHEDULABLE
from scheduler_core.state.cluster import ClusterState


def rejected(
    state: ClusterState, profile: Profile, attempt: Attempt
) -> tuple[list[Decision], frozenset[str]]:
    """The decisions of an attempt without a node, and who refused the pod; nominates and condemns."""
    pod, diagnosis, result = attempt.cycle.pod, attempt.diagnosis, attempt.post_filter
    if diagnosis is None:
        raise ValueError("an attempt without a node has a diagnosis")
    evicted: list[Decision] = []
    if result is not None and result.victims:
        result = agreed(state, pod, result)
    if result is not None:
        victims = frozenset(victim.uid for victim in result.victims)
        state.nominations.put(pod, result.nominated, attempt.cycle.vector, victims)
        for victim in result.victims:
            state.condemn(victim.uid)
            evicted.append(
                Evicted(victim, pod, profile.name, eviction_message(state, pod, victim, result.nominated))
            )
    elif not awaited(state, pod) or _beyond_help(diagnosis):
        state.nominations.remove(pod.uid)
    refused = diagnosis.status
    by_group = refused is not None and refused.plugin == COSCHEDULING
    waits = Rejected(
        pod,
        profile.name,
        REASON_UNSCHEDULABLE,
        diagnosis.message,
        diagnosis,
        state.nominations.node_of(pod.uid),
        event=REASON_UNSCHEDULABLE if by_group else EVENT_FAILED_SCHEDULING,
    )
    return [*evicted, waits], diagnosis.plugins


def _beyond_help(diagnosis: Diagnosis) -> bool:
    """Whether no room helps the pod: nobody else need wait for what was kept for it."""
    return diagnosis.status is not None and diagnosis.status.code is Code.UNRESOLVABLE


def not_reserved(state: ClusterState, profile: Profile, attempt: Attempt, status: Status) -> Rejected:
    """A node was found, but a plugin refused it or has to prepare something for the pod there first."""
    pod = attempt.cycle.pod
    if not isinstance(status.detail, Preparation):
        return Rejected(pod, profile.name, REASON_UNSCHEDULABLE, status.reason)
    node = state.nodes.names[attempt.slot]
    state.nominations.put(pod, node, attempt.cycle.vector)
    writes = status.detail.writes
    return Rejected(pod, profile.name, REASON_UNSCHEDULABLE, status.reason, None, node, writes)


def gang_evictions(state: ClusterState, preemption: GangPreemption) -> list[Decision]:
    """Evict for a gang, and nominate a node for each of its members.

    Where nobody goes or went for the gang the nodes are merely kept, until pods that leave anyhow are gone.
    Extenders that have a say are asked first; while they do not let all victims go, nobody does.
    """
    if not all_may_go(state, preemption.victims):
        return []
    pods = [pod for pod, _, _ in preemption.nominated]
    victims = leaving_for(state, pods) | {victim.uid for victim, _ in preemption.victims}
    state.nominations.put_gang(group_key(pods[0]), preemption.nominated, victims, kept=not victims)
    decisions: list[Decision] = []
    for victim, pod in preemption.victims:
        state.condemn(victim.uid)
        node = state.nominations.node_of(pod.uid)
        text = eviction_message(state, pod, victim, node, group=group_of(pod))
        decisions.append(Evicted(victim, pod, pod.scheduler_name, text))
    return decisions


def members_wait(
    state: ClusterState, gang: Gang | None, members: Members, outcome: GangOutcome, now: float
) -> list[Decision]:
    """Members of a gang that wait with the others, and the event on their group."""
    if outcome.preparing and state.gangs.keeping.rests(members[0][1].namespace) <= now:
        seats = [(item.pod, item.node, item.vector) for item in outcome.preparing]
        state.nominations.put_gang(group_key(seats[0][0]), seats, kept=True)
    writes = {item.pod.uid: item.writes for item in outcome.preparing}
    event = REASON_UNSCHEDULABLE if outcome.too_few else EVENT_FAILED_SCHEDULING
    decisions: list[Decision] = [
        Rejected(
            pod,
            profile.name,
            REASON_UNSCHEDULABLE,
            outcome.refused[pod.uid],
            None,
            state.nominations.node_of(pod.uid),
            writes.get(pod.uid, ()),
            event=event,
        )
        for profile, pod in members
        if pod.uid in outcome.refused
    ]
    if members and not outcome.reserved and gang is not None and gang.ref.dialect in RESOURCES:
        profile, first = members[0]
        decisions.append(unschedulable_event(gang, profile.name, outcome.refused[first.uid]))
    return decisions
