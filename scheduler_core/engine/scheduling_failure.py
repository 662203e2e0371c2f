"""Decisions about pods and gangs without a node: rejections, nominations, evictions, and their messages.

Counterpart of kube-scheduler's handleSchedulingFailure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from scheduler_core.engine.decisions import Decision, Evicted, Noticed, Rejected
from scheduler_core.engine.extenders.process_preemption import agreed_preemption, all_victims_agreed
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.outcome import AtFault, Lack, MustWait, Outcome, Prepares, Starts
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.engine.pod_cycle import Attempt
from scheduler_core.framework.preemption.eligibility import awaited, leaving_for
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Code, Diagnosis, Status
from scheduler_core.model.eviction_record import EvictionRecord
from scheduler_core.model.groups.gang import RESOURCES, Gang, GroupRef, group_key, group_of
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import (
    COSCHEDULING,
    EVENT_FAILED_SCHEDULING,
    EVICTED_BY_PRIORITY,
    EVICTED_FAIRLY,
    EVICTED_FOR_MIN,
    REASON_INVALID_TOPOLOGY,
    REASON_SCHEDULER_ERROR,
    REASON_UNSCHEDULABLE,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.quota.policy import above_max_text, borrowed
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.displacements import Displacement
from scheduler_core.state.gangs.gangs import missing, take_census


def rejected(
    state: ClusterState, profile: Profile, attempt: Attempt
) -> tuple[list[Decision], frozenset[str]]:
    """(decisions, plugins that rejected the pod) of an attempt that found no node.

    Nominates the node that PostFilter found, and marks its victims as leaving.
    """
    pod, diagnosis, result = attempt.cycle.pod, attempt.diagnosis, attempt.post_filter
    if diagnosis is None:
        raise ValueError("an attempt without a node has a diagnosis")
    evicted: list[Decision] = []
    if result is not None and result.victims:
        result = agreed_preemption(state, pod, result)
    if result is not None:
        victims = frozenset(victim.uid for victim in result.victims)
        state.nominations.put(pod, result.nominated, attempt.cycle.vector, victims)
        _displace(state, pod, result.victims, fair=result.fair)
        for victim in result.victims:
            state.mark_leaving(victim.uid)
            evicted.append(_evicted(state, profile.name, pod, victim, result.nominated, fair=result.fair))
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
        due=diagnosis.due,
        refused_by=diagnosis.refused_by,
    )
    return [*evicted, waits], diagnosis.plugins


def _beyond_help(diagnosis: Diagnosis) -> bool:
    """Whether no free room could help the pod, so that its nomination is given up."""
    return diagnosis.status is not None and diagnosis.status.code is Code.UNRESOLVABLE


def reserve_failed(state: ClusterState, profile: Profile, attempt: Attempt, status: Status) -> Rejected:
    """The rejection of a pod whose node was refused by Reserve or Permit, or has to be prepared first."""
    pod = attempt.cycle.pod
    if not isinstance(status.detail, Preparation):
        return Rejected(pod, profile.name, REASON_UNSCHEDULABLE, status.reason, refused_by=status.plugin)
    node = state.nodes.names[attempt.slot]
    state.nominations.put(pod, node, attempt.cycle.vector)
    writes = status.detail.writes
    return Rejected(pod, profile.name, REASON_UNSCHEDULABLE, status.reason, None, node, writes)


def evict_for_gang(state: ClusterState, preemption: GangPreemption) -> list[Decision]:
    """Evict the victims of a gang, and nominate a node for each of its members.

    Without victims, now or earlier on these nodes, they are merely kept until terminating pods are gone.
    Extenders with a preempt verb are asked first; nobody is evicted until they agree to all victims.
    """
    if not all_victims_agreed(state, preemption.victims):
        return []
    pods = [pod for pod, _, _ in preemption.nominated]
    victims = leaving_for(state, pods) | {victim.uid for victim, _ in preemption.victims}
    unit = state.gangs.unit_of(pods[0])
    # Its victims may be gone while others still leave: the nodes for which it evicted stay its own.
    evicted = bool(victims) or _evicted_there(state, unit, {node for _, node, _ in preemption.nominated})
    state.nominations.put_gang(unit, preemption.nominated, victims, kept=not evicted)
    decisions: list[Decision] = []
    gone, fair = [victim for victim, _ in preemption.victims], preemption.fair
    _displace(state, pods[0], gone, group_of(pods[0]), fair=fair)
    for victim, pod in preemption.victims:
        state.mark_leaving(victim.uid)
        node = state.nominations.node_of(pod.uid)
        decisions.append(
            _evicted(state, pod.scheduler_name, pod, victim, node, group=group_of(pod), fair=fair)
        )
    return decisions


def _evicted(
    state: ClusterState,
    profile: str,
    preemptor: Pod,
    victim: Pod,
    node: str,
    *,
    group: GroupRef | None = None,
    fair: bool,
) -> Evicted:
    """The decision to evict a pod, with all that is told about it: to people, programs and new processes."""
    hidden = state.displacements.hides(preemptor, victim.namespace)
    why = eviction_reason(state, preemptor, victim, fair=fair)
    own = state.ledger.quota_of(preemptor.namespace)
    return Evicted(
        victim,
        preemptor,
        profile,
        eviction_message(state, preemptor, victim, node, group=group, fair=fair, hidden=hidden),
        why,
        _grace(state, victim, why),
        _preemptors(state, preemptor, group, hidden=hidden),
        hidden,
        EvictionRecord(
            _taker(preemptor, group, hidden=hidden),
            own.key if own is not None and why != EVICTED_BY_PRIORITY else "",
        ),
    )


def _taker(preemptor: Pod, group: GroupRef | None, *, hidden: bool) -> str:
    """The pod or group that takes the place, as people of the victim's namespace may know it."""
    return str(group) if group is not None and not hidden else f"Pod {_named(preemptor, hidden)}"


def _evicted_there(state: ClusterState, unit: str, nodes: Collection[str]) -> bool:
    """Whether a gang is nominated for all these nodes, and evicted others for them."""
    before = {item.node for item in state.nominations.of_group(unit) if not item.kept}
    return before.issuperset(nodes)


def _preemptors(
    state: ClusterState, preemptor: Pod, group: GroupRef | None = None, *, hidden: bool
) -> tuple[str, ...]:
    """For whom a pod is evicted, as a new process reads it in its status.

    Where names are hidden, by uids, which tell a tenant nothing.
    """
    if not hidden:
        return (preemptor.key, *([str(group)] if group is not None else []))
    gang = state.gangs.gangs.get(group.key) if group is not None else None
    return (preemptor.uid, *([gang.uid] if gang is not None and gang.uid else []))


def _displace(
    state: ClusterState,
    preemptor: Pod,
    victims: Sequence[Pod],
    group: GroupRef | None = None,
    *,
    fair: bool = False,
) -> None:
    """Note for whom the victims of one preemption are evicted, before they count as leaving."""
    by_namespace: dict[str, list[Pod]] = {}
    for victim in victims:
        by_namespace.setdefault(victim.namespace, []).append(victim)
    own = state.ledger.quota_of(preemptor.namespace)
    for namespace, pods in by_namespace.items():
        quota, hidden = state.ledger.quota_of(namespace), state.displacements.hides(preemptor, namespace)
        reclaims = own is not None and quota is not own
        state.displacements.pending.append(
            Displacement(
                tuple(pods),
                _taker(preemptor, group, hidden=hidden),
                eviction_message(state, preemptor, pods[0], "", group=group, fair=fair, hidden=hidden),
                quota if reclaims else None,
                own.key if own is not None and reclaims and quota is not None else "",
                {key: len(state.gangs.members(key)) for key in map(group_key, pods) if key},
                fair,
            )
        )


def members_wait(
    state: ClusterState, gang: Gang | None, members: Members, outcome: Outcome, now: float
) -> list[Decision]:
    """The rejections of a unit's waiting members, and the event on their PodGroup."""
    preparing = outcome.members if isinstance(outcome, Prepares) else ()
    if preparing and state.gangs.kept_nodes.rests(members[0][1].namespace) <= now:
        nominated = [(item.pod, item.node, item.vector) for item in preparing]
        state.nominations.put_gang(state.gangs.unit_of(nominated[0][0]), nominated, kept=True)
    writes = {item.pod.uid: item.writes for item in preparing}
    reason, event = _reason_and_event(outcome)
    due = outcome.due if isinstance(outcome, MustWait) else math.inf
    decisions: list[Decision] = [
        Rejected(
            pod,
            profile.name,
            reason,
            outcome.refused[pod.uid],
            None,
            state.nominations.node_of(pod.uid),
            writes.get(pod.uid, ()),
            event=event,
            due=due,
        )
        for profile, pod in members
        if pod.uid in outcome.refused
    ]
    if members and not isinstance(outcome, Starts) and gang is not None and _is_told(state, gang):
        profile, first = members[0]
        decisions.append(unschedulable_event(gang, profile.name, outcome.refused[first.uid], first.uid))
    return decisions


def _reason_and_event(outcome: Outcome) -> tuple[str, str]:
    """(the reason of the members' condition, that of their event)."""
    match outcome:
        case AtFault(error=True):
            return REASON_SCHEDULER_ERROR, EVENT_FAILED_SCHEDULING
        case AtFault(lacks_object=True) | MustWait(lack=Lack.PODS):
            return REASON_UNSCHEDULABLE, REASON_UNSCHEDULABLE
        case _:
            return REASON_UNSCHEDULABLE, EVENT_FAILED_SCHEDULING


def _is_told(state: ClusterState, gang: Gang) -> bool:
    """Whether a group has an object for events, and is not a native one that has its minimum."""
    if gang.ref.native and not missing(gang, take_census(state, gang.key)):
        return False
    return gang.ref.dialect in RESOURCES


def eviction_reason(state: ClusterState, preemptor: Pod, victim: Pod, *, fair: bool) -> str:
    """Which rule an eviction follows: that of fair moves, of quotas that reclaim their min, or priority."""
    own, other = state.ledger.quota_of(preemptor.namespace), state.ledger.quota_of(victim.namespace)
    if own is None or other is None or own is other:
        return EVICTED_BY_PRIORITY
    return EVICTED_FAIRLY if fair else EVICTED_FOR_MIN


def _grace(state: ClusterState, victim: Pod, why: str) -> int | None:
    """The seconds that a victim has to end; None: its own, which is within the limit.

    Nobody waits for room that comes later than the limit: without it the preemptor would have evicted in
    vain, and a claim of another quota would wait for a pod that is no victim any more. A preemption by
    priority says nothing else than kube-scheduler where the pod's own grace period is within the limit. A pod
    that ends already has the whole limit, however little its own grace period is.
    """
    limit = state.departures.limit
    if why == EVICTED_BY_PRIORITY and victim.grace <= limit:
        return None
    return limit if victim.terminating else min(victim.grace, limit)


def _named(pod: Pod, hidden: bool) -> str:
    return f"{pod.namespace}/*" if hidden else pod.key


def eviction_message(
    state: ClusterState,
    preemptor: Pod,
    victim: Pod,
    node: str,
    *,
    group: GroupRef | None = None,
    fair: bool = False,
    hidden: bool = False,
) -> str:
    """The message of an eviction: the preemptor, its quota, and what the victim's quota borrows.

    `node` is empty in a text about several nodes. `group` is given where the preemptor's whole group is to
    start; the message then has the group's own priority, if it has one. `fair`: in a fair move. `hidden`:
    of the preemptor the namespace is told, not the name. Nobody reads the text back.
    """
    whole = f" of {group}" if group is not None and not hidden else ""
    gang = state.gangs.gangs.get(group.key) if group is not None else None
    own_priority = gang.priority if gang is not None else None
    priority = preemptor.priority if own_priority is None else own_priority
    text = f"preempted by {_named(preemptor, hidden)}{whole} (priority {priority})"
    text += f" for node {node}" if node else ""
    own, other = state.ledger.quota_of(preemptor.namespace), state.ledger.quota_of(victim.namespace)
    if own is None or other is None:
        return text
    if own is other:
        return f"{text}, under ElasticQuota {own.key}"
    amounts = borrowed(state.ledger, other)
    parts = ", ".join(f"{name}={format_resource(name, value)}" for name, value in amounts.items())
    uses = above_max_text(state.ledger, other)
    passed = f" and {uses}" if uses else ""
    why = "a fair move for" if fair else "which reclaims the min of"
    return f"{text}, {why} ElasticQuota {own.key}; ElasticQuota {other.key} borrows {parts}{passed}"


def unschedulable_event(gang: Gang, profile: str, message: str, waiting: str) -> Noticed:
    """The Unschedulable event on a PodGroup that cannot start (docs/gangs.md#status-and-conditions).

    `waiting` is the uid of a member that waits for this reason.
    """
    resource = RESOURCES[gang.ref.dialect]
    return Noticed(
        resource.api_version,
        resource.kind,
        gang.ref.namespace,
        gang.ref.name,
        gang.uid,
        profile,
        REASON_UNSCHEDULABLE,
        message,
        waiting,
    )


def topology_notices(state: ClusterState) -> list[Decision]:
    """One event per topology ConfigMap that could not be read; the tree read before stays in use."""
    table = state.topology
    found, table.unreported = table.unreported, []
    return [
        Noticed(
            CONFIG_MAPS.api_version,
            CONFIG_MAPS.kind,
            config_map.namespace,
            config_map.name,
            config_map.uid,
            scheduler,
            REASON_INVALID_TOPOLOGY,
            f"{config_map.fault}; the topology that was read before stays in use",
        )
        for config_map in found
        for scheduler, settings in table.settings.items()
        if settings.namespace == config_map.namespace
    ]
