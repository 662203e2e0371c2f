"""Placed pods with (anti-)affinity terms, grouped by term, with their node slots."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.model.names import LABEL_HOSTNAME
from scheduler_core.model.pods.affinity import PodTerm
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.selectors import Selector, selector_size
from scheduler_core.state.neighbours.carrier_table import CarrierTable, SharedIds
from scheduler_core.state.neighbours.domains import DomainCounts
from scheduler_core.state.neighbours.selector_rows import SelectorRows

# A term about more namespaces is filed once, for all of them.
_MOST_NAMESPACES: Final = 16
# Terms without carriers that are kept: those of a few pods, whose evictions are tried one after the other.
_MOST_UNUSED: Final = 256
# Of such a term; of more, its places in the index take more memory than it saves time.
_FEW_VALUES: Final = 16
# What evictions of a few pods with 64 terms move, while they are tried.
_MOST_MOVES: Final = 1024
# Namespaces that are known to be in audiences or not; of more, all are looked up anew.
_MOST_MEMBERS: Final = 1024
_NO_ROWS: Final[Int64] = np.zeros(0, dtype=np.int64)


class Role(Enum):
    """The effect of a placed pod's term on a pod that it selects."""

    REPELS = "required anti-affinity"
    REQUIRES = "required affinity"
    PREFERS = "preferred affinity or anti-affinity"


_NUMBERS: Final = {role: number for number, role in enumerate(Role)}
_REPELS: Final = _NUMBERS[Role.REPELS]
_REQUIRES: Final = _NUMBERS[Role.REQUIRES]


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
    """Placed pods that carry the same term, which is row `row` of the table of carriers.

    `places` are rows of that table, too: one for each time that a pod carries the term.
    """

    __slots__ = ("counts", "home", "places", "row", "term", "values")

    def __init__(self, home: AffinityIndex, term: TermKey, row: int) -> None:
        self.home = home
        self.term = term
        self.row = row
        self.places: dict[int, None] = {}
        self.counts: dict[Hashable, DomainCounts] = {}
        self.values = selector_size(term.selector) + len(term.namespaces)
        if term.namespace_selector is not None:
            self.values += selector_size(term.namespace_selector)

    def spots(self) -> tuple[Int64, None]:
        """Node slots of the carriers."""
        rows = np.fromiter(self.places, dtype=np.int64, count=len(self.places))
        return self.home.table.slot[rows], None

    def unused(self) -> None:
        """Called when the last cached counts of the group are dropped."""
        self.home.tidy(self)


class TermsAbout:
    """Terms of placed pods that select a pod. `rows`: int64 [K], rows of the table of carriers."""

    __slots__ = ("_index", "rows")

    def __init__(self, index: AffinityIndex, rows: Int64) -> None:
        self._index = index
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[TermGroup]:
        return map(self._index.by_row.__getitem__, self.rows.tolist())

    def repelling(self) -> TermsAbout:
        """Those of required anti-affinity."""
        return self._where(self._index.table.role[self.rows] == _REPELS)

    def weighted(self, hard_weight: int) -> tuple[TermsAbout, Int64]:
        """The terms that have a say in scores, with their weights, int64 [K]: required affinity has this."""
        table = self._index.table
        roles = table.role[self.rows]
        weights = np.where(roles == _REQUIRES, hard_weight, table.weight[self.rows])
        some = (weights != 0) & (roles != _REPELS)
        return self._where(some), weights[some]

    def _where(self, some: Bool) -> TermsAbout:
        return self if some.all() else TermsAbout(self._index, self.rows[some])


class _Audience(NamedTuple):
    """The namespaces that a term is about: those with these names, and those whose labels are selected."""

    names: tuple[str, ...]
    selector: Selector | None

    def has(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether a namespace with these labels is one of them."""
        return namespace in self.names or (self.selector is not None and self.selector.matches(labels))


class AffinityIndex:
    """Term groups of all placed pods, found by the labels of a pod that they may concern.

    Terms about few namespaces are filed under these, and cost pods of others nothing.
    """

    def __init__(self) -> None:
        self.groups: dict[TermKey, TermGroup] = {}
        self.by_row: dict[int, TermGroup] = {}
        self.table = CarrierTable()
        # How many of them some placed pod carries.
        self.carried = 0
        self._unused: dict[TermGroup, None] = {}
        # Grows when a term is filed or dropped, and when who is in an audience may have changed.
        self.version = 0
        self._moves: list[tuple[int, int, int]] = []
        self._past = 0
        # Of each pod, by its row.
        self._places: dict[int, list[int]] = {}
        self._near: dict[str, SelectorRows] = {}
        self._anywhere = SelectorRows()
        self._keys: SharedIds[str] = SharedIds()
        self._audiences: SharedIds[_Audience] = SharedIds()
        # By namespace: which audiences it is one of, bool [audiences].
        self._member: dict[str, Bool] = {}

    def add(self, pod: Pod, row: int, slot: int) -> None:
        """A pod with terms came to a node; `row` is its row in the table of placed pods."""
        places = self._places[row] = []
        self._forget_moves()
        for term in terms_of(pod):
            group = self.groups.get(term) or self._new_group(term)
            place = self.table.new_place(group.row, slot, row)
            places.append(place)
            self.carried += not group.places
            group.places[place] = None
            self._moves.append((group.row, slot, 1))
            for counts in group.counts.values():
                counts.add(slot, 1)

    @property
    def position(self) -> int:
        """How many times a pod took up or gave up a term."""
        return self._past + len(self._moves)

    def moves_since(self, position: int) -> Sequence[tuple[int, int, int]] | None:
        """(term, node slot, 1 or -1) of all later moves; None where they are too many to be kept."""
        return self._moves[position - self._past :] if position >= self._past else None

    def _forget_moves(self) -> None:
        if len(self._moves) > _MOST_MOVES:
            self._past += len(self._moves)
            self._moves = []

    def remove(self, row: int, slot: int) -> None:
        """The pod left its node, or is about to carry other terms."""
        self._forget_moves()
        for place in self._places.pop(row, ()):
            group = self.by_row[int(self.table.term[place])]
            self.table.drop_place(place)
            del group.places[place]
            self._moves.append((group.row, slot, -1))
            self.carried -= not group.places
            for counts in group.counts.values():
                counts.add(slot, -1)
            self.tidy(group)

    def _new_group(self, term: TermKey) -> TermGroup:
        audience = self._audiences.take(_Audience(term.namespaces, term.namespace_selector))
        key = self._keys.take(term.topology_key)
        row = self.table.new_term(_NUMBERS[term.role], term.weight, key, audience)
        group = self.groups[term] = self.by_row[row] = TermGroup(self, term, row)
        self.version += 1
        names = self._filed_under(term)
        if names is None:
            self._member.clear()
            self._anywhere.add(row, term.selector)
        for name in names or ():
            filed = self._near.get(name)
            if filed is None:
                filed = self._near[name] = SelectorRows()
            filed.add(row, term.selector)
        return group

    def _filed_under(self, term: TermKey) -> tuple[str, ...] | None:
        """The namespaces whose pods alone look at a term; None for all."""
        names = term.only_in
        if names is None or len(names) > _MOST_NAMESPACES:
            return None
        return names if len(names) == 1 else tuple(dict.fromkeys(names))

    def tidy(self, group: TermGroup) -> None:
        """Drop groups without carriers, beyond the last small ones: carriers often return, in trials at once.

        A group with counts is kept.
        """
        if group.places or group.counts:
            return
        if group.values > _FEW_VALUES:
            self._unused.pop(group, None)
            self._drop(group)
            return
        self._unused[group] = None
        while len(self._unused) > _MOST_UNUSED:
            oldest = next(iter(self._unused))
            del self._unused[oldest]
            if not (oldest.places or oldest.counts):
                self._drop(oldest)

    def _drop(self, group: TermGroup) -> None:
        self.version += 1
        term = group.term
        del self.groups[term]
        del self.by_row[group.row]
        names = self._filed_under(term)
        if names is None:
            self._anywhere.remove(group.row, term.selector)
        for name in names or ():
            filed = self._near[name]
            filed.remove(group.row, term.selector)
            if not len(filed):
                del self._near[name]
        self._keys.give(term.topology_key)
        self._audiences.give(_Audience(term.namespaces, term.namespace_selector))
        self.table.drop_term(group.row)

    def namespaces_changed(self) -> None:
        """A namespace came, went or has other labels."""
        self.version += 1
        self._member.clear()

    def matching(self, pod: Pod, namespace_labels: Mapping[str, str]) -> TermsAbout:
        """Terms that some pod carries, and that select a pod; `namespace_labels` are of its namespace."""
        filed = self.filed_about(pod, namespace_labels)
        some = self.table.places[filed.rows] > 0
        return filed if some.all() else TermsAbout(self, filed.rows[some])

    def filed_about(self, pod: Pod, namespace_labels: Mapping[str, str]) -> TermsAbout:
        """The same with terms that nobody carries just now: these do not change until `version` does."""
        found: list[Int64] = []
        near = self._near.get(pod.namespace)
        if self.carried and near is not None:
            found.append(near.matching(pod.labels))
        if self.carried and len(self._anywhere):
            rows = self._anywhere.matching(pod.labels)
            if len(rows):
                member = self._members(pod.namespace, namespace_labels)
                found.append(rows[member[self.table.audience[rows]]])
        if not found:
            return TermsAbout(self, _NO_ROWS)
        return TermsAbout(self, found[0] if len(found) == 1 else np.concatenate(found))

    def _members(self, namespace: str, labels: Mapping[str, str]) -> Bool:
        """bool [audiences]: of which audiences a namespace is one."""
        found = self._member.get(namespace)
        if found is None:
            if len(self._member) >= _MOST_MEMBERS:
                self._member.clear()
            every = self._audiences.values()
            found = np.array([item is not None and item.has(namespace, labels) for item in every])
            self._member[namespace] = found
        return found

    def carriers(self, terms: TermsAbout, weights: Int64) -> Iterator[tuple[str, Int64, Int64]]:
        """(topology key, places, weights) per key: where pods carry terms of these weights, each [K]."""
        keys, places, found = self.table.carriers(terms.rows, weights)
        names = self._keys.values()
        order = np.argsort(keys, kind="stable")
        numbers, starts = np.unique(keys[order], return_index=True)
        for number, some in zip(numbers.tolist(), np.split(order, starts[1:]), strict=False):
            name = names[number]
            if name is not None:
                yield name, places[some], found[some]

    def check(self, placed: Iterable[tuple[Pod, int]]) -> list[str]:
        """Broken invariants in words: the groups are those of the placed pods (with their slots)."""
        expected: dict[TermKey, dict[int, int]] = {}
        for pod, slot in placed:
            for term in terms_of(pod):
                slots = expected.setdefault(term, {})
                slots[slot] = slots.get(slot, 0) + 1
        held = {
            term: Counter(group.spots()[0].tolist()) for term, group in self.groups.items() if group.places
        }
        different = [term for term in expected | held if expected.get(term) != held.get(term)]
        return [
            f"{term.role.value} term by {term.topology_key}: index has {held.get(term, {})}, "
            f"pods say {expected.get(term, {})}"
            for term in different
        ]
