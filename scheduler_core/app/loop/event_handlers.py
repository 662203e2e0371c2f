"""Event handlers of the loop: apply watch events and outcomes of writes to the scheduler's state."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

from scheduler_core.app.external_bindings import ExternalBindings
from scheduler_core.app.loop.dispatcher import Dispatcher
from scheduler_core.app.loop.inbox import (
    BindFailed,
    BindRead,
    EvictFailed,
    ExtenderAnswered,
    Inbox,
    LagMark,
    StateQuery,
    Stop,
    Timing,
    WriteFailed,
)
from scheduler_core.app.loop.progress import InboxLag
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.logs import fields
from scheduler_core.model.groups.gang import GroupRef, dialect_of
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS, PERSISTENT_VOLUME_CLAIMS, Resource
from scheduler_core.model.names import (
    CAPACITY_SCHEDULING,
    CLUSTER_TOPOLOGY_PLACEMENT_GROUP,
    COSCHEDULING,
    WAITED_FOR_GANG,
    WAITED_FOR_NODES,
    WAITED_FOR_QUOTA,
    WAITED_FOR_TOPOLOGY,
    WAITED_FOR_TURN,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.writes import Patch
from scheduler_core.state.events import ClusterEvent, EventKind


class WaitingTimes:
    """Pods that wait for a node, by uid: when each was first seen, and the number of attempts."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[float]] = {}
        self._refused: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def seen(self, uid: str, now: float) -> None:
        """A pod waits; only the first call per pod counts."""
        if uid not in self._waiting:
            self._waiting[uid] = [now, 0.0]

    def forget(self, uid: str) -> None:
        """A pod was bound, or is gone."""
        self._waiting.pop(uid, None)
        self._refused.pop(uid, None)

    def refused(self, uid: str, waits_for: str) -> None:
        """An attempt refused a pod, which now waits for WAITED_FOR_QUOTA or others."""
        if uid in self._waiting:
            self._refused[uid] = waits_for

    def timing(self, uid: str, now: float, algorithm: float, *, quota: bool = False) -> Timing:
        """The timing of an attempt at `now` that took `algorithm` seconds; `quota`: it has a quota."""
        found = self._waiting.get(uid)
        if found is None:
            return Timing(now, algorithm, now)
        found[1] += 1
        waited_for = self._refused.get(uid, WAITED_FOR_TURN) if quota else ""
        return Timing(now, algorithm, found[0], int(found[1]), waited_for)


def waits_for(refused_by: frozenset[str]) -> str:
    """What a pod waits for that plugins and obstacles refused: the first that applies, quota before nodes."""
    if CAPACITY_SCHEDULING in refused_by:
        return WAITED_FOR_QUOTA
    if CLUSTER_TOPOLOGY_PLACEMENT_GROUP in refused_by:
        return WAITED_FOR_TOPOLOGY
    return WAITED_FOR_GANG if refused_by == {COSCHEDULING} else WAITED_FOR_NODES


log = logging.getLogger(__name__)


class EventHandlers:
    """For the loop's thread only. `dispatcher` returns the current one; `stopping` is True after Stop."""

    def __init__(
        self,
        scheduler: Scheduler,
        resources: Sequence[Resource],
        metrics: SchedulerMetrics,
        lag: InboxLag,
        dispatcher: Callable[[], Dispatcher | None],
        wall: Callable[[], float],
    ) -> None:
        self.scheduler = scheduler
        self.waiting_times = WaitingTimes()
        self.stopping = False
        self._waiting_for = set(resources)
        self._metrics = metrics
        self._lag = lag
        self._dispatcher = dispatcher
        self._wall = wall
        self._external_bindings = ExternalBindings()
        self._known: dict[tuple[Resource, str], Any] = {}

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed."""
        return not self._waiting_for

    def take(self, item: Inbox, now: float) -> None:
        """Apply one item of the inbox."""
        match item:
            case Event():
                self._observe(item, now)
            case BindFailed():
                self._bind_failed(item, now)
            case BindRead():
                self._bind_read(item, now)
            case EvictFailed():
                victim, preemptor = item.decision.pod, item.decision.preemptor
                self.scheduler.evict_failed(victim, preemptor, now, refused=item.refused)
            case WriteFailed():
                self._write_failed(item)
            case ExtenderAnswered():
                self.scheduler.asking.answered(item.answer, now)
            case StateQuery():
                item.act(self.scheduler)
            case LagMark():
                self._lag.reached(item)
            case Stop():
                self.stopping = True

    def _observe(self, event: Event, now: float) -> None:
        key = (event.resource, event.key)
        if event.type == "SYNCED":
            self._note_synced(event.resource)
        elif event.type == "DELETED":
            gone = self._known.pop(key, None)
            if gone is not None:
                self.waiting_times.forget(event.uid)
                self._external_bindings.forget(event.uid)
                self.scheduler.remove(gone, now)
        else:
            self._known[key] = event.obj
            self._put(event.obj, now)

    def _put(self, obj: Any, now: float) -> None:
        if not isinstance(obj, Pod):
            if isinstance(obj, ElasticQuota):
                self._metrics.quota_seen(obj.namespace)
            self.scheduler.put(obj, now)
            return
        if obj.scheduler_name in self.scheduler.profiles and not (obj.assigned or obj.finished or obj.gates):
            self.waiting_times.seen(obj.uid, now)
        else:
            self.waiting_times.forget(obj.uid)
        dispatcher = self._dispatcher()
        notice = self._external_bindings.put(self.scheduler, obj, now, leads=bool(dispatcher) and self.synced)
        if notice is not None and dispatcher is not None:
            self._metrics.bound_past.inc()
            dispatcher.submit(notice, Timing(now, 0.0, now))

    def _note_synced(self, resource: Resource) -> None:
        self._waiting_for.discard(resource)
        if self.synced:
            log.info("synced: every watched resource has been listed")
            # Objects of the first list stay for long; scanning them in every collection would be expensive.
            gc.collect()
            gc.freeze()

    def _bind_failed(self, outcome: BindFailed, now: float) -> None:
        pod = outcome.decision.pod
        self._external_bindings.forget(pod.uid)
        log.warning("binding failed: %s", outcome.problem, extra=fields(pod=pod.key))
        self.scheduler.bind_failed(pod, now)
        if outcome.seen is not None and outcome.seen.uid == pod.uid:
            self._put(outcome.seen, now)

    def _bind_read(self, outcome: BindRead, now: float) -> None:
        """The watch is late: apply the pod that was read, unless the watch has caught up."""
        pod, seen = outcome.decision.pod, outcome.seen
        placement = self.scheduler.state.placed.get(pod.uid)
        if placement is None or not placement.assumed:
            return
        if seen is None or seen.uid != pod.uid:
            log.warning("a bound pod is gone, but the watch has not reported it", extra=fields(pod=pod.key))
            self.waiting_times.forget(pod.uid)
            self.scheduler.remove(pod, now)
            return
        log.warning("a binding was confirmed by reading", extra=fields(pod=pod.key, node=seen.node_name))
        if not seen.assigned:
            self.scheduler.bind_failed(pod, now)
        self._put(seen, now)

    def _write_failed(self, outcome: WriteFailed) -> None:
        write = outcome.write
        if isinstance(write, Patch) and write.resource == ELASTIC_QUOTAS:
            self.scheduler.state.quota_dirty.add(write.namespace)
        elif isinstance(write, Patch) and (dialect := dialect_of(write.resource)) is not None:
            self.scheduler.state.gangs.mark(GroupRef(dialect, write.namespace, write.name))
        elif isinstance(write, Patch) and write.resource == CONFIG_MAPS:
            state = self.scheduler.state
            state.gangs.group_dirty.update(state.config_maps.groups_in(write.namespace))
        elif isinstance(write, Patch) and write.resource == PERSISTENT_VOLUME_CLAIMS:
            # Pods that use the claim are tried again with its current state.
            claim = self.scheduler.state.storage.claims.get(f"{write.namespace}/{write.name}")
            self.scheduler.tell([ClusterEvent(EventKind.VOLUME, obj=claim)], self._wall())
