"""Selections: the placed pods that a selector matches, counted per topology domain and kept current."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int32, Int64
from scheduler_core.model.pods.affinity import SpreadConstraint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import NOTHING, Selector, selector_size
from scheduler_core.state.neighbours.domains import CountCache, DomainCounts, Domains
from scheduler_core.state.neighbours.selector_index import NamespacedIndex
from scheduler_core.state.placed.labels import PodLabels
from scheduler_core.state.placed.pods import PodTable

# To update so many counts takes half a millisecond; an attempt asks for 100 at most.
MOST_CURRENT: Final = 256
# Namespaces with counts that were left behind; of more, those of all are.
_MOST_NAMESPACES: Final = 1024


class Selection(NamedTuple):
    """Placed pods, selected by namespaces (None: all) and labels.

    `live` leaves out those that are terminating or to be evicted, which the table of placed pods knows.
    """

    namespaces: frozenset[str] | None
    selector: Selector
    live: bool

    def takes(self, pod: Pod) -> bool:
        """Whether a pod belongs to it, unless it ends."""
        if self.namespaces is not None and pod.namespace not in self.namespaces:
            return False
        return self.selector.matches(pod.labels)


def counted(pod: Pod, constraint: SpreadConstraint) -> Selection:
    """Placed pods that a constraint counts: of the same namespace, not terminating nor to be evicted.

    As in kube-scheduler, a selector without requirements counts no pods.
    """
    selector = constraint.selector if constraint.selector.requirements else NOTHING
    return Selection(frozenset((pod.namespace,)), selector, live=True)


class Selections:
    """Counts of selections per domain. A selection is counted from its first query until it is forgotten.

    Its counts are kept current, unless the pods of a namespace may be in more than `MOST_CURRENT` of them:
    then a pod that comes or goes leaves these behind, and each is counted anew when it is asked for.
    """

    def __init__(self, table: PodTable, labels: PodLabels, cache: CountCache) -> None:
        self.table = table
        self.labels = labels
        self.watched: dict[Selection, _Watched] = {}
        self.index: NamespacedIndex[_Watched] = NamespacedIndex()
        self._cache = cache
        self._latest: tuple[Selection, Int64] | None = None
        # Changes that left counts behind; the number of the last one by namespace, and of any that has none.
        self._changes = 0
        self._changed_in: dict[str, int] = {}
        self._changed_anywhere = 0

    def sums(self, selection: Selection, domains: Domains) -> Int32:
        """int32 [V + 1], read-only: pods of the selection per domain."""
        watched = self.watched.get(selection)
        if watched is None:
            watched = self.watched[selection] = _Watched(self, selection)
            self.index.add(watched, selection.namespaces, selection.selector)
        self._cache.sums(watched, domains)
        counts = watched.counts[domains.key]
        if counts.position < 0:
            counts.position = self._changes
        elif self._is_behind(selection, counts):
            counts.renew()
            counts.position = self._changes
        return counts.sums

    def _is_behind(self, selection: Selection, counts: DomainCounts) -> bool:
        """Whether a change of its namespaces was left out."""
        if counts.position >= self._changes:
            return False
        names = selection.namespaces
        if names is None or self._changed_anywhere > counts.position:
            return True
        return any(self._changed_in.get(name, 0) > counts.position for name in names)

    def catch_up(self) -> None:
        """Count anew all that was left behind."""
        for selection, watched in self.watched.items():
            for counts in watched.counts.values():
                if self._is_behind(selection, counts):
                    counts.renew()
                    counts.position = self._changes

    def _about(self, pod: Pod) -> list[_Watched]:
        """Selections that may contain a pod; none where they are so many that they are left behind."""
        found = list(islice(self.index.candidates(pod.namespace, pod.labels), MOST_CURRENT + 1))
        if len(found) <= MOST_CURRENT:
            return found
        self._changes += 1
        self._changed_in[pod.namespace] = self._changes
        if len(self._changed_in) > _MOST_NAMESPACES:
            self._changed_in.clear()
            self._changed_anywhere = self._changes
        return []

    def add(self, pod: Pod, slot: int, times: int, *, ending: bool) -> None:
        """A pod came to a node (1) or left it (-1) while something is watched; its labels are known."""
        self._latest = None
        for watched in self._about(pod):
            if watched.selection.takes(pod) and not (ending and watched.selection.live):
                for counts in watched.counts.values():
                    counts.add(slot, times)

    def ends(self, pod: Pod, slot: int, times: int) -> None:
        """A placed pod is terminating or to be evicted (-1), or is not to be evicted any more (1)."""
        self._latest = None
        for watched in self._about(pod):
            if watched.selection.live and watched.selection.takes(pod):
                for counts in watched.counts.values():
                    counts.add(slot, times)

    def forget_latest(self) -> None:
        """Drop the positions found last: they are not updated while no selection is watched."""
        self._latest = None

    def slots(self, selection: Selection) -> Int64:
        """Node slots of the pods of a selection; found once for all topology keys that are asked about."""
        if self._latest is None or self._latest[0] is not selection:
            namespaces, selector, live = selection
            rows = self.labels.rows(namespaces, selector, live=live)
            self._latest = selection, self.table.slot[rows].astype(np.int64)
        return self._latest[1]


class _Watched:
    """A selection with its cached counts."""

    __slots__ = ("counts", "home", "selection", "values")

    def __init__(self, home: Selections, selection: Selection) -> None:
        self.home = home
        self.selection = selection
        self.counts: dict[Hashable, DomainCounts] = {}
        self.values = selector_size(selection.selector) + len(selection.namespaces or ())

    def spots(self) -> tuple[Int64, None]:
        """Slots of the pods that it takes now."""
        return self.home.slots(self.selection), None

    def unused(self) -> None:
        """Stop watching."""
        self.home.forget_latest()
        del self.home.watched[self.selection]
        self.home.index.remove(self)
