"""Load of every node as columns, for one LoadSpec; recomputed only for nodes that changed.

R resources in the spec's order, N slots of the node table. Columns of slots without a node or a report hold
values that no answer uses.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.changes import ChangeLog
from scheduler_core.arrays.index import Int64
from scheduler_core.load.estimate import Report, deadline, estimate_pod, scheduled_at
from scheduler_core.load.node_settings import capacity_of, thresholds_of
from scheduler_core.load.priority import PROD, band_of
from scheduler_core.load.spec import LoadSpec, Thresholds
from scheduler_core.load.usage import UNLIMITED, base_usage, contributions, grouped, room
from scheduler_core.model.node_metric import NodeMetric
from scheduler_core.model.pod import Pod
from scheduler_core.state.nodes import NodeTable

Bool = NDArray[np.bool_]
Float = NDArray[np.float64]
Slots = NDArray[np.int64]
Kind = TypeVar("Kind", bound=np.generic)

_NEVER: Final = float("-inf")
_NO_NODE: Final[dict[str, int]] = {}


class Assigned:
    """A pod on a node, as it was when it was last worth an estimate. Compared by identity."""

    __slots__ = ("key", "learned", "pod", "row")

    def __init__(self, pod: Pod, row: int, learned: float) -> None:
        self.pod = pod
        self.key = pod.key
        self.row = row
        self.learned = learned


class PodColumns:
    """Estimates of assigned pods by row of the table of placed pods; filled when first read."""

    def __init__(self, spec: LoadSpec) -> None:
        self._spec = spec
        self._known: list[Assigned | None] = []
        self.estimate: Int64 = np.zeros((len(spec.resources), 64), dtype=np.int64)  # [R, capacity]
        self.scheduled: Float = np.zeros(64, dtype=np.float64)  # [capacity]
        self.deadline: Float = np.zeros(64, dtype=np.float64)  # [capacity]
        self.prod: Bool = np.zeros(64, dtype=np.bool_)  # [capacity]

    def learn(self, item: Assigned, report: Report) -> None:
        """Make sure that the row holds the estimate of this form of the pod."""
        row = item.row
        if row >= len(self._known):
            self._grow(row + 1)
        if self._known[row] is item:
            return
        self._known[row] = item
        scheduled = scheduled_at(item.pod, item.learned)
        self.estimate[:, row] = estimate_pod(item.pod, self._spec, report)
        self.scheduled[row] = scheduled
        self.deadline[row] = deadline(item.pod, self._spec.estimation, scheduled, report)
        self.prod[row] = band_of(item.pod) == PROD

    def _grow(self, size: int) -> None:
        self._known.extend([None] * (max(size, 2 * len(self._known)) - len(self._known)))
        capacity = len(self._known)
        if capacity <= len(self.prod):
            return
        self.estimate = _longer(self.estimate, capacity)
        self.scheduled, self.deadline = _longer(self.scheduled, capacity), _longer(self.deadline, capacity)
        self.prod = _longer(self.prod, capacity)


class LoadColumns:
    """What filter, score and explanation read.

    `usage` is the measured use that the filter starts from, `base_missing` where the percentile asked for
    is not reported, so that all estimates together stand for it; `room` and `prod_room` are what still fits
    under the thresholds for other and for prod pods; `expires` and `prod_expires` when a report is too old
    to pass (infinity: never), `scored_until` until when it is scored.
    """

    def __init__(self, spec: LoadSpec) -> None:
        self.spec = spec
        self._pods = PodColumns(spec)
        self._settings: list[Thresholds] = []
        self._seen_nodes = self._seen_load = -1
        resources = len(spec.resources)

        def amounts() -> Int64:
            return np.zeros((resources, 0), dtype=np.int64)  # [R, N]

        def times() -> Float:
            return np.zeros(0, dtype=np.float64)  # [N]

        self.capacity, self.threshold, self.prod_threshold = amounts(), amounts(), amounts()
        self.usage, self.score_usage = amounts(), amounts()
        self.prod_usage, self.delta, self.prod_delta, self.estimated = (
            amounts(),
            amounts(),
            amounts(),
            amounts(),
        )
        self.room, self.prod_room, self.load, self.prod_load = amounts(), amounts(), amounts(), amounts()
        self.updated, self.expires, self.prod_expires, self.scored_until = times(), times(), times(), times()
        self.aggregated: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self.own_prod: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self.base_missing: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self.score_base_missing: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self.measured: Bool = np.zeros(0, dtype=np.bool_)  # [N]

    _COLUMNS: Final = (
        "capacity",
        "threshold",
        "prod_threshold",
        "usage",
        "score_usage",
        "prod_usage",
        "delta",
        "prod_delta",
        "estimated",
        "room",
        "prod_room",
        "load",
        "prod_load",
        "updated",
        "expires",
        "prod_expires",
        "scored_until",
        "aggregated",
        "own_prod",
        "base_missing",
        "score_base_missing",
        "measured",
    )

    # Keeping current

    def refresh(
        self,
        nodes: NodeTable,
        metrics: Mapping[str, NodeMetric],
        assigned: Mapping[int, Mapping[str, Assigned]],
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
        self._derive(slots)

    def _grow(self, capacity: int) -> None:
        for name in self._COLUMNS:
            setattr(self, name, _longer(getattr(self, name), capacity))

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
        names, score_percentile = self.spec.resources, self.spec.score_percentile
        for amounts in (self.usage, self.score_usage, self.prod_usage):
            amounts[:, slots] = 0
        self.updated[slots] = np.nan
        for flags in (self.measured, self.base_missing, self.score_base_missing):
            flags[slots] = False
        for slot, metric in zip(slots.tolist(), metrics, strict=True):
            if metric is None:
                continue
            self.updated[slot] = _NEVER if metric.update_time is None else metric.update_time
            self.measured[slot] = metric.usage is not None
            base = base_usage(metric, self._settings[slot].percentile).usage
            scored = base_usage(metric, score_percentile).usage
            self.base_missing[slot], self.score_base_missing[slot] = base is None, scored is None
            base, scored = base or _NO_NODE, scored or _NO_NODE
            for r, name in enumerate(names):
                self.usage[r, slot] = base.get(name, 0)
                self.score_usage[r, slot] = scored.get(name, 0)
                if self.spec.include_system:
                    self.prod_usage[r, slot] = metric.system.get(name, 0)

    def _read_pods(
        self,
        slots: Slots,
        metrics: list[NodeMetric | None],
        assigned: Mapping[int, Mapping[str, Assigned]],
        report: Report,
    ) -> None:
        """Sums over the assigned pods of some slots, whose prod usage holds the system's share already."""
        names, learn = self.spec.resources, self._pods.learn
        zeros = (0,) * len(names)
        rows: list[int] = []
        amounts: list[int] = []
        reported: list[int] = []
        counts: list[int] = []
        for slot, metric in zip(slots.tolist(), metrics, strict=True):
            items = assigned.get(slot, {})
            counts.append(len(items))
            measured = metric.pods if metric is not None else {}
            for item in items.values():
                learn(item, report)
                rows.append(item.row)
                pod = measured.get(item.key)
                if pod is None or not pod.usage:
                    amounts.extend(zeros)
                    reported.append(0)
                else:
                    amounts.extend(map(pod.usage.get, names, zeros))
                    reported.append(2 if pod.priority == PROD else 1)
        self._sum(slots, metrics, np.array(rows, dtype=np.int64), counts, amounts, reported)

    def _sum(
        self,
        slots: Slots,
        metrics: list[NodeMetric | None],
        rows: Slots,
        pods_per_slot: list[int],
        amounts: list[int],
        reported: list[int],
    ) -> None:
        counts = np.array(pods_per_slot, dtype=np.int64)  # [S]
        usage = np.array(amounts, dtype=np.int64).reshape(len(rows), len(self.spec.resources)).T  # [R, P]
        band = np.array(reported, dtype=np.int64)  # [P]
        intervals = np.array([m.report_interval if m is not None else 0 for m in metrics], dtype=np.float64)
        updated = np.nan_to_num(self.updated[slots], nan=_NEVER, neginf=_NEVER)  # [S]
        since = np.repeat(updated - intervals, counts)  # [P]
        pods, until = self._pods, np.repeat(updated, counts)
        estimated = (band == 0) | (since < pods.scheduled[rows]) | (pods.deadline[rows] > until)
        estimate = pods.estimate[:, rows]  # [R, P]
        added = contributions(estimate, usage, estimated, pods.prod[rows], band == 2)
        self.estimated[:, slots] = grouped(estimate, counts)
        self.delta[:, slots] = grouped(added.delta, counts)
        self.prod_delta[:, slots] = grouped(added.prod_delta, counts)
        self.prod_usage[:, slots] += grouped(added.prod_usage, counts)

    def _derive(self, slots: Slots) -> None:
        """What filter and score read, from the columns above."""
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

    # Invariants

    def differences(self, other: LoadColumns, nodes: NodeTable) -> list[str]:
        """Columns in which two differ, for slots that have a node."""
        there = [slot for slot in range(nodes.size) if nodes.nodes[slot] is not None]
        return [
            f"load column {name} is not what reports and pods say"
            for name in self._COLUMNS
            if not np.array_equal(
                getattr(self, name)[..., there], getattr(other, name)[..., there], equal_nan=_is_time(name)
            )
        ]


def _is_time(name: str) -> bool:
    return name == "updated"


def _longer(array: NDArray[Kind], capacity: int) -> NDArray[Kind]:
    grown: NDArray[Kind] = np.zeros((*array.shape[:-1], capacity), dtype=array.dtype)
    grown[..., : array.shape[-1]] = array
    return grown
