"""PersistentVolumes as columns, so that a claim is matched against all of them at once."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.growth import longer
from scheduler_core.arrays.intern import ABSENT, Interner
from scheduler_core.arrays.types import Int32, Int64
from scheduler_core.model.selectors import IN, NodeTerm
from scheduler_core.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler_core.state.nodes.table import NodeTable

Terms = tuple[NodeTerm, ...] | None

ANYWHERE: Final = 0
_FIRST_CAPACITY: Final = 64


class VolumeTable:
    """One row per volume; rows are reused. Arrays may be longer than `size`.

    `usable` marks volumes that may be matched to any claim. A volume whose node affinity is one label with
    one value (local disks, zones) has that label's number in `key` and the value's id of the label column in
    `value`; any other has ABSENT in `key` and its affinity's number in `group` (ANYWHERE for none).
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        capacity = _FIRST_CAPACITY
        self.capacity: Int64 = np.zeros(capacity, dtype=np.int64)  # [rows] bytes
        self.usable: NDArray[np.bool_] = np.zeros(capacity, dtype=np.bool_)  # [rows]
        self.kind: Int32 = np.full(capacity, ABSENT, dtype=np.int32)  # [rows] class, mode, attributes class
        self.modes: Int64 = np.zeros(capacity, dtype=np.int64)  # [rows] bits of access modes
        self.key: Int32 = np.full(capacity, ABSENT, dtype=np.int32)  # [rows]
        self.value: Int32 = np.full(capacity, ABSENT, dtype=np.int32)  # [rows]
        self.group: Int32 = np.zeros(capacity, dtype=np.int32)  # [rows]
        self.volumes: list[PersistentVolume | None] = []
        self.keys: Interner[str] = Interner()
        self.groups: Interner[Terms] = Interner()
        self.groups.id(None)
        self._kinds: Interner[tuple[str, str, str]] = Interner()
        self._modes: Interner[str] = Interner()
        self._rows: dict[str, int] = {}
        self._free: list[int] = []

    @property
    def size(self) -> int:
        """Number of rows that arrays must be read over."""
        return len(self.volumes)

    def row(self, name: str) -> int | None:
        """Row of a volume."""
        return self._rows.get(name)

    def put(self, volume: PersistentVolume, *, usable: bool) -> None:
        """Add or replace a volume."""
        row = self._rows.get(volume.name)
        if row is None:
            row = self._rows[volume.name] = self._new_row()
        self.volumes[row] = volume
        self.capacity[row] = volume.capacity
        self.usable[row] = usable
        kind = (volume.storage_class, volume.volume_mode, volume.attributes_class)
        self.kind[row] = self._kinds.id(kind)
        self.modes[row] = self._mode_bits(volume.modes)
        self._set_place(row, volume.terms)

    def set_usable(self, name: str, usable: bool) -> None:
        """Whether a volume may be matched; nothing happens for an unknown one."""
        row = self._rows.get(name)
        if row is not None:
            self.usable[row] = usable

    def remove(self, name: str) -> None:
        """Forget a volume."""
        row = self._rows.pop(name, None)
        if row is not None:
            self.volumes[row] = None
            self.usable[row] = False
            self._free.append(row)

    def candidates(self, claim: PersistentVolumeClaim) -> NDArray[np.int64]:
        """Rows of the volumes that could serve a claim, smallest first; int64."""
        size = self.size
        kind = self._kinds.find((claim.storage_class, claim.volume_mode, claim.attributes_class))
        wanted = self._mode_bits(claim.modes)
        fits = self.usable[:size] & (self.kind[:size] == kind) & (self.capacity[:size] >= claim.request)
        fits &= (self.modes[:size] & wanted) == wanted
        rows = np.flatnonzero(fits)
        if claim.selector is not None:
            rows = rows[[self._selected(claim, int(row)) for row in rows]] if len(rows) else rows
        return rows[np.argsort(self.capacity[rows], kind="stable")]

    def _selected(self, claim: PersistentVolumeClaim, row: int) -> bool:
        volume = self.volumes[row]
        return volume is not None and claim.selector is not None and claim.selector.matches(volume.labels)

    def _mode_bits(self, modes: frozenset[str]) -> int:
        bits = 0
        for mode in modes:
            bits |= 1 << self._modes.id(mode)
        return bits

    def _set_place(self, row: int, terms: Terms) -> None:
        only = terms[0].expressions[0] if terms is not None and _one_label(terms) else None
        if only is None:
            self.key[row] = self.value[row] = ABSENT
            self.group[row] = self.groups.id(terms)
        else:
            self.key[row] = self.keys.id(only.key)
            self.value[row] = self._nodes.own_column(only.key).values.id(only.values[0])

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        row = len(self.volumes)
        if row == len(self.capacity):
            self._grow(2 * row)
        self.volumes.append(None)
        return row

    def _grow(self, capacity: int) -> None:
        self.capacity, self.usable = longer(self.capacity, capacity), longer(self.usable, capacity)
        self.kind, self.modes = longer(self.kind, capacity), longer(self.modes, capacity)
        self.key, self.value = longer(self.key, capacity), longer(self.value, capacity)
        self.group = longer(self.group, capacity)


def _one_label(terms: tuple[NodeTerm, ...]) -> bool:
    """Whether a node affinity is `one label In [one value]`."""
    if len(terms) != 1 or terms[0].fields or len(terms[0].expressions) != 1:
        return False
    requirement = terms[0].expressions[0]
    return requirement.operator == IN and len(requirement.values) == 1
