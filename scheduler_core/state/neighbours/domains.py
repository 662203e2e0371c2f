"""Topology domains: the value of a topology key per node slot, and counts per domain."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.intern import ABSENT
from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.state.nodes.table import NodeTable

# Every node is a domain of its own under this key; no label key is empty.
EACH_NODE: Final = ""
MAX_DOMAINS: Final = 256
# Sample nodes per domain for a first test, used where there are few domains.
_SAMPLES: Final = 8
_FEW_DOMAINS: Final = 64
# Of 4 bytes each.
_MAX_CELLS: Final = 8_000_000
# Beyond a few, each value of a selector with counts takes as much as so many cells: its text, and its place
# in the index. Pods that are created and deleted would leave many such selectors.
_FEW_VALUES: Final = 64
_CELLS_PER_VALUE: Final = 100
# Counts over few domains have few cells, and each is looked at when a pod comes or goes.
MAX_COUNTS: Final = 8192
# Shared by all keys that no node has: pods may name any number of keys without a domain.
_NOWHERE: Final = "\0"


class Domains:
    """The domains of one topology key over all node slots, as of one moment. Never changed, only replaced.

    `raw` (int64 [capacity]) has the domain of each slot, ABSENT without the key; `ids` the same, ABSENT also
    for nodes that are not eligible. `size` is the number V of domains; `occupied` lists those with an
    eligible node, and `samples` some such nodes of each. `labelled` (bool [capacity]) marks nodes with the
    key. Arrays per domain have V + 1 entries: ABSENT reads the last, which stays 0.
    """

    __slots__ = ("ids", "key", "labelled", "occupied", "position", "raw", "samples", "size")

    def __init__(self, key: Hashable, raw: Int64, ids: Int64, size: int, position: int) -> None:
        self.key = key
        self.raw = raw
        self.ids = ids
        self.size = size
        self.position = position
        self.labelled: Bool = raw >= 0  # [capacity]
        self.occupied, self.samples = _in_use(ids)  # [domains in use], [samples, domains in use]

    def lowest(self, sums: Int32) -> int:
        """The least of the sums (int32 [V + 1]) over the domains in use; there must be one."""
        if len(self.occupied) == self.size:
            return int(sums[: self.size].min())
        return int(sums[self.occupied].min())

    def among(self, nodes: Bool) -> int:
        """Number of domains that some of the chosen nodes (bool [N]) are in, of those in use."""
        if nodes[self.samples].any(axis=0).all():
            return len(self.occupied)
        return int(np.count_nonzero(np.bincount(self.ids[: len(nodes)][nodes & self.labelled[: len(nodes)]])))

    def same(self, other: Domains) -> bool:
        """Whether nothing changed but the moment."""
        return np.array_equal(self.raw, other.raw) and np.array_equal(self.ids, other.ids)


def _in_use(ids: Int64) -> tuple[Int64, Int64]:
    """Domains that occur, ascending, and slots of each: int64 [samples, domains], spread over its nodes."""
    order = np.argsort(ids, kind="stable")
    order = order[np.searchsorted(ids[order], 0) :]
    occupied, first, counts = np.unique(ids[order], return_index=True, return_counts=True)
    samples = _SAMPLES if len(occupied) <= _FEW_DOMAINS else 1
    steps = np.arange(samples)[:, None] * counts // samples  # [samples, domains]
    return occupied, order[first + steps]


class DomainCache:
    """Domains by topology key and eligibility rule, remade only when labels or taints really changed."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._held: OrderedDict[Hashable, Domains] = OrderedDict()

    def get(self, key: str, rule: Hashable = None, eligible: Callable[[], Bool] | None = None) -> Domains:
        """Domains of a topology key. `eligible` gives bool [N]; `rule` must say all it depends on."""
        if key != EACH_NODE and not self._nodes.has_label(key):
            key = _NOWHERE
        held = self._held.get((key, rule))
        position = self._nodes.static_changes.position
        if held is not None:
            self._held.move_to_end((key, rule))
            if held.position == position and len(held.raw) == len(self._nodes.alive):
                return held
        made = self._make(key, rule, eligible)
        if held is not None and held.same(made):
            held.position = position
            return held
        self._held[key, rule] = made
        if len(self._held) > MAX_DOMAINS:
            self._held.popitem(last=False)
        return made

    def _make(self, key: str, rule: Hashable, eligible: Callable[[], Bool] | None) -> Domains:
        nodes, position = self._nodes, self._nodes.static_changes.position
        if eligible is not None:
            every = self.get(key)
            ids = every.raw.copy()
            ids[: nodes.size][~eligible()] = ABSENT
            return Domains((key, rule), every.raw, ids, every.size, position)
        if key == EACH_NODE:
            raw, size = np.arange(len(nodes.alive), dtype=np.int64), len(nodes.alive)  # [capacity]
        else:
            column = nodes.column(key)
            raw, size = column.ids.astype(np.int64), len(column.values)  # [capacity]
        return Domains((key, rule), raw, raw, size, position)


class Counted(Protocol):
    """A set of placed pods whose numbers per domain are wanted."""

    counts: dict[Hashable, DomainCounts]

    @property
    def values(self) -> int:
        """How many values its selector has."""
        ...

    def spots(self) -> tuple[Int64, Int64 | None]:
        """Node slots int64 [K] of its pods, and how many each stands for (None: one)."""
        ...

    def unused(self) -> None:
        """Called when the last cached counts of the set are dropped."""
        ...


class DomainCounts:
    """The number of a set's pods in each domain: `sums`, int32 [V + 1]. `position` is the owner's."""

    __slots__ = ("domains", "owner", "position", "sums")

    def __init__(self, owner: Counted, domains: Domains) -> None:
        self.owner = owner
        self.domains = domains
        self.sums = fresh_sums(owner, domains)
        self.position = -1

    def renew(self) -> None:
        """Count anew."""
        self.sums = fresh_sums(self.owner, self.domains)

    def add(self, slot: int, times: int) -> None:
        """Pods of the set came to a node, or left it. A slot younger than the domains is in none of them."""
        ids = self.domains.ids
        if slot < len(ids):
            domain = ids[slot]
            if domain != ABSENT:
                self.sums[domain] += times


def fresh_sums(owner: Counted, domains: Domains) -> Int32:
    """int32 [V + 1], counted anew from where the pods are."""
    return sums_at(*owner.spots(), domains).astype(np.int32)


def sums_at(slots: Int64, times: Int64 | None, domains: Domains) -> NDArray[np.float64] | Int64:
    """[V + 1]: how often the domains of node slots occur, each slot as many times as given (None: once)."""
    if len(slots) and int(slots.max()) >= len(domains.ids):
        known = slots < len(domains.ids)
        slots, times = slots[known], None if times is None else times[known]
    ids = domains.ids[slots]
    inside = ids >= 0
    weights = None if times is None else times[inside]
    return np.bincount(ids[inside], weights, minlength=domains.size + 1)


def _cells(counts: DomainCounts) -> int:
    """What counts, and the selector that they keep, take of memory, in cells."""
    return len(counts.sums) + _CELLS_PER_VALUE * max(0, counts.owner.values - _FEW_VALUES)


class CountCache:
    """Cache of counts; the least recently used are dropped when there are too many cells."""

    def __init__(self, cells: int = _MAX_CELLS) -> None:
        self._limit = cells
        self._cells = 0
        self._recent: OrderedDict[DomainCounts, None] = OrderedDict()

    def sums(self, owner: Counted, domains: Domains) -> Int32:
        """int32 [V + 1], read-only: kept current while it is held."""
        found = owner.counts.get(domains.key)
        if found is not None:
            if found.domains is domains:
                self._recent.move_to_end(found)
                return found.sums
            self._forget(found)
        made = owner.counts[domains.key] = DomainCounts(owner, domains)
        self._recent[made] = None
        self._cells += _cells(made)
        while (self._cells > self._limit or len(self._recent) > MAX_COUNTS) and len(self._recent) > 1:
            oldest = next(iter(self._recent))
            self._forget(oldest)
            del oldest.owner.counts[oldest.domains.key]
            if not oldest.owner.counts:
                oldest.owner.unused()
        return made.sums

    def _forget(self, counts: DomainCounts) -> None:
        del self._recent[counts]
        self._cells -= _cells(counts)

    def check(self) -> list[str]:
        """Broken invariants in words: counts kept current equal counts made anew."""
        return [
            f"counts by {counts.domains.key} are {counts.sums}, pods say {fresh}"
            for counts in self._recent
            if not np.array_equal(fresh := fresh_sums(counts.owner, counts.domains), counts.sums)
        ]
