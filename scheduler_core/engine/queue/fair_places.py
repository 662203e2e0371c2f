"""Places of waiting units under fair sharing, by the present use of quotas (docs/fair-sharing.md#order)."""

from __future__ import annotations

from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.quota.fair_order import FairOrder, FairPlace
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState


class FairPlaces:
    """Places of units. A gang is one piece of work: what all its waiting pods request counts."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._order = FairOrder(state.ledger)
        self._touched = state.ledger.follow()
        self._quotas_version = -1
        self._nominations_version = -1
        # What nominated pods will use, by namespace.
        self._nominated: dict[str, dict[str, int]] = {}

    def of(self, unit: QueuedUnit) -> FairPlace:
        """The place of a unit; a lower place goes first."""
        state, namespace = self._state, unit.namespace
        if state.ledger.quota_of(namespace) is None:
            return self._order.place(namespace, {})
        self._follow_nominations()
        asked: dict[str, int] = {}
        nominated = self._nominated.get(namespace, {})
        own: dict[str, int] = {}
        for uid, pod in unit.pods.items():
            charge = charged(pod.requests)
            shift(asked, charge)
            if nominated and state.nominations.counts(uid):
                shift(own, charge)
            if state.ledger.is_charged(namespace, uid):
                # Charged at its creation: the use of the quota contains it.
                shift(own, charge)
        if own:
            nominated = dict(nominated)
            shift(nominated, own, -1)
        return self._order.place(namespace, asked, nominated)

    def changed(self) -> set[str] | None:
        """The namespaces whose places may have changed since the last call; None: all."""
        self._follow_nominations()
        touched = self._touched.copy()
        self._touched.clear()
        if self._quotas_version != self._state.ledger.quotas_version:
            self._quotas_version = self._state.ledger.quotas_version
            return None
        return touched

    def _follow_nominations(self) -> None:
        nominations = self._state.nominations
        if self._nominations_version == nominations.version:
            return
        self._nominations_version = nominations.version
        before, self._nominated = self._nominated, {}
        for rights, sums in nominations.sums.items():
            shift(self._nominated.setdefault(rights.namespace, {}), sums)
        for namespace in before.keys() | self._nominated.keys():
            if before.get(namespace) != self._nominated.get(namespace):
                self._touched.add(namespace)
