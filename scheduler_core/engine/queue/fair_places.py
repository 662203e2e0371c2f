"""Places of waiting units under fair sharing, by the present use of quotas (docs/fair-sharing.md#order)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.fair_order import AT_ONCE, FairOrder, FairPlace
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState

_NOTHING: Final[ResourceList] = {}


class FairPlaces:
    """Places of units. A gang is one piece of work: what all its waiting pods request counts."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        history = state.history
        self._order = FairOrder(state.ledger, history.steps if history is not None else None)
        self._history_version = -1
        self._touched = state.ledger.follow()
        self._quotas_version = -1
        self._nominations_version = -1
        # What nominated pods will use, by namespace.
        self._nominated: dict[str, dict[str, int]] = {}

    def of(self, unit: QueuedUnit) -> FairPlace:
        """The place of a unit; a lower place goes first."""
        return self.within(unit.namespace, unit)

    def within(self, namespace: str, unit: QueuedUnit) -> FairPlace:
        """The place of a unit of a namespace."""
        state = self._state
        ledger = state.ledger
        if ledger.quota_of(namespace) is None:
            return AT_ONCE
        if self._nominations_version != state.nominations.version:
            self._follow_nominations()
        others = self._nominated.get(namespace, _NOTHING)
        if len(unit.pods) == 1 and not others:
            # As below, for most units.
            (pod,) = unit.pods.values()
            if not ledger.is_charged(namespace, pod.uid):
                return self._order.place(namespace, self._charge(pod), nominated_by=self._nominated)
        asked, own = self._asked(unit, namespace, nominated=bool(others))
        if own:
            others = dict(others)
            shift(others, own, -1)
        return self._order.place(namespace, asked, others, self._nominated)

    def _charge(self, pod: Pod) -> dict[str, int]:
        return charged(self._state.nodes.flavors.asked(pod))

    def _asked(
        self, unit: QueuedUnit, namespace: str, *, nominated: bool
    ) -> tuple[ResourceList, ResourceList]:
        """The charge of a unit, and what of it counts already, as use or for nominated pods."""
        state, asked, own = self._state, dict[str, int](), dict[str, int]()
        for uid, pod in unit.pods.items():
            charge = self._charge(pod)
            if asked:
                shift(asked, charge)
            else:
                asked = charge
            if nominated and state.nominations.counts(uid):
                shift(own, charge)
            if state.ledger.is_charged(namespace, uid):
                # Charged at its creation: the use of the quota contains it.
                shift(own, charge)
        return asked, own

    def advance(self, now: float) -> None:
        """Let the history of borrowing know the time and the use of quotas."""
        if self._state.history is not None:
            self._state.history.advance(now)

    def changed(self, lanes: Mapping[str, object], unsure: set[str]) -> None:
        """Add to `unsure` those of `lanes` (namespaces) whose places may have changed since the last call."""
        if self._nominations_version != self._state.nominations.version:
            self._follow_nominations()
        history = self._state.history
        version = history.version if history is not None else -1
        if self._quotas_version != self._state.ledger.quotas_version or self._history_version != version:
            self._history_version = version
            self._quotas_version = self._state.ledger.quotas_version
            unsure.update(lanes)
        else:
            touched = self._with_siblings() if self._state.ledger.tree else self._touched
            unsure.update(namespace for namespace in touched if namespace in lanes)
        self._touched.clear()

    def _with_siblings(self) -> set[str]:
        """The namespaces whose use changed, and those that have a group in common with one of them."""
        found = set(self._touched)
        for namespace in self._touched:
            above = self._state.ledger.groups_above(namespace)
            if above and not above[-1].namespaces <= found:
                found |= above[-1].namespaces
        return found

    def _follow_nominations(self) -> None:
        nominations = self._state.nominations
        self._nominations_version = nominations.version
        before, self._nominated = self._nominated, {}
        for rights, sums in nominations.sums.items():
            shift(self._nominated.setdefault(rights.namespace, {}), sums)
        for namespace in before.keys() | self._nominated.keys():
            if before.get(namespace) != self._nominated.get(namespace):
                self._touched.add(namespace)
