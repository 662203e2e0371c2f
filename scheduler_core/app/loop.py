"""The loop: the only thread that touches the state. Events in, decisions out, until told to stop."""

from __future__ import annotations

import gc
import logging
import queue
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from scheduler_core.app.bound_past import BoundPast
from scheduler_core.app.metrics import Metrics
from scheduler_core.app.outcomes import (
    Ask,
    BindFailed,
    BindRead,
    EvictFailed,
    Inbox,
    Stop,
    Timing,
    WriteFailed,
)
from scheduler_core.app.waits import Waits
from scheduler_core.engine.decisions import Decision, Noticed, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.breath import Breath
from scheduler_core.kube.tracker import Event
from scheduler_core.logs import fields
from scheduler_core.model.gang import GroupRef, dialect_of
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS, PERSISTENT_VOLUME_CLAIMS, Resource
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened

log = logging.getLogger(__name__)

# Units tried between two looks at the inbox, so that decisions are not made on a state long out of date.
_BATCH: Final = 200
_IDLE_SECONDS: Final = 1.0
# Decisions rest while so many writes have no answer: what is decided later is decided on newer facts.
_MOST_BACKLOG: Final = 1000
_BACKLOG_SECONDS: Final = 0.01
# Looking again at pods that wait takes this share of the loop's time at most, and so many looks a second.
_REVIEW_SHARE: Final = 0.02
_REVIEWS_PER_SECOND: Final = 10.0
# With so many writes under way, outcomes come in crowds, which are waited for together.
_CROWD: Final = 32
# Of so many items that come together, the first one's time is near enough.
_SAME_TIME: Final = 32
# An accepted binding that the watch has not shown for so long is looked up.
CONFIRM_SECONDS: Final = 30.0


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

    accepted: deque[tuple[float, Placed]]

    @property
    def backlog(self) -> int:
        """Writes that have no answer yet."""
        ...

    def submit(self, decision: Decision, timing: Timing) -> None:
        """Carry a decision out."""
        ...

    def review(self, decision: Decision, timing: Timing) -> None:
        """Carry a decision out that came of looking again at a waiting pod, where it is news."""
        ...

    def submit_write(self, write: Write) -> None:
        """Carry a controller's write out."""
        ...

    def verify(self, decision: Placed) -> None:
        """Read a pod whose binding was accepted, and report BindRead."""
        ...


class Loop:
    """Waits until every watched resource was listed once and `lead` was called, then decides.

    `may_decide` is asked before every batch: a leader that can no longer vouch for itself decides nothing.
    `turned` is the time of the last turn, by which others see that the loop is alive.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        controllers: Sequence[Controller],
        resources: Sequence[Resource],
        metrics: Metrics,
        *,
        may_decide: Callable[[], bool] = lambda: True,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.scheduler = scheduler
        self.inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self.carrier: Carrier | None = None
        self.turned = wall()
        self._controllers = controllers
        self._waiting_for = set(resources)
        self._metrics = metrics
        self._may_decide = may_decide
        self._wall = wall
        self._waits = Waits()
        self._bound_past = BoundPast()
        self._known: dict[tuple[Resource, str], Any] = {}
        self._stopping = False
        self._breath = Breath()
        self._drained = 0
        self._reviewed = 0.0

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed once."""
        return not self._waiting_for

    def run(self) -> None:
        """Until a Stop comes. An error that ends it is logged; the process is of no use without the loop."""
        try:
            while not self._stopping:
                self._drain(self._timeout())
                self.turned = self._wall()
                if not self._stopping:
                    self._turn(self.turned)
        except Exception:
            log.exception("the loop ends")
            raise

    def _turn(self, now: float) -> None:
        carrier = self.carrier
        if carrier is None or not self.synced or not self._may_decide():
            return
        if carrier.backlog < _MOST_BACKLOG:
            self._decide(carrier, now)
            self._review(carrier, now)
        for controller in self._controllers:
            for write in controller.reconcile(self.scheduler.state, now):
                carrier.submit_write(write)
        self._look_after(carrier, now)

    def _decide(self, carrier: Carrier, now: float) -> None:
        """Up to a batch of attempts, each carried out as soon as it is decided."""
        for _ in range(_BATCH):
            began = time.perf_counter()
            decisions = self.scheduler.step(now, 1)
            if decisions:
                seconds = time.perf_counter() - began
                self._metrics.decided(decisions, seconds)
                for decision in decisions:
                    carrier.submit(decision, self._timing(decision, now, seconds))
            if not self.scheduler.queue.has_active():
                return

    def _review(self, carrier: Carrier, now: float) -> None:
        """In a quiet moment: is what a waiting pod says still true?"""
        if now < self._reviewed or self.scheduler.queue.has_active():
            return
        began = time.perf_counter()
        decisions = self.scheduler.reviews.review(now)
        seconds = time.perf_counter() - began
        if decisions:
            self._reviewed = now + max(seconds / _REVIEW_SHARE, 1.0 / _REVIEWS_PER_SECOND)
        for decision in decisions:
            carrier.review(decision, self._timing(decision, now, seconds))

    def _timing(self, decision: Decision, now: float, seconds: float) -> Timing:
        uid = decision.uid if isinstance(decision, Noticed) else decision.pod.uid
        return self._waits.timing(uid, now, seconds)

    def _look_after(self, carrier: Carrier, now: float) -> None:
        """Read what was bound long ago and is still assumed."""
        accepted = carrier.accepted
        while accepted and accepted[0][0] + CONFIRM_SECONDS <= now:
            _, decision = accepted.popleft()
            placement = self.scheduler.state.placed.get(decision.pod.uid)
            if placement is not None and placement.assumed:
                carrier.verify(decision)

    def _timeout(self) -> float:
        """How long to wait for the inbox: not at all while there is work."""
        carrier = self.carrier
        if carrier is None or not self.synced or not self._may_decide():
            return _IDLE_SECONDS
        if self.scheduler.queue.has_active():
            return 0.0 if carrier.backlog < _MOST_BACKLOG else _BACKLOG_SECONDS
        times = [part.next_time() for part in (self.scheduler.queue, self.scheduler.state.unplaced)]
        times += [self._next_review(), *(one.next_time(self.scheduler.state) for one in self._controllers)]
        due = [moment for moment in times if moment is not None]
        return max(0.0, min(min(due) - self._wall(), _IDLE_SECONDS)) if due else _IDLE_SECONDS

    def _next_review(self) -> float | None:
        due = self.scheduler.reviews.due()
        return max(due, self._reviewed) if due is not None else None

    def _drain(self, timeout: float) -> None:
        """Take everything that is there, waiting at most `timeout` seconds for the first item."""
        if timeout > 0 and self.carrier is not None and self.carrier.backlog >= _CROWD:
            seconds = self._breath.after(self._drained)
            time.sleep(seconds)
            timeout -= seconds
        self._drained = 0
        try:
            item = self.inbox.get(timeout=timeout) if timeout > 0 else self.inbox.get_nowait()
            while True:
                if self._drained % _SAME_TIME == 0:
                    now = self._wall()
                self._drained += 1
                self._take(item, now)
                item = self.inbox.get_nowait()
        except queue.Empty:
            return

    def _take(self, item: Inbox, now: float) -> None:
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
            case Ask():
                item.act(self.scheduler)
            case Stop():
                self._stopping = True

    def _observe(self, event: Event, now: float) -> None:
        key = (event.resource, event.key)
        if event.type == "SYNCED":
            self._note_synced(event.resource)
        elif event.type == "DELETED":
            gone = self._known.pop(key, None)
            if gone is not None:
                self._waits.forget(event.uid)
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
            self._waits.seen(obj.uid, now)
        else:
            self._waits.forget(obj.uid)
        carrier = self.carrier
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
            self._waits.forget(pod.uid)
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
