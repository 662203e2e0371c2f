"""Pools of storage by class, and the largest volume that each value of a node label gives access to."""

from __future__ import annotations

from collections.abc import Iterator
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
    by their labels. The others (`odd`) are kept as they are.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._pools: dict[str, CSIStorageCapacity] = {}
        self._by_label: dict[str, dict[str, _LabelPools]] = {}
        self._odd: dict[str, dict[str, CSIStorageCapacity]] = {}

    def put(self, pool: CSIStorageCapacity) -> None:
        """Add or replace a pool."""
        self.remove(pool.key)
        self._pools[pool.key] = pool
        only = _one_label(pool.topology)
        if only is not None:
            values = self._by_label.setdefault(pool.storage_class, {})
            if only.key not in values:
                values[only.key] = _LabelPools()
            number = self._nodes.own_column(only.key).values.id(only.values[0])
            values[only.key].put(number, pool)
        elif pool.topology is not None and not pool.topology.nothing:
            self._odd.setdefault(pool.storage_class, {})[pool.key] = pool

    def remove(self, key: str) -> None:
        """Forget a pool by its `namespace/name`."""
        pool = self._pools.pop(key, None)
        if pool is None:
            return
        only = _one_label(pool.topology)
        if only is None:
            self._odd.get(pool.storage_class, {}).pop(key, None)
        else:
            number = self._nodes.own_column(only.key).values.id(only.values[0])
            self._by_label[pool.storage_class][only.key].remove(number, key)

    def by_label(self, storage_class: str) -> Iterator[tuple[str, _LabelPools]]:
        """The labels that pools of a class name, each with its pools by value."""
        yield from self._by_label.get(storage_class, {}).items()

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


def _one_label(topology: Selector | None) -> Requirement | None:
    """The only requirement of a topology, if it is `one label In [one value]`."""
    if topology is None or topology.nothing or len(topology.requirements) != 1:
        return None
    only = topology.requirements[0]
    return only if only.operator == IN and len(only.values) == 1 else None
