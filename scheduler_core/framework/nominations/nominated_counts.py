"""Numbers of nominated pods per topology domain: those that a selection counts and that go before a pod."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.nominations.nominated import Precedence
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.domains import Domains
from scheduler_core.state.neighbours.selections import Selection
from scheduler_core.state.nominated_neighbours import NomineeKind, Nominees

ByKind = Mapping[NomineeKind, Nominees]


def counted_nominees(state: ClusterState, selection: Selection) -> ByKind:
    """The nominated pods of a selection."""
    nominations = state.nominations
    return nominations.neighbours.counted(selection, nominations.waiting(lambda _: True))


class PodsAhead:
    """The nominated pods that go before one pod in whole domains; those of other quotas are left out."""

    def __init__(self, state: ClusterState, pod: Pod) -> None:
        self._precedence = Precedence(state, pod)

    def may_be_among(self, nominees: ByKind) -> bool:
        """Whether some of these pods may go before the pod."""
        return any(self._precedence.goes_before(kind.rights) for kind in nominees)

    def per_domain(self, nominees: ByKind, domains: Domains) -> Int64:
        """int64 [V + 1]: how many of these pods go before the pod."""
        total: Int64 = np.zeros(domains.size + 1, dtype=np.int64)
        for kind, some in nominees.items():
            if self._precedence.goes_before(kind.rights):
                total += some.sums(domains)
        return total
