"""What comes to the loop, taken into the scheduler's state, one item after the other."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from typing import Any

from scheduler_core.app.bound_past import BoundPast
from scheduler_core.app.contracts import Carrier
from scheduler_core.app.metrics import Metrics
from scheduler_core.app.outcomes import (
    Answered,
    Ask,
    BindFailed,
    BindRead,
    EvictFailed,
    Inbox,
    Mark,
    Stop,
    Timing,
    WriteFailed,
)
from scheduler_core.app.pulse import Lag
from scheduler_core.app.waits import Waits
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.tracker import Event
from scheduler_core.logs import fields
from scheduler_core.model.gang import GroupRef, dialect_of
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS, PERSISTENT_VOLUME_CLAIMS, Resource
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Patch
from scheduler_core.state.events import ClusterEvent, Happened

log = logging.getLogger(__name__)


class Intake:
    """For the loop's thread alone. `carrier` gives the one that is in use; `stopping` once a Stop came."""

    def __init__(
        self,
        scheduler: Scheduler,
        resources: Sequence[Resource],
        metrics: Metrics,
        lag: Lag,
        carrier: Callable[[], Carrier | None],
        wall: Callable[[], float],
    ) -> None:
        self.scheduler = scheduler
        self.waits = Waits()
        self.stopping = False
        self._waiting_for = set(resources)
        self._metrics = metrics
        self._lag = lag
        self._carrier = carrier
        self._wall = wall
        self._bound_past = BoundPast()
        self._known: dict[tuple[Resource, str], Any] = {}

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed once."""
        return not self._waiting_for

    def take(self, item: Inbox, now: float) -> None:
        """Bring the scheduler up to date with it."""
        match item:
            case Event():
                self._observe(item, now)
            case BindFailed():
                self._bind_failed(item, now)
            case BindRead():
                self._bind_read(item, now)
            case EvictFailed():
                self.scheduler.evict_failed(item.decision.pod, item.decision.preemptor, now)
            case WriteFailed():
                self._write_failed(item)
            case Answered():
                self.scheduler.asking.answered(item.answer, now)
            case Ask():
                item.act(self.scheduler)
            case Mark():
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
                self.waits.forget(event.uid)
                self._bound_past.forget(event.uid)
                self.scheduler.remove(gone, now)
        else:
            self._known[key] = event.obj
            self._put(event.obj, now)

    def _put(self, obj: Any, now: float) -> None:
        if not isinstance(obj, Pod):
            self.scheduler.put(obj, now)
            return
        if obj.scheduler_name in self.scheduler.profiles and not (obj.assigned or obj.finished or obj.gates):
            self.waits.seen(obj.uid, now)
        else:
            self.waits.forget(obj.uid)
        carrier = self._carrier()
        notice = self._bound_past.put(self.scheduler, obj, now, leads=bool(carrier) and self.synced)
        if notice is not None and carrier is not None:
            self._metrics.bound_past.inc()
            carrier.submit(notice, Timing(now, 0.0, now))

    def _note_synced(self, resource: Resource) -> None:
        self._waiting_for.discard(resource)
        if self.synced:
            log.info("synced: every watched resource has been listed")
            # What was listed stays for long; looking at it in every collection would cost more than deciding.
            gc.collect()
            gc.freeze()

    def _bind_failed(self, outcome: BindFailed, now: float) -> None:
        pod = outcome.decision.pod
        self._bound_past.forget(pod.uid)
        log.warning("binding failed: %s", outcome.problem, extra=fields(pod=pod.key))
        self.scheduler.bind_failed(pod, now)
        if outcome.seen is not None and outcome.seen.uid == pod.uid:
            self._put(outcome.seen, now)

    def _bind_read(self, outcome: BindRead, now: float) -> None:
        """The watch is behind: take what was read, unless it has caught up meanwhile."""
        pod, seen = outcome.decision.pod, outcome.seen
        placement = self.scheduler.state.placed.get(pod.uid)
        if placement is None or not placement.assumed:
            return
        if seen is None or seen.uid != pod.uid:
            log.warning("a bound pod is gone and no watch said so", extra=fields(pod=pod.key))
            self.waits.forget(pod.uid)
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
            # The pods that use the claim decide again on what it is now.
            claim = self.scheduler.state.storage.claims.get(f"{write.namespace}/{write.name}")
            self.scheduler.tell([ClusterEvent(Happened.VOLUME, obj=claim)], self._wall())
