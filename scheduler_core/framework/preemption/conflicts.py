"""Conflicts with pods on other nodes: anti-affinity (of either pod) and topology spread that refuse a node.

A conflict reaches as far as the domain of its topology key. A node of the domain fits once the conflicting
pods of the whole domain are gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.pod_terms import selected_by
from scheduler_core.framework.preemption.demand import Rows, selected
from scheduler_core.framework.spread import constraints_of
from scheduler_core.model.names import LABEL_ZONE
from scheduler_core.model.pods.affinity import SpreadConstraint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import NOTHING
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.neighbours.domains import Domains
from scheduler_core.state.neighbours.selections import Selection, counted

# Most nodes to try, and most of them in the same domains.
MOST_NODES: Final = 16
PER_DOMAIN: Final = 4
# Most pods of a domain to consider as victims, the least important first.
MOST_PODS: Final = 256


class _Conflict(NamedTuple):
    """A conflict: pods in the domains of a topology key that refuse the pod.

    `times` int64 [rows]: for how many reasons each pod that may go refuses it. `total` int64 [V + 1] has the
    reasons of all pods per domain; with `all_go` none of them may stay.
    """

    domains: Domains
    times: Int64
    total: Int64
    all_go: bool


class Conflicts:
    """The conflicts of a pod; `eligible` bool [rows] marks the pods that may be victims."""

    def __init__(self, state: ClusterState, pod: Pod, eligible: Bool) -> None:
        self._state = state
        self._pod = pod
        self._eligible = eligible
        self._leaving: Bool = state.table.leaving[: len(eligible)] & state.table.alive[: len(eligible)]

    @cached_property
    def _all(self) -> list[_Conflict]:
        return [*self._own(), *self._of_others(), *self._spread()]

    def _own(self) -> Iterator[_Conflict]:
        for term in self._pod.pod_anti_affinity.required:
            selection = selected_by(self._state, self._pod, term)
            yield self._selected(selection, term.topology_key, all_go=True)

    def _of_others(self) -> Iterator[_Conflict]:
        """One for each topology key of all terms, of which there may be thousands."""
        neighbours, rows = self._state.neighbours, len(self._eligible)
        may_go = self._eligible | self._leaving
        terms = neighbours.terms_about(self._pod).repelling()
        totals = neighbours.carried_together(terms)
        for key, carriers in neighbours.carriers(terms):
            times = np.bincount(carriers, minlength=rows)[:rows]
            yield _Conflict(neighbours.domains(key), np.where(may_go, times, 0), totals[key], True)

    def _spread(self) -> Iterator[_Conflict]:
        """Hard constraints. Defaults of a profile are unknown here; spread over zones replaces them."""
        by_zone = SpreadConstraint(max_skew=1, topology_key=LABEL_ZONE, hard=True, selector=NOTHING)
        for constraint in constraints_of(self._pod, (by_zone,), hard=True):
            yield self._selected(counted(self._pod, constraint), constraint.topology_key, all_go=False)

    def _selected(self, selection: Selection, key: str, *, all_go: bool) -> _Conflict:
        domains = self._state.neighbours.domains(key)
        total = self._state.neighbours.selected(selection, domains).astype(np.int64)
        pods = selected(self._state, self._eligible | self._leaving, selection)
        return _Conflict(domains, pods.astype(np.int64), total, all_go)

    def nodes(self, refused: Bool, lacks: Bool) -> Iterator[int]:
        """Slots of a few refused nodes (bool [N]) that evictions could open, those with the fewest first.

        Nodes that lack no resources come before nodes that do (`lacks` bool [N]).
        """
        names, price = self._state.nodes.name_ranks(), self._price
        slots = np.flatnonzero(refused & self._may_open & (price > 0))
        tried: Counter[tuple[int, ...]] = Counter()
        for slot in slots[np.lexsort((names[slots], lacks[slots], price[slots]))].tolist():
            domain = tuple(int(item.domains.raw[slot]) for item in self._all)
            if tried[domain] < PER_DOMAIN:
                tried[domain] += 1
                yield slot
            if tried.total() >= MOST_NODES:
                return

    def nodes_to_clear(self, refused: Bool) -> list[int]:
        """Slots of a few refused nodes (bool [N]) with eligible pods, those with the fewest first."""
        here: Int64 = np.zeros(len(refused), dtype=np.int64)  # [N]
        np.add.at(here, self._state.table.slot[np.flatnonzero(self._eligible)], 1)
        slots = np.flatnonzero(refused & self._may_open & (here > 0))
        order = np.lexsort((self._state.nodes.name_ranks()[slots], here[slots], self._price[slots]))
        found: list[int] = slots[order][:MOST_NODES].tolist()
        return found

    @cached_property
    def _may_open(self) -> Bool:
        """bool [N]: nodes whose conflicts are all with pods that may be evicted or are leaving."""
        size = self._state.nodes.size
        open_: Bool = np.ones(size, dtype=np.bool_)
        for item in self._all:
            if item.all_go:
                there, total = self._per_domain(item)
                open_ &= (there >= total)[item.domains.raw[:size]]
        return open_

    @cached_property
    def _price(self) -> Int64:
        """int64 [N]: how many eligible or leaving pods conflict with a node."""
        size = self._state.nodes.size
        price: Int64 = np.zeros(size, dtype=np.int64)
        for item in self._all:
            price += self._per_domain(item)[0][item.domains.raw[:size]]
        return price

    def _per_domain(self, item: _Conflict) -> tuple[Int64, Int64]:
        """(eligible or leaving pods, all pods) per domain, int64 [V + 1] each; 0 outside of the domains."""
        total = item.total.copy()
        there: Int64 = np.zeros(len(total), dtype=np.int64)
        rows = np.flatnonzero(item.times)
        np.add.at(there, item.domains.raw[self._state.table.slot[rows]], item.times[rows])
        there[-1] = total[-1] = 0
        return there, total

    def _near(self, slot: int) -> Bool:
        """bool [rows]: pods that conflict with a node."""
        table, size = self._state.table, len(self._eligible)
        out: Bool = np.zeros(size, dtype=np.bool_)
        for item in self._all:
            domain = item.domains.raw[slot]
            if domain >= 0:
                out |= (item.times > 0) & (item.domains.raw[table.slot[:size]] == domain)
        return out

    def rows(self, slot: int, *, whole_node: bool) -> Rows:
        """Eligible pods that conflict with a node; with `whole_node` also all eligible pods on it."""
        table, size = self._state.table, len(self._eligible)
        wanted = self._near(slot) & self._eligible
        if whole_node:
            wanted |= self._eligible & (table.slot[:size] == slot)
        return table.removal_order(wanted)[:MOST_PODS]

    def leaving(self, slot: int) -> list[str]:
        """Uids of leaving pods that conflict with a node."""
        rows = np.flatnonzero(self._near(slot) & self._leaving)
        return [pod.uid for pod in self._state.table.of(rows)]
