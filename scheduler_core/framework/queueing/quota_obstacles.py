"""Obstacles of quotas: the events that can help a pod which a max or the sum of min refused.

A pod that the max of its quota refuses waits for events of its own namespace. A pod that the sum of min
refuses waits for pods of all quotas, and a pod within its min for the quotas that borrow. Such pods therefore
wait under names of their own besides the name of the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import structs

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.nominations.nominated_sums import (
    nominated_by_quota,
    nominated_of_quotas,
    nominated_requests,
    own_nominated,
)
from scheduler_core.framework.nominations.room_beside_waiting import delays_by_quota
from scheduler_core.framework.nominations.waiting_nominations import NOBODY_LEAVES, waiting_nominations
from scheduler_core.framework.queueing.hints import (
    EVERYBODY,
    NOBODY,
    Hint,
    NarrowHint,
    Reach,
    Room,
    StandingHint,
)
from scheduler_core.framework.queueing.min_crossing import enter_the_min, moved_at_once
from scheduler_core.framework.queueing.widest_victims import (
    may_evict_its_own,
    may_move_fairly,
    may_reclaim,
)
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.names import CAPACITY_SCHEDULING
from scheduler_core.model.pods.pod import NEVER, Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.aggregate import limits_everybody
from scheduler_core.quota.fair_shares import staying
from scheduler_core.quota.group_limits import RuleLine
from scheduler_core.quota.ledger import charged
from scheduler_core.quota.policy import Refusal, admit_charge
from scheduler_core.quota.reading import AdmissionReading
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.gangs.held_quota import held_against

OWN_MAX: Final = "MaxOfQuota"
GROUP_MAX: Final = "MaxOfGroup"
SUM_OF_MIN: Final = "SumOfMin"
RECLAIM: Final = "Reclaim"
FAIR_MOVE: Final = "FairMove"
FAIR_MOVE_LATER: Final = "FairMoveOnceShort"
BESIDE_WAITING: Final = "WaitingNominatedPods"
_OF_RULE: Final = {"max": OWN_MAX, "group max": GROUP_MAX, "sum(min)": SUM_OF_MIN}

_NONE: Final[dict[str, int]] = {}
_UNBOUNDED: Final = np.iinfo(np.int64).max


def refusal_of(
    state: ClusterState,
    pod: Pod,
    *,
    after_leaving: bool = False,
    beyond_max: bool = False,
    asked: ResourceList | None = None,
) -> Refusal | None:
    """The reason why quotas refuse a pod, nominated pods and held quota included, or None; see `admit`.

    `asked` is what the pod would be charged, by default wherever it runs.
    """
    requests = state.nodes.flavors.asked(pod) if asked is None else asked
    return refusal_of_charge(
        state, pod, charged(requests), after_leaving=after_leaving, beyond_max=beyond_max
    )


def refusal_of_charge(
    state: ClusterState,
    pod: Pod,
    charge: ResourceList,
    *,
    after_leaving: bool = False,
    beyond_max: bool = False,
) -> Refusal | None:
    """The same for a charge at the place of a pod in the queue, such as that of all that start with it.

    Nominated pods that wait for leaving pods need to fit afterwards only (`room_beside_waiting`).
    """
    refusal = _refusal(state, pod, charge, after_leaving=after_leaving, beyond_max=beyond_max)
    if refusal is None or after_leaving:
        return refusal
    if waiting_nominations(state) is NOBODY_LEAVES and state.nominations.get(pod.uid) is None:
        return refusal
    # What nominated pods will need once others are gone is not needed now. Of those that wait for nobody the
    # first in order starts: where a pod took the room of one of them, they would else refuse each other.
    now = _refusal(state, pod, charge, beyond_max=beyond_max, without_waiting=True)
    if now is not None:
        return now
    later = _refusal(state, pod, charge, after_leaving=True, beyond_max=beyond_max, in_order=True)
    if later is None and not delays_by_quota(state, pod, charge):
        return None
    return structs.replace(refusal, until_later=True)


def reading_of_charge(state: ClusterState, pod: Pod, charge: ResourceList) -> AdmissionReading:
    """`refusal_of_charge` with all numbers that decide, also where quotas admit the charge."""
    refusal = refusal_of_charge(state, pod, charge)
    told: list[RuleLine] = []
    at_once = _refusal(state, pod, charge, told=told)
    if refusal != at_once and (refusal is None or not refusal.until_later):
        # What waiting nominated pods will need is not needed now.
        told.clear()
        _refusal(state, pod, charge, without_waiting=True, told=told)
    return AdmissionReading(tuple(told), refusal)


def _refusal(
    state: ClusterState,
    pod: Pod,
    charge: ResourceList,
    *,
    after_leaving: bool = False,
    beyond_max: bool = False,
    without_waiting: bool = False,
    in_order: bool = False,
    told: list[RuleLine] | None = None,
) -> Refusal | None:
    own, total = _NONE, _NONE
    by_quota: Mapping[str, ResourceList] = {}
    if len(state.nominations):
        own, total = nominated_requests(state, pod, without_waiting=without_waiting, in_order=in_order)
        by_quota = nominated_by_quota(state, pod, without_waiting=without_waiting, in_order=in_order)
    held = held_against(state, pod)
    return admit_charge(
        state.ledger,
        pod.namespace,
        charge,
        nominated=own,
        nominated_total=total,
        nominated_by=by_quota,
        after_leaving=after_leaving,
        beyond_max=beyond_max,
        held=held.amounts,
        holder=held.holder,
        told=told,
    )


def beside_own_quota(state: ClusterState, pod: Pod, refusal: Refusal) -> set[str]:
    """The names besides the plugin's under which a refused pod waits."""
    found = {_OF_RULE[refusal.rule], BESIDE_WAITING}
    if refusal.rule == "max" and may_evict_its_own(state, pod):
        # Evictions for the max do not help while a group or the sum of min refuses the pod as well.
        further = refusal_of(state, pod, beyond_max=True)
        if further is not None:
            found.add(_OF_RULE[further.rule])
    if GROUP_MAX in found and may_evict_its_own(state, pod):
        found.add(SUM_OF_MIN)
    if refusal.until_later:
        # What refuses it, or those who wait, once others are gone need not be what the numbers are about.
        found |= {GROUP_MAX, SUM_OF_MIN}
    if may_reclaim(state, pod):
        found.add(RECLAIM)
    elif state.ledger.borrowing.fair_moves:
        found.add(FAIR_MOVE)
    return found


def may_be_short_later(state: ClusterState, pod: Pod) -> bool:
    """Whether a fair move may help a pod once the sum of min refuses it. A group is evaluated as a whole."""
    if not state.ledger.borrowing.fair_moves or state.ledger.quota_of(pod.namespace) is None:
        return False
    return group_of(pod) is not None or refusal_of(state, pod) is None


def of_a_gang(refused_by: frozenset[str]) -> frozenset[str]:
    """The names under which a gang waits: a limit that admits each member may refuse them together."""
    if CAPACITY_SCHEDULING not in refused_by:
        return refused_by
    return refused_by | {OWN_MAX, GROUP_MAX, SUM_OF_MIN, RECLAIM, FAIR_MOVE, BESIDE_WAITING}


def own_quota_hints() -> Mapping[EventKind, Hint | None]:
    """Events of a pod's own quota: it changed, room is no longer kept for a nominated pod, or a pod ended or
    leaves by which the pod is within the min. Whom quotas refuse waits under names of its own, too.
    """
    return {
        EventKind.QUOTA | EventKind.NOMINATION: NarrowHint(_is_own, _own),
        EventKind.POD_LEAVING: NarrowHint(_is_own, enter_the_min),
        EventKind.POD_DELETE: StandingHint(_may_evict_more, enter_the_min),
    }


def flavor_hints() -> Mapping[EventKind, Hint | None]:
    """Events for a pod that quotas refuse on the nodes of a flavor: use or a limit changed, or a node came or
    got another label, and quotas admit the pod there.
    """
    changes = EventKind.QUOTA | EventKind.NOMINATION | EventKind.LOAN | EventKind.SHARE
    return {
        changes | EventKind.POD_LEAVING: None,
        EventKind.NODE_ADD | EventKind.NODE_LABELS: NarrowHint(_is_admitted_there),
        EventKind.POD_DELETE: StandingHint(_is_any, _of_quotas),
    }


def quota_hints() -> dict[str, Mapping[EventKind, Hint | None]]:
    """The obstacles of quotas beside the plugin's, by name, with their events.

    OWN_MAX: the max of the pod's own quota; a pod of that quota was deleted, though the sum of min may still
    refuse. GROUP_MAX: the max of a group above the quota; a pod of a quota below that group was deleted, or a
    quota or group changed. SUM_OF_MIN: all quotas together use it up; a pod of any quota was deleted, or a
    quota changed. RECLAIM: the pod may reclaim, being within its min; a pod of any quota was deleted, so that
    the pod may be admitted, or has less to reclaim. FAIR_MOVE: the pod would borrow, and may take from quotas
    that borrow more; another quota borrows more, or use of any quota ended, so that less is lacking or the
    own share is smaller; or its own quota got a pod, and the pod borrows only since. FAIR_MOVE_LATER: the
    same for a pod that the sum of min admits now, if more is used. A pod that leaves is for all of them as
    one that was deleted, if the pod can wait for its end.
    BESIDE_WAITING: nominated pods wait for leaving pods; who comes, leaves or is nominated changes who waits,
    so that the pod may have what is free until then.
    """
    return {
        OWN_MAX: {
            EventKind.POD_LEAVING: StandingHint(_waits_and(_is_below_max), _own),
            EventKind.POD_DELETE: StandingHint(_is_below_max, _own),
        },
        GROUP_MAX: {
            EventKind.QUOTA | EventKind.NOMINATION: None,
            EventKind.POD_LEAVING: StandingHint(_waits_and(_is_below_group_max), _of_groups),
            EventKind.POD_DELETE: StandingHint(_is_below_group_max, _of_groups),
        },
        SUM_OF_MIN: {
            EventKind.QUOTA | EventKind.NOMINATION: None,
            EventKind.POD_LEAVING: StandingHint(_waits_and(_is_let_in), _nominated, _left_of_the_sum),
            EventKind.POD_DELETE: StandingHint(_is_let_in, _nominated, _left_of_the_sum),
        },
        RECLAIM: {
            EventKind.POD_LEAVING: StandingHint(_waits_and(_may_reclaim), _of_quotas),
            EventKind.POD_DELETE: StandingHint(_may_reclaim, _of_quotas),
        },
        FAIR_MOVE: {
            EventKind.LOAN: NarrowHint(_another_borrows_more),
            EventKind.POD_ADD: NarrowHint(_borrows_since, _own),
            EventKind.POD_LEAVING: NarrowHint(_may_move_fairly),
            EventKind.SHARE: NarrowHint(_is_own_share, _own_and_beside),
            EventKind.POD_DELETE: StandingHint(_starts_or_moves_fairly, _of_quotas),
        },
        FAIR_MOVE_LATER: {EventKind.POD_ADD: NarrowHint(_may_move_fairly, _of_quotas)},
        BESIDE_WAITING: {
            EventKind.POD_ADD | EventKind.POD_UPDATE | EventKind.POD_LEAVING: StandingHint(
                _is_admitted, _nobody, _free_for_now
            )
        },
    }


def _own(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of the quota that an event is about."""
    namespace = event.pod.namespace if event.pod is not None else event.namespace
    if not namespace:
        return EVERYBODY
    return (
        NOBODY
        if event.pod is not None and state.ledger.quota_of(namespace) is None
        else Reach(namespaces=frozenset({namespace}))
    )


def _own_and_beside(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of the quota that an event is about, and of the quotas that have a group in common with it."""
    above = state.ledger.groups_above(event.namespace)
    return Reach(namespaces=above[-1].namespaces) if above else _own(state, event)


def _of_quotas(state: ClusterState, event: ClusterEvent) -> Reach:
    """All pods if the added or deleted pod has a quota: no other pod counts in the sums."""
    gone = event.pod
    return EVERYBODY if gone is None or state.ledger.quota_of(gone.namespace) is not None else NOBODY


def _is_any(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    return True


def _is_own(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether the event is of the pod's own quota."""
    namespace = event.pod.namespace if event.pod is not None else event.namespace
    return namespace in ("", pod.namespace)


def _waits_and(so: Hint) -> Hint:
    """The hint for a leaving pod: it says what the one for its end says, of pods that can wait for that."""
    return lambda state, pod, event: _may_wait(state, pod, event) and so(state, pod, event)


def _may_wait(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod can be nominated and wait for pods that leave; one of its own quota may help any pod."""
    if event.pod is not None and event.pod.namespace == pod.namespace:
        return True
    nomination = state.nominations.get(pod.uid)
    return pod.preemption_policy != NEVER and (nomination is None or nomination.kept)


def _is_let_in(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether quotas admit the pod now, or might after evictions in its own quota."""
    return _lasting_refusal(state, pod) is None or may_evict_its_own(state, pod)


def _nobody(state: ClusterState, event: ClusterEvent) -> Reach:
    return NOBODY


def _free_for_now(state: ClusterState, event: ClusterEvent) -> Room | None:
    """What is free of the sum of min before any pod is gone, if pods leave for nominated pods."""
    ledger, index = state.ledger, state.index
    if not len(state.nominations) or not any(ledger.total_leaving.values()):
        return None
    in_use = ledger.in_use(guaranteed=True)
    free: Int64 = np.full(len(index), _UNBOUNDED, dtype=np.int64)  # [R]
    for name, total in limits_everybody(ledger).items():
        row = index.row(name)
        if row is not None:
            free[row] = total - in_use.get(name, 0)
    return Room(free)


def _is_admitted(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    return refusal_of(state, pod) is None


def _is_admitted_there(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether quotas admit the pod on the node of the event, by the flavors that this node has now."""
    if event.node is None:
        return True
    asked = state.nodes.flavors.charge(pod.requests, state.nodes.slot(event.node.name))
    return _lasting_refusal(state, pod, asked) is None


def _lasting_refusal(state: ClusterState, pod: Pod, asked: ResourceList | None = None) -> Refusal | None:
    """The reason why quotas refuse the pod even once all leaving pods are gone, or None; see `refusal_of`.

    A pod that may preempt can be nominated, and then waits for the leaving pods.
    """
    if pod.preemption_policy == NEVER or not any(state.ledger.total_leaving.values()):
        return refusal_of(state, pod, asked=asked)
    # The cheaper question first: whether it is let in now depends on all that wait for leaving pods.
    refusal = refusal_of(state, pod, after_leaving=True, asked=asked)
    return None if refusal is None or refusal_of(state, pod, asked=asked) is None else refusal


def _is_below_max(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether the max of the pod's quota has room for it after the deletion of another pod, or might have
    after evictions in its quota, of which fewer are needed now.
    """
    if event.pod is not None and event.pod.namespace != pod.namespace:
        return False
    refusal = _lasting_refusal(state, pod)
    return refusal is None or refusal.rule != "max" or may_evict_its_own(state, pod)


def _is_below_group_max(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether the groups above the pod's quota have room for it, or might after evictions in its quota."""
    refusal = _lasting_refusal(state, pod)
    return refusal is None or refusal.rule != "group max" or may_evict_its_own(state, pod)


def _of_groups(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of the quotas that have a group in common with the deleted pod."""
    gone = event.pod
    if gone is None:
        return EVERYBODY
    above = state.ledger.groups_above(gone.namespace)
    return Reach(namespaces=above[-1].namespaces) if above else NOBODY


def _may_evict_more(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether the pod might find victims now that its quota uses less."""
    if event.pod is not None and event.pod.namespace != pod.namespace:
        return False
    return may_reclaim(state, pod) or may_evict_its_own(state, pod)


def _may_reclaim(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    if pod.preemption_policy == NEVER:
        return _is_let_in(state, pod, event)
    return may_reclaim(state, pod)


def _may_move_fairly(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    return may_move_fairly(state, pod)


def _starts_or_moves_fairly(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a fair move may help the pod, or nothing is short for now: those before it may take that."""
    if pod.preemption_policy == NEVER or not state.ledger.borrowing.fair_moves:
        return False
    quota = state.ledger.quota_of(pod.namespace)
    if quota is None or not quota.sharing.weight:
        return False
    return _lasting_refusal(state, pod) is None or may_move_fairly(state, pod)


def _is_own_share(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether the share of the pod's quota or of a group above it is smaller, so that it may take more."""
    return _shares_a_side(state, pod, event) and may_move_fairly(state, pod)


def _shares_a_side(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    if event.namespace == pod.namespace:
        return True
    above = state.ledger.groups_above(pod.namespace)
    return bool(above) and event.namespace in above[-1].namespaces


def _another_borrows_more(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a quota that borrows more than before may give the pod what it lacks."""
    return event.namespace != pod.namespace and may_move_fairly(state, pod)


def _borrows_since(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether a pod, or its gang as a whole, borrows what shares count only since its quota got another pod.

    One that reclaims nothing because of a resource that shares do not count makes no fair move before.
    """
    ledger, came = state.ledger, event.pod
    quota = ledger.quota_of(pod.namespace)
    if quota is None or came is None or came.namespace != pod.namespace:
        return False
    gang = state.gangs.of(pod)
    number = gang.min_members if gang is not None else 1
    used, taken, asked = staying(ledger, quota), moved_at_once(state, event), charged(pod.requests)
    beside = own_nominated(state, pod) if len(state.nominations) else _NONE
    for name in ledger.costs.names(ledger.total_min):
        before = used.get(name, 0) + beside.get(name, 0) - taken.get(name, 0)
        if asked.get(name) and before + number * asked[name] > quota.min.get(name, 0):
            return False
    return may_move_fairly(state, pod)


def _nominated(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of quotas with nominated pods, which do not all block their own quota."""
    if _of_quotas(state, event) == NOBODY:
        return NOBODY
    return Reach(namespaces=frozenset(rights.namespace for rights in state.nominations.sums))


def _left_of_the_sum(state: ClusterState, event: ClusterEvent) -> Room | None:
    """The part of the sum of min that remains for a pod beyond its own min.

    A pod within its min may have more; it also waits as `Reclaim`.
    """
    if _of_quotas(state, event) == NOBODY:
        return None
    ledger, index = state.ledger, state.index
    # The pod may wait for leaving pods.
    in_use = ledger.in_use(after_leaving=True)
    # Kept nodes do not block every pod.
    nominated, _ = nominated_of_quotas(state)
    free: Int64 = np.full(len(index), _UNBOUNDED, dtype=np.int64)  # [R]
    for name, total in limits_everybody(ledger).items():
        row = index.row(name)
        if row is not None:
            free[row] = total - in_use.get(name, 0) - nominated.get(name, 0)
    return Room(free, lowest=state.table.levels.lowest)
