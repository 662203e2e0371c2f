"""CSI drivers per node: how many of their volumes are attached, and how many can be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.state.nodes.held import Held
from scheduler_core.state.nodes.table import NodeTable

# (driver, handle) of a claim's volume; None where it is no CSI volume.
Handle = tuple[str, str]
Resolve = Callable[[str], Handle | None]

UNLIMITED: Final = np.iinfo(np.int64).max
# In place of the limit of a driver that a node does not have.
_MISSING: Final = -1


class Attachments:
    """Distinct volumes in use per node and driver, by the claims of placed pods.

    A claim's volume is resolved when the claim comes into use, and again by `resolved_anew` when the objects
    behind it change.
    """

    def __init__(self, nodes: NodeTable, resolve: Resolve) -> None:
        self._nodes = nodes
        self._resolve = resolve
        self._handles: Held[Handle] = Held()
        self._counts: dict[str, Int64] = {}
        self._resolved: dict[str, Handle | None] = {}
        self._limits: dict[str, Int64] = {}
        self._drivers_of: dict[str, Mapping[str, int | None]] = {}
        self._seen = 0

    # Use

    def use(self, claim: str, slot: int) -> None:
        """The first pod that uses a claim came to a slot."""
        if claim not in self._resolved:
            self._resolved[claim] = self._resolve(claim)
        self._count(self._resolved[claim], slot, 1)

    def release(self, claim: str, slot: int, *, last: bool) -> None:
        """The last pod that used a claim left a slot; `last`: no pod uses the claim on any slot."""
        self._count(self._resolved[claim], slot, -1)
        if last:
            del self._resolved[claim]

    def resolved_anew(self, claim: str, slots: Iterable[int]) -> None:
        """The objects behind a claim changed; `slots` are those where it is in use."""
        if claim not in self._resolved:
            return
        before, after = self._resolved[claim], self._resolve(claim)
        if before == after:
            return
        for slot in slots:
            self._count(before, slot, -1)
            self._count(after, slot, 1)
        self._resolved[claim] = after

    def _count(self, handle: Handle | None, slot: int, sign: int) -> None:
        if handle is None:
            return
        changed = self._handles.add(handle, slot) if sign > 0 else self._handles.drop(handle, slot)
        if changed:
            counts = self._column(self._counts, handle[0], 0)
            counts[slot] += sign

    def _column(self, columns: dict[str, Int64], driver: str, fill: int) -> Int64:
        """The driver's int64 [capacity] column, as long as the node table's."""
        capacity = len(self._nodes.alive)
        found = columns.get(driver)
        if found is None or len(found) < capacity:
            grown: Int64 = np.full(capacity, fill, dtype=np.int64)
            if found is not None:
                grown[: len(found)] = found
            found = columns[driver] = grown
        return found

    def attached(self, driver: str) -> Int64:
        """int64 [N]: distinct volumes of a driver in use per slot."""
        return self._column(self._counts, driver, 0)[: self._nodes.size]

    def slots_with(self, handle: Handle) -> Iterable[int]:
        """Slots that have a volume attached."""
        return self._handles.slots(handle)

    # Drivers

    def set_drivers(self, node: str, drivers: Mapping[str, int | None]) -> None:
        """Set the drivers of a CSINode with their limits; the node itself may come later."""
        if drivers:
            self._drivers_of[node] = drivers
        else:
            self._drivers_of.pop(node, None)
        slot = self._nodes.slot(node)
        if slot is not None:
            self._write_limits(slot)

    def limit(self, driver: str) -> Int64:
        """int64 [N]: most volumes of a driver per slot, UNLIMITED where nothing is said."""
        return np.where(self._told(driver) == _MISSING, UNLIMITED, self._told(driver))

    def installed(self, driver: str) -> Bool:
        """bool [N]: slots whose CSINode lists the driver."""
        return self._told(driver) != _MISSING

    def _told(self, driver: str) -> Int64:
        """int64 [N]: the limit of a driver per slot, UNLIMITED without one, _MISSING without the driver."""
        log = self._nodes.static_changes
        if self._seen != log.position:
            changed = log.since(self._seen)
            self._seen = log.position
            for slot in range(self._nodes.size) if changed is None else set(changed):
                self._write_limits(slot)
        return self._column(self._limits, driver, _MISSING)[: self._nodes.size]

    def _write_limits(self, slot: int) -> None:
        drivers = self._drivers_of.get(self._nodes.names[slot], {})
        for driver in {*self._limits, *drivers}:
            most = drivers.get(driver, _MISSING)
            self._column(self._limits, driver, _MISSING)[slot] = UNLIMITED if most is None else most
