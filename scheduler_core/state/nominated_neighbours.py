"""Nominated pods as rules between pods see them: their hard spread constraints, and pods that rules count.

A constraint of a nominated pod is kept once per rule: equal pods share it. Numbers per topology domain are
kept current, so nobody goes through the nominated pods to know them.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int32, Int64
from scheduler_core.model.pods.affinity import SpreadConstraint, Toleration
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import NodeTerm
from scheduler_core.state.neighbours.domains import DomainCounts, Domains
from scheduler_core.state.neighbours.selections import Selection, counted
from scheduler_core.state.neighbours.selector_index import SelectorIndex
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.nomination import Nomination, NominationRights

# Selections that are counted at once; of more, those asked about first are dropped.
MOST_COUNTED: Final = 256


class SpreadRule(NamedTuple):
    """A hard constraint, and all else of a pod that decides which nodes it allows.

    `keys` are the topology keys of all hard constraints of the pod. `itself`: whether it counts the pod.
    """

    selection: Selection
    constraint: SpreadConstraint
    keys: tuple[str, ...]
    node_selector: tuple[tuple[str, str], ...]
    affinity: tuple[NodeTerm, ...] | None
    tolerations: tuple[Toleration, ...]
    scheduler: str
    itself: bool


def rules_of(pod: Pod) -> Iterator[SpreadRule]:
    """The hard constraints of a pod itself; defaults of its profile are left out."""
    hard = [constraint for constraint in pod.spread if constraint.hard]
    keys = tuple(constraint.topology_key for constraint in hard)
    for constraint in hard:
        yield SpreadRule(
            counted(pod, constraint),
            constraint,
            keys,
            pod.node_selector,
            pod.node_affinity.required,
            pod.tolerations,
            pod.scheduler_name,
            constraint.selector.matches(pod.labels),
        )


class NomineeKind(NamedTuple):
    """Nominated pods with equal rights towards others, and equal rules of their own."""

    rights: NominationRights
    rules: tuple[SpreadRule, ...]


class Nominees:
    """Nominated pods of one kind, by uid; `slots` has their number per node."""

    __slots__ = ("by_uid", "counts", "slots")

    def __init__(self) -> None:
        self.by_uid: dict[str, Nomination] = {}
        self.slots: dict[int, int] = {}
        self.counts: dict[Hashable, DomainCounts] = {}

    @property
    def sample(self) -> Pod:
        """Any of the pods."""
        return next(iter(self.by_uid.values())).pod

    def spots(self) -> tuple[Int64, Int64]:
        """Node slots of the pods, and how many wait for each."""
        size = len(self.slots)
        slots = np.fromiter(self.slots.keys(), dtype=np.int64, count=size)
        return slots, np.fromiter(self.slots.values(), dtype=np.int64, count=size)

    @property
    def values(self) -> int:
        """None of its own: the constraint has them."""
        return 0

    def unused(self) -> None:
        """Its counts go with it."""

    def sums(self, domains: Domains) -> Int32:
        """int32 [V + 1], read-only: pods per domain of their nodes."""
        found = self.counts.get(domains.key)
        if found is None or found.domains is not domains:
            found = self.counts[domains.key] = DomainCounts(self, domains)
        return found.sums

    def change(self, item: Nomination, slot: int | None, sign: int) -> None:
        """A pod was nominated (1), or is not any more (-1)."""
        if sign > 0:
            self.by_uid[item.pod.uid] = item
        else:
            del self.by_uid[item.pod.uid]
        if slot is None:
            return
        self.slots[slot] = self.slots.get(slot, 0) + sign
        if not self.slots[slot]:
            del self.slots[slot]
        for counts in self.counts.values():
            counts.add(slot, sign)


class NominatedNeighbours:
    """`rules`: hard spread constraints of nominated pods, with the pods by kind."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._layout = nodes.layout
        self.rules: dict[SpreadRule, dict[NomineeKind, Nominees]] = {}
        self._by_label: SelectorIndex[SpreadRule] = SelectorIndex()
        self._counted: dict[Selection, dict[NomineeKind, Nominees]] = {}
        self._counting: SelectorIndex[Selection] = SelectorIndex()

    def change(self, item: Nomination, sign: int) -> None:
        """A nomination counts (1), or does not any more (-1)."""
        self.follow_nodes()
        slot, kind = self._nodes.slot(item.node), _kind_of(item)
        for rule in kind.rules:
            if rule not in self.rules:
                self.rules[rule] = {}
                self._by_label.add(rule, rule.selection.selector)
            _change(self.rules[rule], kind, item, slot, sign)
            if not self.rules[rule]:
                del self.rules[rule]
                self._by_label.remove(rule)
        for selection in self._counting.candidates(item.pod.labels) if self._counted else ():
            if selection.takes(item.pod):
                _change(self._counted[selection], kind, item, slot, sign)

    def about(self, pod: Pod) -> list[SpreadRule]:
        """The rules that count a pod."""
        if not self.rules:
            return []
        self.follow_nodes()
        return [rule for rule in self._by_label.candidates(pod.labels) if rule.selection.takes(pod)]

    def counted(
        self, selection: Selection, nominated: Iterable[Nomination]
    ) -> Mapping[NomineeKind, Nominees]:
        """The nominated pods of a selection by kind; `nominated` are all of them."""
        self.follow_nodes()
        found = self._counted.get(selection)
        if found is None:
            if len(self._counted) >= MOST_COUNTED:
                oldest = next(iter(self._counted))
                del self._counted[oldest]
                self._counting.remove(oldest)
            found = self._counted[selection] = {}
            self._counting.add(selection, selection.selector)
            for item in nominated:
                if selection.takes(item.pod):
                    _change(found, _kind_of(item), item, self._nodes.slot(item.node), 1)
        return found

    def follow_nodes(self) -> None:
        """Find the nodes anew after some came or went: these may have the slots of others."""
        if self._layout == self._nodes.layout:
            return
        self._layout = self._nodes.layout
        for kept in (self.rules, self._counted):
            for by_kind in kept.values():
                for nominees in by_kind.values():
                    items = list(nominees.by_uid.values())
                    nominees.slots, nominees.counts = {}, {}
                    for item in items:
                        nominees.change(item, self._nodes.slot(item.node), 1)

    def check(self, nominated: Iterable[Nomination]) -> list[str]:
        """Broken invariants in words: all that is kept follows from the nominations that count."""
        fresh = NominatedNeighbours(self._nodes)
        items = list(nominated)
        for item in items:
            fresh.change(item, 1)
        for selection in self._counted:
            fresh.counted(selection, items)
        self.follow_nodes()
        mine, theirs = self._slots(), fresh._slots()
        return [f"nominated pods by rule: {mine}, nominations say {theirs}"] if mine != theirs else []

    def _slots(self) -> dict[Hashable, dict[NomineeKind, dict[int, int]]]:
        """The nodes of all pods, as they are counted."""
        every = [*self.rules.items(), *self._counted.items()]
        return {key: {kind: some.slots for kind, some in found.items()} for key, found in every}


def _kind_of(item: Nomination) -> NomineeKind:
    rules = tuple(dict.fromkeys(rules_of(item.pod))) if item.pod.spread else ()
    return NomineeKind(item.rights, rules)


def _change(
    by_kind: dict[NomineeKind, Nominees], kind: NomineeKind, item: Nomination, slot: int | None, sign: int
) -> None:
    nominees = by_kind.setdefault(kind, Nominees())
    nominees.change(item, slot, sign)
    if not nominees.by_uid:
        del by_kind[kind]
