"""What of a refusal by quotas is whose business: max is the quota's own, the sum of min is everybody's.

A pod that its quota's max refuses waits for its own namespace alone. One that the sum of min refuses waits
for pods of all quotas, and one within its min for whoever borrows. So such pods wait under names of their
own, beside that of the plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.hints import (
    EVERYBODY,
    NOBODY,
    Hint,
    NarrowHint,
    Reach,
    Room,
    StandingHint,
)
from scheduler_core.framework.preemption.nominated_sums import nominated_requests
from scheduler_core.framework.widest_victims import is_within_min, may_evict_its_own
from scheduler_core.model.pod import NEVER, Pod
from scheduler_core.quota.ledger import shift
from scheduler_core.quota.policy import Refusal, admit
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

CAPACITY: Final = "CapacityScheduling"
OWN_MAX: Final = "MaxOfQuota"
SUM_OF_MIN: Final = "SumOfMin"
RECLAIM: Final = "Reclaim"

_NONE: Final[dict[str, int]] = {}
_UNBOUNDED: Final = np.iinfo(np.int64).max


def refusal_of(
    state: ClusterState, pod: Pod, *, after_leaving: bool = False, beyond_max: bool = False
) -> Refusal | None:
    """Why quotas do not let a pod in beside those that are nominated, or None; see `admit`."""
    own, total = _NONE, _NONE
    if len(state.nominations):
        own, total = nominated_requests(state, pod, leaving_count=not after_leaving)
    return admit(
        state.ledger,
        pod.namespace,
        pod.requests,
        nominated=own,
        nominated_total=total,
        after_leaving=after_leaving,
        beyond_max=beyond_max,
    )


def beside_own_quota(state: ClusterState, pod: Pod, refusal: Refusal) -> set[str]:
    """Under which names beside the plugin's a refused pod waits."""
    found = {OWN_MAX if refusal.rule == "max" else SUM_OF_MIN}
    if refusal.rule == "max" and may_evict_its_own(state, pod) and refusal_of(state, pod, beyond_max=True):
        # What it might evict for max is of no use while the sum is in the way as well.
        found.add(SUM_OF_MIN)
    if is_within_min(state, pod):
        found.add(RECLAIM)
    return found


def of_a_gang(refused_by: frozenset[str]) -> frozenset[str]:
    """Who refused a gang: its members together may be refused by what lets each of them in."""
    return refused_by | {OWN_MAX, SUM_OF_MIN, RECLAIM} if CAPACITY in refused_by else refused_by


class OwnQuota:
    """The hints of CapacityScheduling itself: what happens to a pod's own quota."""

    @staticmethod
    def hints() -> Mapping[Happened, Hint | None]:
        """Quota came free or changed; room is not kept for a nominated pod any more."""
        other = Happened.QUOTA | Happened.NOMINATION | Happened.POD_LEAVING
        return {
            other: NarrowHint(_is_own, _own),
            Happened.POD_DELETE: StandingHint(_may_evict_more, _own),
        }


class OwnMax:
    """Stands for the max of a pod's own quota among those that refuse it."""

    name = OWN_MAX

    def hints(self) -> Mapping[Happened, Hint | None]:
        """A pod of the quota went: if max is not in the way any more, the sum of min may be."""
        return {Happened.POD_DELETE: StandingHint(_is_below_max, _own)}


class SumOfMin:
    """Stands for the sum of min among those that refuse a pod: all quotas together use it up."""

    name = SUM_OF_MIN

    def hints(self) -> Mapping[Happened, Hint | None]:
        """Any quota's pod went, or a quota has another min."""
        return {
            Happened.QUOTA | Happened.NOMINATION: None,
            Happened.POD_DELETE: StandingHint(_is_let_in, _nominated, _left_of_the_sum),
        }


class Reclaim:
    """Stands for a pod within its min that quotas refuse: less of what others hold stands in its way."""

    name = RECLAIM

    def hints(self) -> Mapping[Happened, Hint | None]:
        """A pod of any quota went: the pod may get in, or has to take back less."""
        return {Happened.POD_DELETE: StandingHint(_stays_within_min, _of_quotas)}


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


def _of_quotas(state: ClusterState, event: ClusterEvent) -> Reach:
    """Everybody where a quota's pod went: no other counts in the sums."""
    gone = event.pod
    return EVERYBODY if gone is None or state.ledger.quota_of(gone.namespace) is not None else NOBODY


def _is_own(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether it is the pod's own quota. A pod on its way out does not count against its own min."""
    namespace = event.pod.namespace if event.pod is not None else event.namespace
    return namespace in ("", pod.namespace)


def _is_let_in(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether quotas let the pod in now, or might after evictions in its own."""
    return _lasting_refusal(state, pod) is None or may_evict_its_own(state, pod)


def _lasting_refusal(state: ClusterState, pod: Pod) -> Refusal | None:
    """Why quotas do not let the pod in, nor would if those were gone who are on their way out, or None.

    A pod that may preempt can be nominated, and then waits for their end.
    """
    refusal = refusal_of(state, pod)
    if refusal is None or pod.preemption_policy == NEVER or not any(state.ledger.total_leaving.values()):
        return refusal
    return refusal_of(state, pod, after_leaving=True)


def _is_below_max(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether the max of the pod's quota has room for it now that another of its pods went."""
    if event.pod is not None and event.pod.namespace != pod.namespace:
        return False
    refusal = _lasting_refusal(state, pod)
    return refusal is None or refusal.rule != "max"


def _may_evict_more(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    """Whether the pod might find victims now that its quota uses less: in others, or more than it lacks."""
    if event.pod is not None and event.pod.namespace != pod.namespace:
        return False
    return is_within_min(state, pod) or may_evict_its_own(state, pod)


def _stays_within_min(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    if pod.preemption_policy == NEVER:
        return _is_let_in(state, pod, event)
    return is_within_min(state, pod)


def _nominated(state: ClusterState, event: ClusterEvent) -> Reach:
    """Those of quotas with nominated pods: not all of these hold back their own quota."""
    if _of_quotas(state, event) == NOBODY:
        return NOBODY
    return Reach(namespaces=frozenset(standing.namespace for standing in state.nominations.sums))


def _left_of_the_sum(state: ClusterState, event: ClusterEvent) -> Room | None:
    """What quotas and nominated pods of other quotas leave of the sum of min to a pod beyond its own min.

    One within it may have more, and waits as `Reclaim` as well.
    """
    if _of_quotas(state, event) == NOBODY:
        return None
    ledger, index, nominated = state.ledger, state.index, dict[str, int]()
    # Who is on its way out may be waited for.
    in_use = ledger.in_use(after_leaving=True)
    for standing, sums in state.nominations.sums.items():
        # Nodes that are merely kept do not hold back everybody.
        if not standing.kept and ledger.quota_of(standing.namespace) is not None:
            shift(nominated, sums)
    free: Int64 = np.full(len(index), _UNBOUNDED, dtype=np.int64)  # [R]
    for name, total in ledger.total_min.items():
        row = index.row(name)
        if row is not None:
            free[row] = total - in_use.get(name, 0) - nominated.get(name, 0)
    return Room(free, lowest=state.table.levels.lowest)
