"""LoadAwareScheduling: avoids nodes whose measured load is high, and spreads measured load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.config.args.muster import GREATER_OR_EQUAL, AggregatedArgs, LoadAwareSchedulingArgs
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Plugin, RoomPlugin, Scope, implements
from scheduler_core.framework.queueing.hints import Hint, Room, StandingHint, slot_of, unless_known
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.queueing.widest_victims import freed_by_victims
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.load.estimate import estimate_pod
from scheduler_core.load.priority import PROD, band_of
from scheduler_core.load.spec import Estimation, LoadSpec, Percentile, Thresholds, aligned
from scheduler_core.load.usage import points, score
from scheduler_core.model.names import LOAD_AWARE_SCHEDULING
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.load.columns import LoadColumns

EXPIRED: Final = "node(s) nodeMetric expired"
MISSING: Final = "node(s) nodeMetric missing"


class Incoming(NamedTuple):
    """The estimated use of the pod that is being scheduled, int64 [R], and whether it is a prod pod."""

    estimate: Int64
    prod: bool


class LoadAwareScheduling:
    """Filter and score by measured use plus estimates of what was not measured yet.

    Bit 0: the report is too old; bit 1: nothing was measured. Then two bits per resource in name order: plain
    or aggregated use over its threshold; a node is refused for the first such resource. `fit` is the plugin
    that counts resources, or None: a report does not help a pod that the node has no room for.
    """

    name = LOAD_AWARE_SCHEDULING
    # Reports expire with time alone, so answers are computed for every attempt.
    scope = Scope.CLUSTER

    def __init__(
        self,
        spec: LoadSpec,
        weights: Mapping[str, int],
        dominant: int = 0,
        *,
        pass_expired: bool = False,
        pass_missing: bool = True,
        score_prod: bool = False,
    ) -> None:
        self.spec = spec
        self.dominant = dominant
        self.pass_expired = pass_expired
        self.pass_missing = pass_missing
        self.score_prod = score_prod
        self.fit: RoomPlugin | None = None
        self._weights: Int64 = np.array([weights.get(r, 0) for r in spec.resources], dtype=np.int64)  # [R]
        self._reasons = [Reason(EXPIRED, resolvable=False), Reason(MISSING, resolvable=False)]
        for resource in spec.resources:
            self._reasons.append(Reason(f"node(s) {resource} usage exceed threshold"))
            self._reasons.append(Reason(f"node(s) {resource} aggregated usage exceed threshold"))

    def meet(self, others: Mapping[str, Plugin]) -> None:
        """Find the plugin that counts the resources of nodes."""
        self.fit = next((plugin for plugin in others.values() if implements(plugin, RoomPlugin)), None)

    # Extension points

    def pre_filter(self, cycle: Cycle) -> Status:
        """Estimate the pod. SKIP for pods of DaemonSets: load never keeps them off a node."""
        pod = cycle.pod
        estimate = estimate_pod(pod, self.spec, cycle.state.load.report)
        cycle.slots[self.name] = Incoming(np.array(estimate, dtype=np.int64), band_of(pod) == PROD)
        return SKIP if pod.of_daemon_set else SUCCESS

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        columns = cycle.state.load.columns(self.spec)
        incoming: Incoming = cycle.slots[self.name]
        room = (columns.prod_room if incoming.prod else columns.room)[:, nodes.slots]  # [R, M]
        expires = (columns.prod_expires if incoming.prod else columns.expires)[nodes.slots]  # [M]
        over = incoming.estimate[:, None] > room  # [R, M]
        expired = cycle.now >= expires
        bits: Bits = np.zeros(len(nodes), dtype=np.uint64)  # [M]
        refused = over.any(axis=0)
        if refused.any():
            by_aggregate = columns.aggregated[nodes.slots] & ~(
                incoming.prod & columns.own_prod[nodes.slots]
            )  # [M]
            shift = 2 + 2 * over.argmax(axis=0) + by_aggregate
            bits = np.where(refused, np.uint64(1) << shift.astype(np.uint64), bits)
        if not self.pass_missing:
            bits = np.where(columns.measured[nodes.slots], bits, np.uint64(2))
        if expired.any():
            bits = np.where(expired, np.uint64(0 if self.pass_expired else 1), bits)
        return bits

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """Expired, missing, then plain and aggregated use of each resource."""
        return self._reasons

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M] 0..100: weighted mean of what would be left, 0 without a current report."""
        columns = cycle.state.load.columns(self.spec)
        incoming: Incoming = cycle.slots[self.name]
        by_prod = incoming.prod and self.score_prod
        load = (columns.prod_load if by_prod else columns.load)[:, nodes.slots]  # [R, M]
        values = points(columns.capacity[:, nodes.slots], load + incoming.estimate[:, None])
        current = cycle.now < columns.scored_until[nodes.slots]
        return np.where(current, score(values, self._weights, self.dominant), 0)

    def reserve(self, cycle: Cycle, slot: int) -> Status:
        """Nothing to do: the state counts a pod as assigned once it has a node."""
        return SUCCESS

    def unreserve(self, cycle: Cycle, slot: int) -> None:
        """Nothing to do: forgetting the pod in the state takes its estimate away."""

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """A report, a deleted pod, a new node, or a node with other thresholds or capacity."""
        of_one_node = EventKind.NODE_METRIC | EventKind.POD_DELETE
        return {
            Obstacle.LOAD.value & ~of_one_node: None,
            of_one_node: StandingHint(self._may_take, unless_known, self._room),
        }

    def _may_take(self, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        """Whether the node of an event may take the pod, as it is or after evictions."""
        slot = slot_of(state, event)
        if slot is None:
            return True
        if self.fit is not None and not self.fit.has_room_on(state, pod, slot):
            return False
        return self._is_below(state, pod, slot) or bool(freed_by_victims(state, pod, slot).any())

    def _is_below(self, state: ClusterState, pod: Pod, slot: int) -> bool:
        """Whether a node stays below its thresholds with the pod; the age of the report is not checked."""
        columns = state.load.columns(self.spec)
        if not self.pass_missing and not columns.measured[slot]:
            return False
        if self.pass_expired:
            return True
        room = (columns.prod_room if band_of(pod) == PROD else columns.room)[:, slot]  # [R]
        estimate: Int64 = np.array(estimate_pod(pod, self.spec, state.load.report), dtype=np.int64)  # [R]
        return bool((estimate <= room).all())

    def _room(self, state: ClusterState, event: ClusterEvent) -> Room | None:
        """The free room on the node of an event; None if the node is unknown."""
        slot = slot_of(state, event)
        if slot is None:
            return None
        return Room(np.zeros(0, dtype=np.int64), slot) if self.fit is None else self.fit.room_on(state, slot)

    # Explanation

    def details(self, cycle: Cycle, slots: Iterable[int]) -> dict[int, dict[str, Any]]:
        """Per slot: the estimate of the pod, and per resource what was measured, added and allowed."""
        columns = cycle.state.load.columns(self.spec)
        incoming: Incoming = cycle.slots[self.name]
        return {slot: self._of_node(columns, incoming, slot) for slot in slots}

    def _of_node(self, columns: LoadColumns, incoming: Incoming, slot: int) -> dict[str, Any]:
        def amounts(values: Int64) -> dict[str, int]:
            return dict(zip(self.spec.resources, values.tolist(), strict=True))

        prod = bool(incoming.prod and columns.own_prod[slot])
        thresholds = (columns.prod_threshold if prod else columns.threshold)[:, slot]
        capacity = columns.capacity[:, slot]
        if prod:
            kind, base = "prod", columns.prod_usage[:, slot] + columns.prod_delta[:, slot]
        elif columns.base_missing[slot]:
            kind, base = "aggregated", columns.estimated[:, slot]
        else:
            kind = "aggregated" if columns.aggregated[slot] else "node"
            base = columns.usage[:, slot] + columns.delta[:, slot]
        used = base + incoming.estimate
        percent = np.where(capacity > 0, (200 * used + capacity) // np.maximum(2 * capacity, 1), 0)
        updated = float(columns.updated[slot])
        return {
            "estimated": amounts(incoming.estimate),
            "capacity": amounts(capacity),
            "measured": amounts(columns.usage[:, slot]),
            "used": amounts(used),
            "usedPercent": amounts(percent),
            "thresholds": amounts(thresholds),
            "thresholdOf": kind,
            "updateTime": updated if np.isfinite(updated) else None,
            "cacheState": {
                "prodUsage": amounts(columns.prod_usage[:, slot]),
                "nodeDelta": amounts(columns.delta[:, slot]),
                "prodDelta": amounts(columns.prod_delta[:, slot]),
                "nodeEstimated": amounts(columns.estimated[:, slot]),
            },
        }


def load_aware(args: LoadAwareSchedulingArgs) -> LoadAwareScheduling:
    """The plugin for arguments with defaults filled in."""
    return LoadAwareScheduling(
        load_spec(args),
        args.resource_weights,
        args.dominant_resource_weight,
        pass_expired=args.enable_schedule_when_node_metrics_expired,
        pass_missing=args.enable_schedule_when_node_metrics_missing,
        score_prod=args.score_according_prod_usage,
    )


def load_spec(args: LoadAwareSchedulingArgs) -> LoadSpec:
    """The LoadSpec for arguments: every resource that occurs in them, in name order."""
    aggregated = args.aggregated or AggregatedArgs()
    resources = args.resources()
    by_aggregate = bool(aggregated.usage_thresholds) and bool(aggregated.usage_aggregation_type)
    return LoadSpec(
        resources=resources,
        estimation=Estimation(
            factors=tuple(args.estimated_scaling_factors.get(resource) for resource in resources),
            after_scheduled=max(0, args.estimated_seconds_after_pod_scheduled or 0),
            after_initialized=max(0, args.estimated_seconds_after_initialized or 0),
            customizable=args.allow_customize_estimation,
            capped=args.cap_estimates_at_limit,
        ),
        thresholds=Thresholds(
            plain=aligned(args.usage_thresholds, resources),
            prod=aligned(args.prod_usage_thresholds, resources),
            aggregated=aligned(aggregated.usage_thresholds, resources) if by_aggregate else (),
            percentile=Percentile(aggregated.usage_aggregation_type, aggregated.usage_aggregated_duration)
            if by_aggregate
            else None,
        ),
        score_percentile=Percentile(aggregated.score_aggregation_type, aggregated.score_aggregated_duration)
        if aggregated.score_aggregation_type
        else None,
        include_system=args.prod_usage_include_sys,
        expiration=float(args.node_metric_expiration_seconds),
        inclusive=args.threshold_comparison == GREATER_OR_EQUAL,
    )
