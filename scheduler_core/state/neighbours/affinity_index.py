"""Placed pods with (anti-)affinity terms, grouped by term, with their node slots."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.model.names import LABEL_HOSTNAME
from scheduler_core.model.pods.affinity import PodTerm
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import Selector, selector_size
from scheduler_core.state.neighbours.domains import DomainCounts
from scheduler_core.state.neighbours.selector_index import NamespacedIndex


class Role(Enum):
    """The effect of a placed pod's term on a pod that it selects."""

    REPELS = "required anti-affinity"
    REQUIRES = "required affinity"
    PREFERS = "preferred affinity or anti-affinity"


class TermKey(NamedTuple):
    """A term as its carrier means it; the weight is negative for preferred anti-affinity, else 0 if required.

    `namespaces` has the carrier's own one where the term names none.
    """

    role: Role
    weight: int
    topology_key: str
    namespaces: tuple[str, ...]
    namespace_selector: Selector | None
    selector: Selector

    @property
    def only_in(self) -> tuple[str, ...] | None:
        """The namespaces whose pods it may select; None where that depends on the labels of namespaces."""
        return self.namespaces if self.namespace_selector is None else None

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the term selects a pod in a namespace with these labels."""
        if pod.namespace not in self.namespaces and (
            self.namespace_selector is None or not self.namespace_selector.matches(namespace_labels)
        ):
            return False
        return self.selector.matches(pod.labels)


def _key(role: Role, pod: Pod, term: PodTerm, weight: int) -> TermKey:
    own = not term.namespaces and term.namespace_selector is None
    namespaces = (pod.namespace,) if own else term.namespaces
    return TermKey(role, weight, term.topology_key, namespaces, term.namespace_selector, term.selector)


def carries_terms(pod: Pod) -> bool:
    """Whether a pod has any term of affinity or anti-affinity."""
    wants, avoids = pod.pod_affinity, pod.pod_anti_affinity
    return bool(wants.required or avoids.required or wants.preferred or avoids.preferred)


def terms_of(pod: Pod) -> Iterator[TermKey]:
    """Every term that a pod carries. One that selects no pod at all is left out."""
    wants, avoids = pod.pod_affinity, pod.pod_anti_affinity
    carried = (
        (Role.REPELS, 0, avoids.required),
        (Role.REQUIRES, 0, wants.required),
        (Role.PREFERS, 1, wants.preferred),
        (Role.PREFERS, -1, avoids.preferred),
    )
    for role, sign, terms in carried:
        for term in terms:
            if not term.selector.nothing:
                yield _key(role, pod, term, sign * term.weight)


def wide_repelling(pod: Pod) -> list[TermKey]:
    """Required anti-affinity terms of a pod whose domains are wider than a node."""
    if not pod.pod_anti_affinity.required:
        return []
    return [
        term for term in terms_of(pod) if term.role is Role.REPELS and term.topology_key != LABEL_HOSTNAME
    ]


class TermGroup:
    """Placed pods that carry the same term. `slots` counts the carriers per node slot."""

    __slots__ = ("counts", "home", "slots", "term", "values")

    def __init__(self, home: AffinityIndex, term: TermKey) -> None:
        self.home = home
        self.term = term
        self.slots: dict[int, int] = {}
        self.counts: dict[Hashable, DomainCounts] = {}
        self.values = selector_size(term.selector) + len(term.namespaces)
        if term.namespace_selector is not None:
            self.values += selector_size(term.namespace_selector)

    def spots(self) -> tuple[Int64, Int64]:
        """Slots and carriers on each."""
        size = len(self.slots)
        slots = np.fromiter(self.slots.keys(), dtype=np.int64, count=size)
        return slots, np.fromiter(self.slots.values(), dtype=np.int64, count=size)

    def unused(self) -> None:
        """Called when the last cached counts of the group are dropped."""
        self.home.tidy(self)


class AffinityIndex:
    """Term groups of all placed pods, found by the labels of a pod that they may concern."""

    def __init__(self) -> None:
        self.groups: dict[TermKey, TermGroup] = {}
        # How many of them some placed pod carries.
        self.carried = 0
        self._index: NamespacedIndex[TermGroup] = NamespacedIndex()

    def add(self, pod: Pod, slot: int, times: int) -> None:
        """A pod came to a node (1) or left it (-1)."""
        for term in terms_of(pod):
            group = self.groups.get(term)
            if group is None:
                group = self.groups[term] = TermGroup(self, term)
                self._index.add(group, term.only_in, term.selector)
            carriers = group.slots.get(slot, 0) + times
            self.carried -= bool(group.slots)
            if carriers:
                group.slots[slot] = carriers
            else:
                del group.slots[slot]
            self.carried += bool(group.slots)
            for counts in group.counts.values():
                counts.add(slot, times)
            self.tidy(group)

    def tidy(self, group: TermGroup) -> None:
        """Drop a group without carriers. A group with counts is kept: carriers often return."""
        if not group.slots and not group.counts:
            del self.groups[group.term]
            self._index.remove(group)

    def matching(self, pod: Pod, namespace_labels: Mapping[str, str]) -> list[TermGroup]:
        """Groups whose term selects a pod; `namespace_labels` are the labels of its namespace."""
        if not self.carried:
            return []
        return [
            group
            for group in self._index.candidates(pod.namespace, pod.labels)
            if group.slots and group.term.matches(pod, namespace_labels)
        ]

    def check(self, placed: Iterable[tuple[Pod, int]]) -> list[str]:
        """Broken invariants in words: the groups are those of the placed pods (with their slots)."""
        expected: dict[TermKey, dict[int, int]] = {}
        for pod, slot in placed:
            for term in terms_of(pod):
                slots = expected.setdefault(term, {})
                slots[slot] = slots.get(slot, 0) + 1
        held = {term: group.slots for term, group in self.groups.items() if group.slots}
        different = [term for term in expected | held if expected.get(term) != held.get(term)]
        return [
            f"{term.role.value} term by {term.topology_key}: index has {held.get(term, {})}, "
            f"pods say {expected.get(term, {})}"
            for term in different
        ]
