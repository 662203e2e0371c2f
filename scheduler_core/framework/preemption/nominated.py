"""Who of the nominated pods goes before a pod: in the sums of quotas, and on the nodes (reference, rule 4).

Room that evictions freed belongs to the pod that evicted, so that the same victims do not go again and again:
among pods of one quota (or of none) by priority, and before pods of every other quota. Only what a quota is
guaranteed goes before that: a pod that stays within its min passes nominated pods of another quota that do
not stay within theirs, a gang as a whole, and those of no quota that are not more important. A node that is
merely kept for a gang never holds back a pod of another quota that stays within its min, and never one that
evicted for its room.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.nominated_sums import own_nominated, stays_within_min
from scheduler_core.model.gang import group_key
from scheduler_core.model.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import charge_within_min, within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nominations import Nomination, Standing

_NOTHING: Final[ResourceList] = {}


def _nominee_guaranteed(state: ClusterState, nominee: Nomination) -> bool:
    """Whether what a nominated pod waits for stays within the min of its quota; of a gang, all of it."""
    quota = state.ledger.quota_of(nominee.pod.namespace)
    if quota is None:
        return False
    if not nominee.group:
        return stays_within_min(state, nominee.pod, own_nominated(state, nominee.pod))
    charge = state.nominations.sums.get(nominee.standing)
    first = state.nominations.first(nominee.standing) if charge is not None else nominee
    return charge_within_min(state.ledger, quota, charge or _NOTHING, own_nominated(state, first.pod))


def _guaranteed_alone(state: ClusterState, namespace: str) -> dict[str, bool]:
    """What `_nominee_guaranteed` says of the nominated pods of a namespace that wait alone, by uid.

    Going through them once in their order: with many of them, to ask of each what goes before it takes the
    square of their number.
    """
    quota, found = state.ledger.quota_of(namespace), dict[str, bool]()
    if quota is None:
        return found
    ahead: dict[str, int] = {}
    chosen = state.nominations.waiting(lambda standing: standing.namespace == namespace and not standing.kept)
    for item in sorted(chosen, key=lambda item: item.rank):
        pod = item.pod
        if not (item.group or group_key(pod)):
            found[pod.uid] = within_min(state.ledger, quota, pod.requests, ahead)
        shift(ahead, charged(pod.requests))
    return found


class Precedence:
    """Which nominated pods go before one pod on a node; found out once for an attempt.

    `together` is what the pods use that are placed with it as one, where its right is that of all of them.
    """

    def __init__(self, state: ClusterState, pod: Pod, together: ResourceList | None = None) -> None:
        self._state = state
        self._pod = pod
        self._together = together
        self._group = group_key(pod)
        self._quota = state.ledger.quota_of(pod.namespace)
        self._own = state.nominations.get(pod.uid)
        self._known: dict[str, bool] = {}

    @cached_property
    def _is_guaranteed(self) -> bool:
        state, quota, own = self._state, self._quota, self._own
        if own is not None and own.group and not own.kept:
            # Its gang has evicted as a whole, and so it is judged.
            return _nominee_guaranteed(state, own)
        charge = self._together if self._together is not None else charged(self._pod.requests)
        return quota is not None and charge_within_min(
            state.ledger, quota, charge, own_nominated(state, self._pod)
        )

    def concedes(self, nominee: Nomination) -> bool:
        """Whether a nominated pod never goes before the pod, on whatever node."""
        standing = nominee.standing
        return self.may_concede(standing) and (
            standing.kept or self._among_own(standing) or not self._guaranteed_too(nominee)
        )

    def may_concede(self, standing: Standing) -> bool:
        """Whether some pods of a standing may never go before the pod."""
        if standing.group and standing.group == self._group:
            return True
        if self._among_own(standing):
            return standing.priority < self._pod.priority
        return self._is_guaranteed

    def _among_own(self, standing: Standing) -> bool:
        """Whether priority alone decides: under the pod's own quota, or where both are under none."""
        return self._state.ledger.quota_of(standing.namespace) is self._quota

    def _guaranteed_too(self, nominee: Nomination) -> bool:
        """Whether a nominated pod has as good a right: within its min, or more important under no quota."""
        if self._state.ledger.quota_of(nominee.pod.namespace) is None:
            return nominee.standing.priority > self._pod.priority
        key = nominee.group or nominee.pod.uid
        if key not in self._known:
            self._known[key] = _nominee_guaranteed(self._state, nominee)
        return self._known[key]

    def look_at(self, nominees: Iterable[Nomination]) -> None:
        """Find out at once what will be asked of many nominated pods, on the state as it is."""
        others = {item.pod.namespace for item in nominees if not self._among_own(item.standing)}
        for namespace in others:
            self._known |= _guaranteed_alone(self._state, namespace)

    def goes_first(self, nominee: Nomination) -> bool:
        """Whether the room that a nominated pod waits for is closed to the pod.

        Of two pods that wait for one node and of which none concedes, the later one was nominated beside the
        earlier, so any order will do that is the same after a restart.
        """
        if self.concedes(nominee):
            return False
        own = self._own
        return own is None or own.node != nominee.node or self._after(nominee, own)

    def goes_first_beside(self, nominee: Nomination) -> bool:
        """The same where the nodes of both are closed to the other one, although they may be different."""
        return not self.concedes(nominee) and (self._own is None or self._after(nominee, self._own))

    def _after(self, nominee: Nomination, own: Nomination) -> bool:
        """Whether the pod, nominated itself, goes after another one of which it does not concede."""
        elsewhere = nominee.kept == own.kept and not self._among_own(nominee.standing)
        matters = self._quota is None and self._pod.priority > nominee.standing.priority
        if elsewhere and not (self._is_guaranteed or matters) and self._guaranteed_too(nominee):
            return True
        return _before(nominee, own)


def _before(one: Nomination, other: Nomination) -> bool:
    """Whether the first of two nominated pods of which neither concedes goes first."""
    return other.kept if one.kept != other.kept else one.rank < other.rank


def ahead_on(state: ClusterState, pod: Pod, node: str) -> Iterator[Nomination]:
    """Nominated pods that go first on one node."""
    return filter(Precedence(state, pod).goes_first, state.nominations.on_node(node, pod))


def nominated_room(state: ClusterState, pod: Pod) -> Int64:
    """int64 [R, N]: what nominated pods that go first will take of every node. Read only."""
    nominations, precedence = state.nominations, Precedence(state, pod)
    known = list(nominations.waiting(precedence.may_concede))
    precedence.look_at(known)
    behind = {item.pod.uid: item for item in known if precedence.concedes(item)}
    own = nominations.get(pod.uid)
    if own is not None and nominations.counts(pod.uid):
        behind[pod.uid] = own
        beside = nominations.on_node(own.node, pod)
        behind |= {item.pod.uid: item for item in beside if not precedence.goes_first(item)}
    return nominations.room(behind.values())
