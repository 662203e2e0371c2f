"""Nodes as columns: resources, labels, taints, and the pods placed on each.

Every array is resource-major or flat over slots. A slot belongs to one node from when the node is first seen
until its removal, and is then reused. Slots of removed or incomplete nodes are not `alive` and never chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.arrays.growth import longer
from scheduler_core.arrays.index import MOST_COUNTED, PODS_ROW, ResourceIndex
from scheduler_core.arrays.intern import Interner, LabelColumn
from scheduler_core.arrays.types import Bool, Float, Int32, Int64
from scheduler_core.model.node import UNSCHEDULABLE_TAINT, Node, ends_its_pods
from scheduler_core.model.pods.affinity import Taint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.nodes.flavors import NodeFlavors
from scheduler_core.state.nodes.rules import NodeRules

_FIRST_CAPACITY: Final = 64
EXACT_DIVISOR: Final = 2**45
# More than any request, and small enough to be summed over all nodes.
UNLIMITED: Final = 2**44


class NodeTable:
    """Columns over node slots. `size` slots are in use or reusable; arrays may be longer."""

    def __init__(self, index: ResourceIndex) -> None:
        self.index = index
        capacity = _FIRST_CAPACITY
        self.allocatable: Int64 = np.zeros((len(index), capacity), dtype=np.int64)  # [R, capacity]
        self.requested: Int64 = np.zeros((len(index), capacity), dtype=np.int64)  # [R, capacity]
        # Divisors of fractions: the allocatable, 1 where that is 0.
        self.divisor: Float = np.ones((len(index), capacity), dtype=np.float64)  # [R, capacity]
        self.nonzero: Int64 = np.zeros((2, capacity), dtype=np.int64)  # [cpu|memory, capacity]
        self.alive: Bool = np.zeros(capacity, dtype=np.bool_)  # [capacity]
        self.unschedulable: Bool = np.zeros(capacity, dtype=np.bool_)  # [capacity]
        # Whether the node is there and its kubelet reports.
        self.ends_pods: Bool = np.zeros(capacity, dtype=np.bool_)  # [capacity]
        self.taint_set: Int32 = np.zeros(capacity, dtype=np.int32)  # [capacity]
        self.names: list[str] = []
        self.nodes: list[Node | None] = []
        self.pods: list[dict[str, Pod]] = []
        self.taint_sets: Interner[tuple[Taint, ...]] = Interner()
        self.taint_sets.id(())
        # Resources that others account for: every node has more than any request.
        self.unlimited: frozenset[str] = frozenset()
        # Node rules of the profiles, by scheduler name.
        self.rules: dict[str, NodeRules] = {}
        self.flavors = NodeFlavors()
        self.static_changes = ChangeLog()
        self.usage_changes = ChangeLog()
        # Grows whenever a slot is assigned or released: anything cached by slot is then invalid.
        self.layout = 0
        self._by_name: tuple[int, Int64] = (-1, np.zeros(0, dtype=np.int64))
        self._slots: dict[str, int] = {}
        self._free: list[int] = []
        self._columns: dict[str, LabelColumn] = {}
        # The label keys that some node has or had; of all others a single column is enough.
        self._label_keys: set[str] = set()
        self._absent = LabelColumn(capacity)
        self._ordinary: dict[int, bool] = {}
        # The sum of the allocatable, as of a position of the static changes.
        self._total: tuple[int, dict[str, int]] = (-1, {})
        # Memoryviews of the same arrays: several times faster than indexing an array for single numbers.
        self._requested_cells, self._nonzero_cells = self.requested.data, self.nonzero.data

    # Slots

    @property
    def size(self) -> int:
        """Number of slots that arrays must be read over."""
        return len(self.names)

    @property
    def count(self) -> int:
        """Number of nodes that exist and have reported their resources."""
        return int(self.alive[: self.size].sum())

    def slot(self, name: str) -> int | None:
        """Slot of a node by name, alive or not."""
        return self._slots.get(name)

    def of_name(self, name: str) -> Node | None:
        """A node by name, None where there is none now."""
        slot = self._slots.get(name)
        return self.nodes[slot] if slot is not None else None

    def slot_of(self, name: str) -> int:
        """Slot of a node, known or not yet."""
        found = self._slots.get(name)
        if found is not None:
            return found
        self.layout += 1
        if self._free:
            slot = self._free.pop()
            self.names[slot] = name
        else:
            slot = len(self.names)
            if slot == self.alive.shape[0]:
                self._grow(2 * slot)
            self.names.append(name)
            self.nodes.append(None)
            self.pods.append({})
        self._slots[name] = slot
        return slot

    def _grow(self, capacity: int) -> None:
        self.allocatable = longer(self.allocatable, capacity)
        self.requested = longer(self.requested, capacity)
        self.divisor = np.maximum(self.allocatable, 1).astype(np.float64)
        self.nonzero, self.alive = longer(self.nonzero, capacity), longer(self.alive, capacity)
        self.unschedulable = longer(self.unschedulable, capacity)
        self.ends_pods = longer(self.ends_pods, capacity)
        self.taint_set = longer(self.taint_set, capacity)
        self._requested_cells, self._nonzero_cells = self.requested.data, self.nonzero.data
        for column in (*self._columns.values(), self._absent):
            column.grow(capacity)

    def grow_rows(self) -> None:
        """Give the arrays the rows of resources that the index has learned since."""
        missing = len(self.index) - self.allocatable.shape[0]
        if missing > 0:
            rows: Int64 = np.zeros((missing, self.allocatable.shape[1]), dtype=np.int64)  # [new, capacity]
            self.allocatable = np.vstack([self.allocatable, rows])
            self.requested = np.vstack([self.requested, rows])
            self._requested_cells = self.requested.data
            self.divisor = np.vstack([self.divisor, np.ones_like(rows, dtype=np.float64)])

    # Nodes

    def put(self, node: Node) -> int:
        """Add or replace a node; returns its slot. One without allocatable is kept but not alive."""
        if self.index.ensure(node.allocatable):
            self.grow_rows()
        slot = self.slot_of(node.name)
        self.nodes[slot] = node
        allocatable = self.index.vector(node.allocatable)
        for name in self.unlimited:
            row = self.index.row(name)
            if row is not None:
                allocatable[row] = UNLIMITED
        self._set_allocatable(slot, allocatable)
        self.alive[slot] = bool(node.allocatable)
        self.unschedulable[slot] = node.unschedulable
        self.ends_pods[slot] = ends_its_pods(node)
        taints = node.taints
        if node.unschedulable and UNSCHEDULABLE_TAINT not in taints:
            taints = (*taints, UNSCHEDULABLE_TAINT)
        self.taint_set[slot] = self.taint_sets.id(taints)
        self._label_keys.update(node.labels)
        for key, column in self._columns.items():
            column.set(slot, node.labels.get(key))
        self.static_changes.append(slot)
        self.usage_changes.append(slot)
        return slot

    def remove(self, name: str) -> None:
        """Forget a node. Its slot is reused once no pod is on it."""
        slot = self._slots.get(name)
        if slot is None:
            return
        self.nodes[slot] = None
        self.alive[slot] = self.ends_pods[slot] = False
        self._set_allocatable(slot, 0)
        for column in self._columns.values():
            column.set(slot, None)
        self.static_changes.append(slot)
        self._release(slot)

    def _set_allocatable(self, slot: int, vector: Int64 | int) -> None:
        self.allocatable[:, slot] = vector
        self.divisor[:, slot] = np.maximum(vector, 1)
        self._ordinary.clear()

    def ordinary(self, row: int) -> bool:
        """Whether every living node has some of a resource, and so little that float64 divides exactly.

        A correctly rounded quotient of at most 100 then never reaches the next integer: one that is none is
        at least 1/allocatable away from it.
        """
        known = self._ordinary.get(row)
        if known is None:
            values = self.allocatable[row, : self.size][self.alive[: self.size]]
            known = bool(values.min(initial=1) > 0 and values.max(initial=0) < EXACT_DIVISOR)
            self._ordinary[row] = known
        return known

    def _release(self, slot: int) -> None:
        if self.nodes[slot] is None and not self.pods[slot]:
            self.layout += 1
            del self._slots[self.names[slot]]
            self._free.append(slot)

    def name_ranks(self) -> Int64:
        """int64 [N]: each slot's place in the order of the nodes' names."""
        if self._by_name[0] != self.layout:
            ranks: Int64 = np.zeros(self.size, dtype=np.int64)  # [N]
            ranks[sorted(range(self.size), key=self.names.__getitem__)] = np.arange(self.size)
            self._by_name = (self.layout, ranks)
        return self._by_name[1]

    def has_label(self, key: str) -> bool:
        """Whether some node has a label key, or had it once."""
        return key in self._label_keys

    def column(self, key: str) -> LabelColumn:
        """The column of a label key, made on first use and kept current from then on; read only.

        Pods may name any number of keys. Those that no node has share one column, whose values are of no use
        once a node has the key: `own_column` is for those who keep ids of values.
        """
        found = self._columns.get(key)
        if found is None:
            return self.own_column(key) if self.has_label(key) else self._absent
        return found

    def own_column(self, key: str) -> LabelColumn:
        """The column of a label key that stays the same from now on, also if no node has the key yet."""
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = LabelColumn(self.alive.shape[0])
            for slot, node in enumerate(self.nodes):
                if node is not None:
                    found.set(slot, node.labels.get(key))
        return found

    def allocatable_total(self) -> dict[str, int]:
        """Allocatable of all alive, schedulable nodes per resource. Read only."""
        seen, known = self._total
        if seen != self.static_changes.position:
            chosen = self.alive[: self.size] & ~self.unschedulable[: self.size]
            total = self.allocatable[:, : self.size][:, chosen].sum(axis=1)  # [R]
            known = {name: int(total[row]) for row, name in enumerate(self.index.names) if total[row]}
            self._total = (self.static_changes.position, known)
        return known

    # Pods on nodes

    def place(self, pod: Pod, node: str, vector: Int64) -> int:
        """Put a pod on a node (known or not yet) and count its requests; returns the slot."""
        slot = self._slots.get(node)
        if slot is None:
            slot = self.slot_of(node)
        self.pods[slot][pod.uid] = pod
        self._count(slot, pod, vector, 1)
        return slot

    def place_all(self, pods: Sequence[Pod], slots: Int32, requests: Int64, nonzero: Int64) -> None:
        """Put pods on nodes, with requests [R, P] and nonzero [2, P]; no sum may reach MOST_COUNTED."""
        self.grow_rows()
        for row, values in enumerate(requests):
            np.add.at(self.requested[row], slots, values)
        for row, values in enumerate(nonzero):
            np.add.at(self.nonzero[row], slots, values)
        on_nodes = self.pods
        changed = slots.tolist()
        for pod, slot in zip(pods, changed, strict=True):
            on_nodes[slot][pod.uid] = pod
        for slot in set(changed):
            self.usage_changes.append(slot)

    def unplace(self, pod: Pod, slot: int, vector: Int64) -> None:
        """Take a pod off its node."""
        del self.pods[slot][pod.uid]
        self._count(slot, pod, vector, -1)
        self._release(slot)

    def _count(self, slot: int, pod: Pod, vector: Int64, sign: int) -> None:
        # A pod requests two or three resources: single numbers are faster than operations on a column.
        cells = self._requested_cells
        for row, value in enumerate(vector.tolist()):
            if value:
                before = cells[row, slot]
                after = before + sign * value
                most = max(before, after) >= MOST_COUNTED
                cells[row, slot] = self._sum_there(slot, row) if most else after
        cells = self._nonzero_cells
        for row, value in enumerate(pod.nonzero):
            before = cells[row, slot]
            after = before + sign * value
            most = max(before, after) >= MOST_COUNTED
            cells[row, slot] = self._nonzero_there(slot, row) if most else after
        self.usage_changes.append(slot)

    def _sum_there(self, slot: int, row: int) -> int:
        """The requests of a slot's pods for a resource, MOST_COUNTED at most."""
        if row == PODS_ROW:
            return len(self.pods[slot])
        name = self.index.names[row]
        charges = (self.flavors.charge(pod.requests, slot) for pod in self.pods[slot].values())
        return min(MOST_COUNTED, sum(charge.get(name, 0) for charge in charges))

    def _nonzero_there(self, slot: int, row: int) -> int:
        return min(MOST_COUNTED, sum(pod.nonzero[row] for pod in self.pods[slot].values()))

    def check(self) -> list[str]:
        """Broken invariants in words: requested and nonzero equal the sums over the pods placed."""
        problems: list[str] = []
        for slot, name in enumerate(self.names):
            expected = [self._sum_there(slot, row) for row in range(len(self.index))]
            nonzero = [self._nonzero_there(slot, row) for row in range(2)]
            if expected != self.requested[:, slot].tolist():
                problems.append(f"node {name}: requested {self.requested[:, slot]}, pods sum to {expected}")
            if nonzero != self.nonzero[:, slot].tolist():
                problems.append(f"node {name}: nonzero {self.nonzero[:, slot]}, pods sum to {nonzero}")
        return problems
