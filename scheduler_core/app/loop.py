"""The loop: the only thread that touches the state. Events in, decisions out, until told to stop."""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from scheduler_core.app.outcomes import BindAccepted, BindFailed, Inbox, Stop, WriteFailed
from scheduler_core.engine.decisions import Decision, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.tracker import Event
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PERSISTENT_VOLUME_CLAIMS, Resource
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

log = logging.getLogger(__name__)

# Units tried between two looks at the inbox, so that decisions are not made on a state long out of date.
_BATCH: Final = 200
_IDLE_SECONDS: Final = 1.0


class Controller(Protocol):
    """A reconciler as the loop runs it."""

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Writes that are due."""
        ...

    def next_time(self, state: ClusterState) -> float | None:
        """When to come back without an event, or None."""
        ...


class Carrier(Protocol):
    """Where decisions go."""

    def submit(self, decision: Decision) -> None:
        """Carry a decision out."""
        ...

    def submit_write(self, write: Write) -> None:
        """Carry a controller's write out."""
        ...


class Loop:
    """Waits until every watched resource was listed once and `lead` was called, then decides."""

    def __init__(
        self,
        scheduler: Scheduler,
        controllers: Sequence[Controller],
        resources: Sequence[Resource],
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.scheduler = scheduler
        self.inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self.carrier: Carrier | None = None
        self._controllers = controllers
        self._waiting_for = set(resources)
        self._wall = wall
        self._known: dict[tuple[Resource, str], Any] = {}
        self._stopping = False

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed once."""
        return not self._waiting_for

    def run(self) -> None:
        """Until a Stop comes."""
        while not self._stopping:
            self._drain(self._timeout())
            if self._stopping or self.carrier is None or not self.synced:
                continue
            now = self._wall()
            for decision in self.scheduler.step(now, _BATCH):
                self.carrier.submit(decision)
            for controller in self._controllers:
                for write in controller.reconcile(self.scheduler.state, now):
                    self.carrier.submit_write(write)

    def _timeout(self) -> float:
        """How long to wait for the inbox: not at all while there is work."""
        if self.carrier is None or not self.synced:
            return _IDLE_SECONDS
        if self.scheduler.queue.has_active():
            return 0.0
        times = [self.scheduler.queue.next_time()]
        times += [controller.next_time(self.scheduler.state) for controller in self._controllers]
        due = [moment for moment in times if moment is not None]
        return max(0.0, min(min(due) - self._wall(), _IDLE_SECONDS)) if due else _IDLE_SECONDS

    def _drain(self, timeout: float) -> None:
        """Take everything that is there, waiting at most `timeout` seconds for the first item."""
        try:
            item = self.inbox.get(timeout=timeout) if timeout > 0 else self.inbox.get_nowait()
            while True:
                self._take(item)
                item = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _take(self, item: Inbox) -> None:
        now = self._wall()
        match item:
            case Event():
                self._observe(item, now)
            case BindAccepted():
                log.debug("bound %s to %s", item.decision.pod.key, item.decision.node)
            case BindFailed():
                self._bind_failed(item.decision, item, now)
            case WriteFailed():
                self._write_failed(item)
            case Stop():
                self._stopping = True

    def _observe(self, event: Event, now: float) -> None:
        key = (event.resource, event.key)
        if event.type == "SYNCED":
            self._waiting_for.discard(event.resource)
            if self.synced:
                log.info("synced: every watched resource has been listed")
        elif event.type == "DELETED":
            gone = self._known.pop(key, None)
            if gone is not None:
                self.scheduler.remove(gone, now)
        else:
            self._known[key] = event.obj
            self.scheduler.put(event.obj, now)

    def _bind_failed(self, decision: Placed, outcome: BindFailed, now: float) -> None:
        log.warning("binding %s to %s: %s", decision.pod.key, decision.node, outcome.problem)
        self.scheduler.bind_failed(decision.pod, now)
        if outcome.seen is not None and outcome.seen.uid == decision.pod.uid:
            self.scheduler.put(outcome.seen, now)

    def _write_failed(self, outcome: WriteFailed) -> None:
        write = outcome.write
        if isinstance(write, Patch) and write.resource == ELASTIC_QUOTAS:
            self.scheduler.state.quota_dirty.add(write.namespace)
        elif isinstance(write, Patch) and write.resource == PERSISTENT_VOLUME_CLAIMS:
            # The pods that use the claim decide again on what it is now.
            claim = self.scheduler.state.storage.claims.get(f"{write.namespace}/{write.name}")
            self.scheduler.tell([ClusterEvent(Happened.VOLUME, obj=claim)], self._wall())
