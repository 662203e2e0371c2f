"""Free space for volumes that are still to be made, and scores by how full storage would be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.allocation import Points, ResourceScoring
from scheduler_core.framework.matching import match_term
from scheduler_core.framework.view import NodeView
from scheduler_core.framework.volumes.matching import NONE
from scheduler_core.model.selectors import NodeTerm, Selector
from scheduler_core.model.storage import PersistentVolumeClaim, StorageClass
from scheduler_core.model.storage_pools import NO_SIZE
from scheduler_core.state.volumes.pools import Space
from scheduler_core.state.volumes.storage import Storage

# Sizes above this many bytes count as this many, so that a hundred times a sum is still an int64.
_MOST: Final = 2**55


def is_limited(storage: Storage, made_by: StorageClass) -> bool:
    """Whether the driver of a class reports its pools: a volume then needs one that is large enough."""
    driver = storage.drivers.get(made_by.provisioner)
    return driver is not None and driver.reports_capacity


def space_for(storage: Storage, nodes: NodeView, storage_class: str) -> Space:
    """Largest volume and free space of a class on each node, int64 [M] bytes; NO_SIZE without a pool."""
    best = Space(*(np.full(len(nodes), NO_SIZE, dtype=np.int64) for _ in Space._fields))
    for key, pools in storage.pools.by_label(storage_class):
        best = _larger(best, pools.of(nodes.label(key)))
    for keys, joined in storage.pools.by_labels(storage_class):
        best = _larger(best, joined.of([nodes.label(key) for key in keys]))
    for topology, space in storage.pools.odd(storage_class):
        reached = _reached(nodes, topology)
        best = _larger(best, Space(*(np.where(reached, size, NO_SIZE) for size in space)))
    return best


def _larger(one: Space, other: Space) -> Space:
    takes = other.largest > one.largest
    return Space(*(np.where(takes, new, old) for old, new in zip(one, other, strict=True)))


def _reached(nodes: NodeView, topology: Selector) -> Bool:
    if not topology.requirements:
        return np.ones(len(nodes), dtype=np.bool_)
    return match_term(nodes, NodeTerm(topology.requirements))


class _Use:
    """What volumes of each class ask for and what there is: sums int64 [M] by class."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._sums: dict[str, tuple[Int64, Int64, Bool]] = {}

    def add(self, storage_class: str, mask: Bool, requested: int, capacity: Int64, *, shared: bool) -> None:
        """Count a claim on some nodes (bool [M]); `shared`: claims of the class have the same capacity."""
        zeros = np.zeros(self._size, dtype=np.int64)
        asked, there, counted = self._sums.get(storage_class, (zeros, zeros, np.zeros_like(mask)))
        asked = np.minimum(asked + np.where(mask, min(requested, _MOST), 0), _MOST)
        own = np.minimum(capacity, _MOST)
        there = np.where(mask, own, there) if shared else np.minimum(there + np.where(mask, own, 0), _MOST)
        self._sums[storage_class] = asked, there, counted | mask

    def score(self, points: Points) -> Int64:
        """int64 [M]: the mean over the classes that a node has, rounded; 0 where it has none."""
        total, classes = np.zeros(self._size, dtype=np.int64), np.zeros(self._size, dtype=np.int64)
        for asked, there, counted in self._sums.values():
            # What does not fit counts as full, and so does what has no size.
            whole = np.where(asked <= there, there, 0)
            some = whole > 0
            used = points(np.where(some, whole, 1), np.where(some, asked, 1))
            total += np.where(counted, used, 0)
            classes += counted
        return ResourceScoring(points, scored_only=True).mean(total, classes)


def score_space(
    storage: Storage,
    nodes: NodeView,
    waiting: Sequence[PersistentVolumeClaim],
    chosen: Int64,
    points: Points,
) -> Int64:
    """int64 [M] 0..100: how full volumes and pools would be, by class (KEP-4049).

    `chosen` int64 [claims, M] are rows of existing volumes. A node with any of these is scored by them alone,
    another one by the pools in which volumes would be made.
    """
    bound = chosen != NONE
    existing = bound.any(axis=0)
    use = _Use(len(nodes))
    for claim, rows, there in zip(waiting, chosen, bound, strict=True):
        capacity = storage.table.capacity[np.where(there, rows, 0)] if there.any() else np.zeros_like(rows)
        if there.any():
            use.add(claim.storage_class, there, claim.request, capacity, shared=False)
        made_by = storage.classes.get(claim.storage_class)
        made = ~existing
        if made_by is not None and made.any() and is_limited(storage, made_by):
            space = space_for(storage, nodes, claim.storage_class)
            pools = made & (space.largest >= claim.request)
            use.add(claim.storage_class, pools, claim.request, np.maximum(space.capacity, 0), shared=True)
    return use.score(points)
