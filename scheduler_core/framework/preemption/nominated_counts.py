"""Numbers of nominated pods per topology domain: those that a selection counts and that go before a pod."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.preemption.nominated import Precedence
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.domains import Domains
from scheduler_core.state.neighbours.selections import Selection
from scheduler_core.state.nominated_neighbours import Nominees
from scheduler_core.state.nomination import Nomination, NominationRights

ByRights = Mapping[NominationRights, Nominees]


def counted_nominees(state: ClusterState, selection: Selection) -> ByRights:
    """The nominated pods of a selection."""
    nominations = state.nominations
    return nominations.neighbours.counted(selection, nominations.waiting(lambda _: True))


def per_domain(state: ClusterState, items: Iterable[Nomination], domains: Domains) -> Int64:
    """int64 [V + 1]: nominated pods by the domains of their nodes."""
    slots = [slot for item in items if (slot := state.nodes.slot(item.node)) is not None]
    ids = domains.ids[slots]
    return np.bincount(ids[ids >= 0], minlength=domains.size + 1)


class PodsAhead:
    """The nominated pods that go before one pod in whole domains; those of other quotas are left out."""

    def __init__(self, state: ClusterState, pod: Pod) -> None:
        self._state = state
        self._pod = pod
        self._precedence = Precedence(state, pod)

    def may_be_among(self, nominees: ByRights) -> bool:
        """Whether some of these pods may go before the pod."""
        return any(self._precedence.goes_before(rights) is not False for rights in nominees)

    def per_domain(self, nominees: ByRights, domains: Domains) -> Int64:
        """int64 [V + 1]: how many of these pods go before the pod."""
        total: Int64 = np.zeros(domains.size + 1, dtype=np.int64)
        for rights, some in nominees.items():
            first = self._precedence.goes_before(rights)
            if first:
                total += some.sums(domains)
            elif first is None:
                others = (item for uid, item in some.by_uid.items() if uid != self._pod.uid)
                ahead = filter(self._precedence.nominee_goes_first_in_domain, others)
                total += per_domain(self._state, ahead, domains)
        return total
