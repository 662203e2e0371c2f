"""Load of every node as columns, for one LoadSpec; recomputed only for nodes that changed.

R resources in the spec's order, N slots of the node table. Columns of slots without a node or a report hold
values that no answer uses.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.arrays.growth import longer
from scheduler_core.arrays.types import Bool, Float, Int64
from scheduler_core.load.estimate import Report
from scheduler_core.load.node_settings import capacity_of, thresholds_of
from scheduler_core.load.spec import LoadSpec, Thresholds
from scheduler_core.load.usage import UNLIMITED, base_usage, contributions, grouped, room
from scheduler_core.model.node_metric import AS_PROD, UNMEASURED, MeasuredPods, NodeMetric
from scheduler_core.state.load.assigned import AssignedPods
from scheduler_core.state.load.estimates import PodEstimates
from scheduler_core.state.nodes.table import NodeTable

Slots = NDArray[np.int64]

_NEVER: Final = float("-inf")
_NO_USAGE: Final[dict[str, int]] = {}
_NO_PODS: Final = MeasuredPods()


class LoadColumns:
    """The columns that filter, score and explanation read.

    `usage` is the measured use that the filter starts from, `base_missing` where the percentile asked for
    is not reported, so that all estimates together stand for it; `room` and `prod_room` are what still fits
    under the thresholds for other and for prod pods; `expires` and `prod_expires` when a report is too old
    to pass (infinity: never), `scored_until` until when it is scored.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self.pods = PodEstimates(spec)
        self._settings: list[Thresholds] = []
        self._seen_nodes = self._seen_load = -1
        resources = len(spec.resources)

        def amounts() -> Int64:
            return np.zeros((resources, 0), dtype=np.int64)  # [R, N]

        def times() -> Float:
            return np.zeros(0, dtype=np.float64)  # [N]

        def flags() -> Bool:
            return np.zeros(0, dtype=np.bool_)  # [N]

        self.capacity, self.threshold, self.prod_threshold = amounts(), amounts(), amounts()
        self.usage, self.score_usage = amounts(), amounts()
        self.prod_usage, self.delta = amounts(), amounts()
        self.prod_delta, self.estimated = amounts(), amounts()
        self.room, self.prod_room, self.load, self.prod_load = amounts(), amounts(), amounts(), amounts()
        self.updated, self.expires, self.prod_expires, self.scored_until = times(), times(), times(), times()
        self.aggregated, self.own_prod, self.base_missing = flags(), flags(), flags()
        self.score_base_missing, self.measured = flags(), flags()

    def _columns(self) -> list[str]:
        """The names of the columns: all arrays of this object."""
        return [name for name, value in vars(self).items() if isinstance(value, np.ndarray)]

    # Keeping current

    def refresh(
        self,
        nodes: NodeTable,
        metrics: Mapping[str, NodeMetric],
        assigned: AssignedPods,
        changes: ChangeLog,
        report: Report,
    ) -> None:
        """Recompute what changed in the nodes, the reports or the assigned pods since the last time."""
        by_node = nodes.static_changes.since(self._seen_nodes) if self._seen_nodes >= 0 else None
        by_load = changes.since(self._seen_load) if self._seen_load >= 0 else None
        self._seen_nodes, self._seen_load = nodes.static_changes.position, changes.position
        if not by_node and not by_load and by_node is not None and by_load is not None:
            return
        if nodes.size > len(self.updated):
            self._grow(len(nodes.alive))
        every = range(nodes.size)
        known = every if by_node is None else sorted(set(by_node))
        self._read_nodes(nodes, known, report)
        changed = every if by_load is None or by_node is None else {*by_node, *by_load}
        slots = np.fromiter(sorted(changed), dtype=np.int64, count=len(changed))
        found = [metrics.get(nodes.names[slot]) for slot in slots.tolist()]
        self._read_metrics(slots, found)
        self._read_pods(slots, found, assigned, report)
        self.derive(slots)

    def _grow(self, capacity: int) -> None:
        for name in self._columns():
            setattr(self, name, longer(getattr(self, name), capacity))

    def _read_nodes(self, nodes: NodeTable, slots: Iterable[int], report: Report) -> None:
        """Capacity and thresholds, from the node and its annotations."""
        while len(self._settings) < nodes.size:
            self._settings.append(self.spec.thresholds)
        for slot in slots:
            node = nodes.nodes[slot]
            if node is None:
                self._settings[slot] = self.spec.thresholds
                self.capacity[:, slot] = 0
            else:
                self._settings[slot] = thresholds_of(node, self.spec, report)
                self.capacity[:, slot] = capacity_of(node, self.spec, report)
            own = self._settings[slot]
            self.aggregated[slot] = own.percentile is not None
            self.own_prod[slot] = any(own.prod)
            self.threshold[:, slot] = own.plain if own.percentile is None else own.aggregated
            self.prod_threshold[:, slot] = own.prod if any(own.prod) else self.threshold[:, slot]

    def _read_metrics(self, slots: Slots, metrics: list[NodeMetric | None]) -> None:
        """The reports' own numbers for some slots."""
        names, zeros = self.spec.resources, (0,) * len(self.spec.resources)
        usage: list[int] = []
        scored: list[int] = []
        system: list[int] = []
        flags: list[tuple[bool, bool, bool]] = []
        updated: list[float] = []
        for slot, metric in zip(slots.tolist(), metrics, strict=True):
            if metric is None:
                base = score_base = _NO_USAGE
                updated.append(np.nan)
                flags.append((False, False, False))
            else:
                found = base_usage(metric, self._settings[slot].percentile)
                score_found = base_usage(metric, self.spec.score_percentile)
                base, score_base = found or _NO_USAGE, score_found or _NO_USAGE
                updated.append(_NEVER if metric.update_time is None else metric.update_time)
                flags.append((metric.usage is not None, found is None, score_found is None))
            usage.extend(map(base.get, names, zeros))
            scored.extend(map(score_base.get, names, zeros))
            if self.spec.include_system:
                own = metric.system if metric is not None else _NO_USAGE
                system.extend(map(own.get, names, zeros))
        self.updated[slots] = updated
        self.usage[:, slots] = self._matrix(usage)
        self.score_usage[:, slots] = self._matrix(scored)
        self.prod_usage[:, slots] = self._matrix(system) if self.spec.include_system else 0
        said = np.array(flags, dtype=np.bool_).reshape(-1, 3)  # [S, 3]
        self.measured[slots], self.base_missing[slots], self.score_base_missing[slots] = said.T

    def _matrix(self, flat: list[int]) -> Int64:
        """int64 [R, S] of values that stand node by node."""
        return np.array(flat, dtype=np.int64).reshape(-1, len(self.spec.resources)).T

    def _read_pods(
        self, slots: Slots, metrics: list[NodeMetric | None], assigned: AssignedPods, report: Report
    ) -> None:
        """Sums over the assigned pods of some slots; prod usage holds the system's share already."""
        names = self.spec.resources
        found = [metric.pods if metric is not None else _NO_PODS for metric in metrics]
        layouts = [assigned.layout(slot, pods) for slot, pods in zip(slots.tolist(), found, strict=True)]
        for slot, layout in zip(slots.tolist(), layouts, strict=True):
            self.pods.learn(slot, layout, report)
        counts = np.array([len(layout.items) for layout in layouts], dtype=np.int64)  # [S]
        sizes = np.array([len(pods.keys) for pods in found], dtype=np.int64)  # [S]
        rows = _joined([layout.rows for layout in layouts])  # [P]
        positions = _joined([layout.positions for layout in layouts])  # [P]
        there = positions >= 0
        at = (np.repeat(np.cumsum(sizes) - sizes, counts) + positions)[there]
        usage: Int64 = np.zeros((len(names), len(rows)), dtype=np.int64)  # [R, P]
        for r, name in enumerate(names):
            flat = _joined([pods.usage.get(name) or bytes(8 * len(pods.keys)) for pods in found])
            usage[r, there] = flat[at]
        band = np.full(len(rows), UNMEASURED, dtype=np.uint8)  # [P]
        band[there] = np.frombuffer(b"".join(pods.bands for pods in found), dtype=np.uint8)[at]
        intervals = np.array([m.report_interval if m is not None else 0 for m in metrics], dtype=np.float64)
        self._sum(slots, counts, rows, usage, band, intervals)

    def _sum(
        self,
        slots: Slots,
        counts: Int64,
        rows: Slots,
        usage: Int64,
        band: NDArray[np.uint8],
        intervals: Float,
    ) -> None:
        updated = np.nan_to_num(self.updated[slots], nan=_NEVER, neginf=_NEVER)  # [S]
        since, until = np.repeat(updated - intervals, counts), np.repeat(updated, counts)  # [P]
        pods = self.pods
        estimated = (band == UNMEASURED) | (since < pods.scheduled[rows]) | (pods.deadline[rows] > until)
        estimate = pods.estimate[:, rows]  # [R, P]
        added = contributions(estimate, usage, estimated, pods.prod[rows], band == AS_PROD)
        self.estimated[:, slots] = grouped(estimate, counts)
        self.delta[:, slots] = grouped(added.delta, counts)
        self.prod_delta[:, slots] = grouped(added.prod_delta, counts)
        self.prod_usage[:, slots] += grouped(added.prod_usage, counts)

    def derive(self, slots: Slots) -> None:
        """Compute the columns that filter and score read, from the columns above."""
        updated, measured = self.updated[slots], self.measured[slots]
        delta, estimated = self.delta[:, slots], self.estimated[:, slots]
        load = np.where(self.base_missing[slots], estimated, self.usage[:, slots] + delta)
        prod = self.prod_usage[:, slots] + self.prod_delta[:, slots]
        scored = np.where(self.score_base_missing[slots], estimated, self.score_usage[:, slots] + delta)
        capacity, inclusive = self.capacity[:, slots], self.spec.inclusive
        threshold, prod_threshold = self.threshold[:, slots], self.prod_threshold[:, slots]
        plain_room = room(threshold, capacity, load, inclusive=inclusive)
        prod_base = np.where(self.own_prod[slots], prod, load)
        prod_room = room(prod_threshold, capacity, prod_base, inclusive=inclusive)
        self.room[:, slots] = np.where(measured, plain_room, UNLIMITED)
        self.prod_room[:, slots] = np.where(measured, prod_room, UNLIMITED)
        self.load[:, slots], self.prod_load[:, slots] = scored, prod
        # No report at all passes the filter and scores nothing.
        old = updated + self.spec.expiration
        absent = np.isnan(updated)
        self.expires[slots] = np.where(absent | ~threshold.any(axis=0), np.inf, old)
        self.prod_expires[slots] = np.where(absent | ~prod_threshold.any(axis=0), np.inf, old)
        self.scored_until[slots] = np.where(absent | ~measured, _NEVER, old)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns, without those of assigned pods."""
        return sum(getattr(self, name).nbytes for name in self._columns())

    # Invariants

    def differences(self, other: LoadColumns, nodes: NodeTable) -> list[str]:
        """Columns in which two differ, for slots that have a node."""
        there = [slot for slot in range(nodes.size) if nodes.nodes[slot] is not None]
        return [
            f"load column {name} is not what reports and pods say"
            for name in self._columns()
            if not np.array_equal(
                getattr(self, name)[..., there], getattr(other, name)[..., there], equal_nan=name == "updated"
            )
        ]


def _joined(parts: Sequence[array[int] | bytes]) -> Int64:
    """One int64 array of many."""
    return np.frombuffer(b"".join(parts), dtype=np.int64)
