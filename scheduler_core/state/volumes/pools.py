"""Pools of storage by class, and the largest volume that each value of a node label gives access to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int32, Int64
from scheduler_core.model.selectors import IN, Requirement, Selector
from scheduler_core.model.storage_pools import NO_SIZE, CSIStorageCapacity
from scheduler_core.state.nodes.table import NodeTable

_FIRST_VALUES: Final = 8


class Space(NamedTuple):
    """Bytes, int64 [M] (or [1] for all nodes): the largest volume, and what is free; NO_SIZE for none.

    The best pool is the one that can make the largest volume.
    """

    largest: Int64
    capacity: Int64


class StoragePools:
    """The CSIStorageCapacity objects of each storage class.

    Most name one label with one value (a node, a zone): these are kept by value, so that nodes are looked up
    by their labels. Others name several such labels: these are kept as columns. The rest (`odd`) are few.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._pools: dict[str, CSIStorageCapacity] = {}
        self._by_label: dict[str, dict[str, _LabelPools]] = {}
        self._by_labels: dict[str, dict[tuple[str, ...], _JoinedPools]] = {}
        self._odd: dict[str, dict[str, CSIStorageCapacity]] = {}

    def put(self, pool: CSIStorageCapacity) -> None:
        """Add or replace a pool."""
        self.remove(pool.key)
        self._pools[pool.key] = pool
        labels = _labels(pool.topology)
        if len(labels) == 1:
            self._of_label(pool, *labels).put(self._ids(labels)[0], pool)
        elif labels:
            self._of_labels(pool, tuple(labels)).put(self._ids(labels), pool)
        elif pool.topology is not None and not pool.topology.nothing:
            self._odd.setdefault(pool.storage_class, {})[pool.key] = pool

    def remove(self, key: str) -> None:
        """Forget a pool by its `namespace/name`."""
        pool = self._pools.pop(key, None)
        if pool is None:
            return
        labels = _labels(pool.topology)
        if len(labels) == 1:
            self._of_label(pool, *labels).remove(self._ids(labels)[0], key)
        elif labels:
            self._of_labels(pool, tuple(labels)).remove(key)
        else:
            self._odd.get(pool.storage_class, {}).pop(key, None)

    def _of_label(self, pool: CSIStorageCapacity, label: str) -> _LabelPools:
        return self._by_label.setdefault(pool.storage_class, {}).setdefault(label, _LabelPools())

    def _of_labels(self, pool: CSIStorageCapacity, labels: tuple[str, ...]) -> _JoinedPools:
        return self._by_labels.setdefault(pool.storage_class, {}).setdefault(labels, _JoinedPools(labels))

    def _ids(self, labels: Mapping[str, str]) -> list[int]:
        return [self._nodes.own_column(key).values.id(value) for key, value in labels.items()]

    def by_label(self, storage_class: str) -> Iterator[tuple[str, _LabelPools]]:
        """The labels that pools of a class name, each with its pools by value."""
        yield from self._by_label.get(storage_class, {}).items()

    def by_labels(self, storage_class: str) -> Iterator[tuple[tuple[str, ...], _JoinedPools]]:
        """The same for pools that name several labels."""
        yield from self._by_labels.get(storage_class, {}).items()

    def odd(self, storage_class: str) -> Iterator[tuple[Selector, Space]]:
        """The other pools of a class that nodes can reach, each with its sizes."""
        for pool in self._odd.get(storage_class, {}).values():
            if pool.topology is not None:
                sizes = np.array([[pool.largest], [pool.capacity]], dtype=np.int64)  # [2, 1]
                yield pool.topology, Space(sizes[0], sizes[1])


class _LabelPools:
    """The pools that one label leads to: sizes int64 [values + spare], of which the last stays NO_SIZE."""

    def __init__(self) -> None:
        self._pools: dict[int, dict[str, CSIStorageCapacity]] = {}
        self._largest: Int64 = np.full(_FIRST_VALUES, NO_SIZE, dtype=np.int64)
        self._capacity: Int64 = np.full(_FIRST_VALUES, NO_SIZE, dtype=np.int64)

    def put(self, value: int, pool: CSIStorageCapacity) -> None:
        """Add a pool for the number of a value."""
        self._pools.setdefault(value, {})[pool.key] = pool
        if value >= len(self._largest) - 1:
            self._grow(2 * (value + 1))
        self._set(value)

    def remove(self, value: int, key: str) -> None:
        """Forget a pool."""
        self._pools[value].pop(key, None)
        self._set(value)
        if not self._pools[value]:
            del self._pools[value]

    def _set(self, value: int) -> None:
        pools = self._pools[value].values()
        best = max(((pool.largest, pool.capacity) for pool in pools), default=(NO_SIZE, NO_SIZE))
        self._largest[value], self._capacity[value] = best

    def _grow(self, size: int) -> None:
        more = np.full(size - len(self._largest), NO_SIZE, dtype=np.int64)
        self._largest = np.concatenate([self._largest, more])
        self._capacity = np.concatenate([self._capacity, more])

    def of(self, values: Int32) -> Space:
        """The sizes for numbers of values, int32 [M]; ABSENT, and numbers without a pool, read the last."""
        places = np.where(values < len(self._largest), values, -1)
        return Space(self._largest[places], self._capacity[places])


class _JoinedPools:
    """The pools that several labels lead to together: columns of value numbers and sizes, a row for each.

    Rows without a pool have NO_SIZE.
    """

    def __init__(self, labels: tuple[str, ...]) -> None:
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._ids: Int64 = np.zeros((len(labels), 0), dtype=np.int64)  # [K, P]
        self._sizes: Int64 = np.zeros((len(Space._fields), 0), dtype=np.int64)  # [2, P]

    def put(self, ids: Sequence[int], pool: CSIStorageCapacity) -> None:
        """Add a pool for the numbers of its values, one per label."""
        if not self._free:
            self._grow()
        row = self._rows[pool.key] = self._free.pop()
        self._ids[:, row] = ids
        self._sizes[:, row] = pool.largest, pool.capacity

    def remove(self, key: str) -> None:
        """Forget a pool."""
        row = self._rows.pop(key)
        self._sizes[:, row] = NO_SIZE
        self._free.append(row)

    def _grow(self) -> None:
        have = self._sizes.shape[1]
        more = max(_FIRST_VALUES, have)
        self._free = list(range(have + more - 1, have - 1, -1))
        self._ids = np.pad(self._ids, ((0, 0), (0, more)))
        self._sizes = np.pad(self._sizes, ((0, 0), (0, more)), constant_values=NO_SIZE)

    def of(self, values: Sequence[Int32]) -> Space:
        """The sizes for numbers of values, int32 [M] per label."""
        pools = self._ids.shape[1]
        code: Int64 = np.zeros(pools + len(values[0]), dtype=np.int64)  # [P + M]
        for own, theirs in zip(self._ids, values, strict=True):
            both = np.concatenate([own, theirs])
            # Equal where all values so far are equal; less than P + M, so that nothing overflows.
            code = np.unique(code * (both.max(initial=0) + 2) + both + 1, return_inverse=True)[1]
        # Of several pools the last one counts: the best.
        order = np.lexsort(self._sizes[::-1])
        best: Int64 = np.full((len(self._sizes), len(code)), NO_SIZE, dtype=np.int64)
        best[:, code[:pools][order]] = self._sizes[:, order]
        return Space(*best[:, code[pools:]])


def _labels(topology: Selector | None) -> dict[str, str]:
    """Label keys and values of a topology that has no other requirements; empty for any other one."""
    if topology is None or topology.nothing:
        return {}
    named = {one.key: one.values[0] for one in topology.requirements if _is_one_value(one)}
    return dict(sorted(named.items())) if len(named) == len(topology.requirements) else {}


def _is_one_value(requirement: Requirement) -> bool:
    return requirement.operator == IN and len(requirement.values) == 1
