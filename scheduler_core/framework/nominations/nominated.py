"""Precedence of nominated pods: which of them a pod must leave room for, on nodes and in topology domains.

Room that evictions freed belongs to the preemptor, so that the same victims are not evicted again: among pods
of one quota (or of none) by priority, and before pods of every other quota. Only a guarantee is stronger: a
pod within the min of its quota goes before nominated pods of another quota that are not within theirs (a gang
counts as a whole), and before nominated pods of no quota and no higher priority. A node that is only kept for
a gang never blocks a pod of another quota within its min, nor a pod that preempted for this room.

Required anti-affinity reaches further than the nominated node: it closes all nodes of the domain. On the
nominated node itself all filters run (`engine.evaluate`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Final

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.nominations.covered_nominations import covered_nominations, unit_of
from scheduler_core.framework.nominations.line import line_on, place_in_line
from scheduler_core.framework.nominations.nominated_sums import own_nominated, stays_within_min
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged
from scheduler_core.quota.policy import charge_within_min
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.affinity_index import wide_repelling
from scheduler_core.state.nomination import Nomination, NominationRights

_NOTHING: Final[ResourceList] = {}


def _nominee_guaranteed(state: ClusterState, nominee: Nomination) -> bool:
    """Whether a nominated pod stays within the min of its quota; a gang counts as a whole."""
    quota = state.ledger.quota_of(nominee.pod.namespace)
    if quota is None:
        return False
    known = covered_nominations(state, quota).get(unit_of(nominee))
    if known is not None:
        return known
    if not nominee.group:
        return stays_within_min(state, nominee.pod, own_nominated(state, nominee.pod))
    charge = state.nominations.sums.get(nominee.rights)
    first = state.nominations.first(nominee.rights) if charge is not None else nominee
    return charge_within_min(state.ledger, quota, charge or _NOTHING, own_nominated(state, first.pod))


class Precedence:
    """Decides which nominated pods take precedence over one pod; built once per attempt.

    `together` are the requests of all pods that are placed with it as a unit, if they count as a whole.
    """

    def __init__(self, state: ClusterState, pod: Pod, together: ResourceList | None = None) -> None:
        self._state = state
        self._pod = pod
        self._together = together
        self._group = state.gangs.unit_of(pod)
        self._quota = state.ledger.quota_of(pod.namespace)
        self._own = state.nominations.get(pod.uid)
        self._known: dict[str | NominationRights, bool] = {}

    @cached_property
    def _is_guaranteed(self) -> bool:
        state, quota, own = self._state, self._quota, self._own
        if own is not None and not own.kept and (own.group or self._together is None):
            # Its gang preempted as a whole and counts as a whole.
            return _nominee_guaranteed(state, own)
        charge = self._together
        if charge is None:
            charge = charged(state.nodes.flavors.asked(self._pod))
        return quota is not None and charge_within_min(
            state.ledger, quota, charge, own_nominated(state, self._pod)
        )

    def pod_goes_first(self, nominee: Nomination) -> bool:
        """Whether the pod goes before a nominated pod, on every node.

        A more important pod that would borrow does not pass one that stays within the min of their quota: the
        borrower's place is behind that of other quotas' guarantees, which the other one goes before.
        """
        rights = nominee.rights
        if not self.pod_may_go_first(rights) or rights.kept or (rights.group and rights.group == self._group):
            return self.pod_may_go_first(rights)
        if self._among_own(rights):
            return self._quota is None or self._is_guaranteed or not self._guaranteed_too(nominee)
        return not self._guaranteed_too(nominee)

    def pod_may_go_first(self, rights: NominationRights) -> bool:
        """Whether the pod may go before some nominated pods with these rights."""
        if rights.group and rights.group == self._group:
            return True
        if self._among_own(rights):
            return rights.priority < self._pod.priority
        return self._is_guaranteed

    def _among_own(self, rights: NominationRights) -> bool:
        """Whether priority alone decides: both pods have the same quota, or none."""
        return self._state.ledger.quota_of(rights.namespace) is self._quota

    def _guaranteed_too(self, nominee: Nomination) -> bool:
        """Whether a nominated pod has the same right: within its min, or more important without quota."""
        if self._state.ledger.quota_of(nominee.pod.namespace) is None:
            return nominee.rights.priority > self._pod.priority
        key = unit_of(nominee)
        if key not in self._known:
            self._known[key] = _nominee_guaranteed(self._state, nominee)
        return self._known[key]

    def nominee_goes_first(self, nominee: Nomination) -> bool:
        """Whether a nominated pod takes precedence over the pod on its nominated node.

        If of two pods nominated for one node neither goes before the other, both fit: the later one was
        nominated beside the earlier one. Any order will do that is the same after a restart.
        """
        if self.pod_goes_first(nominee):
            return False
        own = self._own
        return own is None or own.node != nominee.node or self._after(nominee, own)

    def nominee_goes_first_in_domain(self, nominee: Nomination) -> bool:
        """The same for pods that close a whole domain to each other, so that their nodes may differ."""
        return not self.pod_goes_first(nominee) and (self._own is None or self._after(nominee, self._own))

    def goes_before(self, rights: NominationRights) -> bool:
        """Whether nominated pods of the pod's own quota, or of none as the pod, go first by their rights.

        False also for those of other quotas, and where both are nominated with equal rights.
        """
        if not self._among_own(rights) or self.pod_may_go_first(rights):
            return False
        own = self._own
        if own is None:
            return True
        if rights.kept != own.kept:
            return own.kept
        return rights.priority > own.priority

    def _after(self, nominee: Nomination, own: Nomination) -> bool:
        """Whether the pod, itself nominated, goes after a nominated pod that it does not go before."""
        evicted = not (nominee.kept or own.kept)
        if evicted and self._quota is not None and self._among_own(nominee.rights):
            theirs = self._guaranteed_too(nominee)
            if theirs != self._is_guaranteed:
                return theirs
        elsewhere = nominee.kept == own.kept and not self._among_own(nominee.rights)
        matters = self._quota is None and self._pod.priority > nominee.rights.priority
        if elsewhere and not (self._is_guaranteed or matters) and self._guaranteed_too(nominee):
            return True
        return _before(nominee, own)


def _before(one: Nomination, other: Nomination) -> bool:
    """Whether `one` goes before `other`, two nominated pods with equal precedence."""
    return other.kept if one.kept != other.kept else one.rank < other.rank


def ahead_on(state: ClusterState, pod: Pod, node: str) -> Iterator[Nomination]:
    """Nominated pods that take precedence over the pod on one node."""
    return filter(Precedence(state, pod).nominee_goes_first, state.nominations.on_node(node, pod))


def requests_ahead(state: ClusterState, nominee: Nomination) -> list[Int64]:
    """int64 [R] each: what nominated pods request that take precedence over a nominated one on its node.

    Those of its own quota are one sum: `place_in_line` has the order that `Precedence` gives them.
    """
    quota = state.ledger.quota_of(nominee.pod.namespace)
    place = place_in_line(state, nominee, quota) if quota is not None else None
    if quota is None or place is None:
        return [item.vector for item in ahead_on(state, nominee.pod, nominee.node)]
    line, precedence = line_on(state, nominee.node, quota), Precedence(state, nominee.pod)
    ahead = filter(precedence.nominee_goes_first, line.others)
    return [line.before(place), *(item.vector for item in ahead)]


def nominated_room(state: ClusterState, pod: Pod) -> Int64:
    """int64 [R, N]: room on every node for nominated pods that take precedence. Read only."""
    nominations, precedence = state.nominations, Precedence(state, pod)
    known = nominations.waiting(precedence.pod_may_go_first)
    behind = {item.pod.uid: item for item in known if precedence.pod_goes_first(item)}
    own = nominations.get(pod.uid)
    if own is not None and nominations.counts(pod.uid):
        behind[pod.uid] = own
        beside = nominations.on_node(own.node, pod)
        behind |= {item.pod.uid: item for item in beside if not precedence.nominee_goes_first(item)}
    return nominations.room(behind.values())


def closed_by_anti_affinity(state: ClusterState, pod: Pod) -> Bool | None:
    """bool [N]: nodes in domains that required anti-affinity with nominated pods closes; None for none."""
    nominations = state.nominations
    own = wide_repelling(pod)
    if not own and not nominations.repelling:
        return None
    nodes, neighbours = state.nodes, state.neighbours
    closed: Bool | None = None  # [N]
    waiting = nominations.waiting(lambda _: True) if own else nominations.repelling.values()
    for item in _first_in_domain(state, pod, waiting):
        slot = nodes.slot(item.node)
        if slot is None:
            continue
        keys = {term.topology_key for term in own if neighbours.term_selects(term, item.pod)}
        keys |= {term.topology_key for term in wide_repelling(item.pod) if neighbours.term_selects(term, pod)}
        for key in keys:
            ids = neighbours.domains(key).raw[: nodes.size]
            if ids[slot] >= 0:
                same = ids == ids[slot]
                closed = same if closed is None else closed | same
    return closed


def _first_in_domain(state: ClusterState, pod: Pod, waiting: Iterable[Nomination]) -> Iterator[Nomination]:
    precedence = Precedence(state, pod)
    return (
        item for item in waiting if item.pod.uid != pod.uid and precedence.nominee_goes_first_in_domain(item)
    )
