"""Neighbours: the placed pods by label and by topology domain, updated with every placement.

Topology spread and inter-pod affinity read this. Everything here follows from the table of placed pods, the
nodes' labels and the namespaces; undoing a placement undoes it here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import Selector
from scheduler_core.state.neighbours.affinity_index import (
    AffinityIndex,
    TermGroup,
    TermKey,
    TermsAbout,
    carries_terms,
)
from scheduler_core.state.neighbours.domains import CountCache, DomainCache, Domains, sums_at
from scheduler_core.state.neighbours.refusals import NeighbourRefusals
from scheduler_core.state.neighbours.selections import Selection, Selections
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.placed.labels import PodLabels
from scheduler_core.state.placed.pods import PodTable

# Pods that are gone leave the selectors of namespaces that they named.
_MOST_SELECTORS: Final = 1024
# To count so many terms one by one, each of which is kept, takes less time than to look at all carriers.
FEW_TERMS: Final = 32
_NO_LABELS: Mapping[str, str] = {}


class Neighbours:
    """Counts of placed pods per topology domain, by selector and by the terms that pods carry.

    `labels`: those of placed pods, in columns. `selections`: the counts by selector. `affinity`: the terms.
    """

    def __init__(self, nodes: NodeTable, table: PodTable, namespaces: Mapping[str, Namespace]) -> None:
        self._namespaces = namespaces
        self._table = table
        self.labels = PodLabels(table)
        self._cache = CountCache()
        self._domains = DomainCache(nodes)
        self.selections = Selections(table, self.labels, self._cache)
        self.affinity = AffinityIndex()
        self._refusals = NeighbourRefusals(self.affinity, self._domains.get, self.carried_together)
        self._selected: dict[Selector, frozenset[str]] = {}

    # Told by the state

    def placed(self, row: int, pod: Pod, slot: int) -> None:
        """A pod took a node, and a row in the table."""
        if self.labels.kept:
            self.labels.set(row, pod)
        if self.selections.watched:
            self.selections.add(pod, slot, 1, ending=pod.terminating)
        if carries_terms(pod):
            self.affinity.add(pod, row, slot)

    def removed(self, row: int, pod: Pod, slot: int) -> None:
        """A pod left its node. Its row must not be alive any more."""
        if self.selections.watched:
            self.selections.add(pod, slot, -1, ending=bool(self._table.ending[row]))
        if carries_terms(pod):
            self.affinity.remove(row, slot)

    def swapped(self, row: int, old: Pod, pod: Pod, slot: int, *, ended: bool) -> None:
        """A placed pod has a newer form; `ended`: it was terminating, or to be evicted."""
        if old.labels != pod.labels:
            if self.labels.kept:
                self.labels.set(row, pod)
            self.selections.add(old, slot, -1, ending=ended)
            self.selections.add(pod, slot, 1, ending=ended or pod.terminating)
        elif pod.terminating and not ended:
            self.selections.ends(pod, slot, -1)
        if old.pod_affinity != pod.pod_affinity or old.pod_anti_affinity != pod.pod_anti_affinity:
            self.affinity.remove(row, slot)
            if carries_terms(pod):
                self.affinity.add(pod, row, slot)

    def ends(self, pod: Pod, slot: int, times: int) -> None:
        """A pod is to be evicted (-1), or is not any more (1)."""
        if self.selections.watched:
            self.selections.ends(pod, slot, times)

    def namespaces_changed(self) -> None:
        """A namespace came, went or has other labels."""
        self._selected.clear()
        self.affinity.namespaces_changed()

    # Asked by plugins

    def domains(
        self, key: str, rule: Hashable = None, eligible: Callable[[], NDArray[np.bool_]] | None = None
    ) -> Domains:
        """Domains of a topology key; see `DomainCache.get`."""
        return self._domains.get(key, rule, eligible)

    def selected(self, selection: Selection, domains: Domains) -> Int32:
        """int32 [V + 1], read-only: placed pods of a selection per domain."""
        return self.selections.sums(selection, domains)

    def carried(self, group: TermGroup) -> Int32:
        """int32 [V + 1], read-only: carriers of a term per domain of its topology key."""
        return self._cache.sums(group, self._domains.get(group.term.topology_key))

    def carried_together(self, terms: TermsAbout, weights: Int64 | None = None) -> dict[str, Int64]:
        """int64 [V + 1] per topology key: carriers of terms per domain, each times the weight of its term
        (int64 [K], None: 1).

        Of few terms the counts are kept current. Many are counted at once: thousands cost no count each.
        """
        found: dict[str, Int64] = {}
        weights = np.ones(len(terms), dtype=np.int64) if weights is None else weights
        if len(terms) > FEW_TERMS:
            for key, places, times in self.affinity.carriers(terms, weights):
                slots = self.affinity.table.slot[places]
                found[key] = sums_at(slots, times, self._domains.get(key)).astype(np.int64)
            return found
        for group, weight in zip(terms, weights, strict=True):
            key = group.term.topology_key
            sums: Int64 = self.carried(group) * weight
            found[key] = found[key] + sums if key in found else sums
        return found

    @property
    def have_terms(self) -> bool:
        """Whether any placed pod carries a term."""
        return self.affinity.carried > 0

    def terms_about(self, pod: Pod) -> TermsAbout:
        """Terms of placed pods that select a pod."""
        return self.affinity.matching(pod, self._namespace_labels(pod))

    def refusals_of(self, pod: Pod) -> dict[str, tuple[Domains, Bool]]:
        """By topology key the domains with a pod whose required anti-affinity selects a pod, bool [V + 1]."""
        return self._refusals.of(pod, self._namespace_labels(pod))

    def carriers(self, terms: TermsAbout) -> Iterator[tuple[str, Int64]]:
        """(topology key, rows of placed pods int64 [K]) per key: a row as often as its pod has such terms."""
        for key, places, _ in self.affinity.carriers(terms, np.ones(len(terms), dtype=np.int64)):
            yield key, self.affinity.table.pod[places]

    def term_selects(self, term: TermKey, pod: Pod) -> bool:
        """Whether a term selects a pod."""
        return term.matches(pod, self._namespace_labels(pod))

    def _namespace_labels(self, pod: Pod) -> Mapping[str, str]:
        namespace = self._namespaces.get(pod.namespace)
        return namespace.labels if namespace is not None else _NO_LABELS

    def namespaces_with(self, selector: Selector) -> frozenset[str]:
        """Names of the known namespaces whose labels a selector matches."""
        found = self._selected.get(selector)
        if found is None:
            items = self._namespaces.values()
            found = frozenset(item.name for item in items if selector.matches(item.labels))
            self._selected[selector] = found
            if len(self._selected) > _MOST_SELECTORS:
                del self._selected[next(iter(self._selected))]
        return found

    def check(self, placed: Iterable[tuple[Pod, int]]) -> list[str]:
        """Broken invariants in words, given every placed pod with its slot."""
        self.selections.catch_up()
        return [*self.labels.check(), *self.affinity.check(placed), *self._cache.check()]
