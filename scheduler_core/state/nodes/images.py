"""Inverted index of images: the nodes that report each image."""

from __future__ import annotations

from array import array

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.state.nodes.table import NodeTable

Images = tuple[tuple[str, int], ...]


class ImageIndex:
    """Image name to slots and sizes in bytes. Follows the node table's change log when it is read."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._seen = 0
        self._of: dict[int, Images] = {}
        self._where: dict[str, tuple[array[int], array[int]]] = {}

    @property
    def version(self) -> int:
        """Changes whenever a node came, went, or may have changed what it has."""
        return self._nodes.static_changes.position

    def find(self, name: str) -> tuple[Int64, Int64]:
        """(slots, sizes) of the nodes that have an image, int64 each, in no order."""
        self._refresh()
        found = self._where.get(name)
        if found is None:
            empty: Int64 = np.zeros(0, dtype=np.int64)
            return empty, empty
        return np.array(found[0], dtype=np.int64), np.array(found[1], dtype=np.int64)

    def _refresh(self) -> None:
        log = self._nodes.static_changes
        if self._seen == log.position:
            return
        changed = log.since(self._seen)
        self._seen = log.position
        for slot in range(self._nodes.size) if changed is None else set(changed):
            node = self._nodes.nodes[slot]
            self._update(slot, node.images if node is not None else ())

    def _update(self, slot: int, images: Images) -> None:
        before = self._of.get(slot, ())
        if before == images:
            return
        old, new = dict(before), dict(images)
        for name in old:
            if old[name] != new.get(name):
                self._drop(name, slot)
        for name, size in new.items():
            if old.get(name) != size:
                where = self._where.get(name)
                if where is None:
                    where = self._where[name] = (array("l"), array("q"))
                where[0].append(slot)
                where[1].append(size)
        self._of[slot] = images

    def _drop(self, name: str, slot: int) -> None:
        slots, sizes = self._where[name]
        at = slots.index(slot)
        slots[at], sizes[at] = slots[-1], sizes[-1]
        slots.pop()
        sizes.pop()
        if not slots:
            del self._where[name]
