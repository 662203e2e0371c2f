"""The scheduling loop: the only thread that changes the state. It applies events and makes decisions until
stopped.

The loop runs in turns, and each part of a turn has a time limit: decisions are made even if events come
faster than they are applied, and events are applied even if many pods are to be scheduled.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from scheduler_core.app.loop.dispatcher import Dispatcher
from scheduler_core.app.loop.event_handlers import EventHandlers, waits_for
from scheduler_core.app.loop.inbox import Inbox, Stop, Timing
from scheduler_core.app.loop.progress import Heartbeat, InboxLag, TurnTimer
from scheduler_core.app.loop.schedule import Schedule
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.controllers.controller import Controller
from scheduler_core.engine.decisions import Asked, Decision, Evicted, Noticed, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.batching import BatchDelay
from scheduler_core.model.kinds import Resource

log = logging.getLogger(__name__)

# Time limit for applying events in a turn.
TAKE_SECONDS: Final = 0.05
# Limits of the attempts in a turn, by number and by time, so that decisions are not based on an outdated
# state.
_BATCH: Final = 200
DECIDE_SECONDS: Final = 0.1
# The same for namespaces that used up their share of the processor: others may have come meanwhile.
VAIN_SECONDS: Final = 0.02
# And for so many turns in a row they are not tried at all while events are left.
MOST_HELD_BACK: Final = 4
# What an attempt may take for each pod that it places, or evicts from its own namespace, and for each that it
# evicts elsewhere: of these there are no more than others borrow.
PLACED_SECONDS: Final = 0.002
RECLAIMED_SECONDS: Final = 0.05
_IDLE_SECONDS: Final = 1.0
# No decisions are made while this number of writes has no response: later decisions use newer facts.
_MOST_BACKLOG: Final = 1000
_BACKLOG_SECONDS: Final = 0.01
# Limits of the reviews of waiting pods: share of the loop's time, and reviews per second.
_REVIEW_SHARE: Final = 0.02
_REVIEWS_PER_SECOND: Final = 10.0
# With this number of writes in flight, their outcomes are collected.
_MANY_IN_FLIGHT: Final = 32
# The clock is read once for this number of items.
_SAME_TIME: Final = 32
# The longest delay of status writes in favour of bindings: later writes contain more.
STATUS_SECONDS: Final = 2.0
# An accepted binding that the watch has not shown for this time is read.
CONFIRM_SECONDS: Final = 30.0
# Parts of the loop beside the controllers, which have the names of their classes.
_QUEUE: Final = "active queue"
_ENGINE: Final = (_QUEUE, "waiting queue", "pending charges", "departures", "quota holds")
_REVIEWS: Final = ("reviews",)
_REPORTS: Final = ("reports",)


class Loop:
    """Schedules once every watched resource has been listed and `lead` was called.

    `may_decide` is called before every batch: a leader that no longer leads for certain decides nothing.
    `heartbeat`, `lag` and `schedule.stuck` show the progress to other threads. `wall` is the clock of
    decisions, `monotonic` that of turns, `processor` that of what attempts cost on a machine of any load.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        controllers: Sequence[Controller],
        resources: Sequence[Resource],
        metrics: SchedulerMetrics,
        *,
        may_decide: Callable[[], bool] = lambda: True,
        wall: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.perf_counter,
        processor: Callable[[], float] = time.thread_time,
    ) -> None:
        self.scheduler = scheduler
        self.inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self.dispatcher: Dispatcher | None = None
        self.heartbeat = Heartbeat()
        self.lag = InboxLag(self.inbox, wall)
        self._intake = EventHandlers(scheduler, resources, metrics, self.lag, lambda: self.dispatcher, wall)
        self._controllers = controllers
        self._metrics = metrics
        self._may_decide = may_decide
        self._wall = wall
        self._monotonic = monotonic
        self._processor = processor
        self._turns = TurnTimer(self.heartbeat, metrics.slow_turns.inc, monotonic)
        self._batch_delay = BatchDelay()
        # The number of items in the last turn, and whether the time limit left items in the inbox.
        self._drained = 0
        self._items_left = False
        self._held_back = 0
        self._reviewed = 0.0
        self._reconciled = 0.0
        self._decided = 0.0
        self.schedule = self._scheduled(scheduler, controllers)

    def _scheduled(self, scheduler: Scheduler, controllers: Sequence[Controller]) -> Schedule:
        """The schedule of all parts that have work without an event."""
        schedule, state = Schedule(self._metrics.part_stuck), scheduler.state
        parts = (scheduler.queue, state.unplaced, state.departures, state.gangs.quota_holds)
        times = (self._next_try, *(part.next_time for part in parts))
        for name, next_time in zip(_ENGINE, times, strict=True):
            schedule.add(name, next_time)
        schedule.add(*_REVIEWS, self._next_review)
        schedule.add(*_REPORTS, self._next_report)
        for controller in controllers:
            schedule.add(_name(controller), partial(controller.next_time, state), self._next_statuses)
        return schedule

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed."""
        return self._intake.synced

    def run(self) -> None:
        """Run until Stop. An error is logged and ends the loop, and with it the process."""
        try:
            while not self._intake.stopping:
                self.turn(self.timeout())
        except Exception:
            log.exception("the loop ends")
            raise

    def stop(self) -> None:
        """Stop after this turn, whatever is in the inbox; from any thread."""
        self._intake.stopping = True
        self.inbox.put(Stop())

    def turn(self, timeout: float) -> None:
        """Apply events, waiting at most `timeout` seconds for the first one; then decide, unless stopped."""
        self._drain(timeout)
        if not self._intake.stopping:
            self._act(self._wall())
        self._turns.end()

    def _act(self, now: float) -> None:
        dispatcher = self.dispatcher
        if dispatcher is None or not self.synced or not self._may_decide():
            self._reconciled = now
            return
        if dispatcher.backlog < _MOST_BACKLOG:
            self._turns.begin("deciding")
            self._decide(dispatcher, now)
            self._turns.begin("reviewing")
            self._review(dispatcher, now)
            if now >= self._next_statuses():
                self._reconcile(dispatcher, now)
        self._turns.begin("catching up")
        self._verify_accepted(dispatcher, now)
        dispatcher.flush_reports(now)
        self.schedule.had_turn(_REPORTS, now)

    def _decide(self, dispatcher: Dispatcher, now: float) -> None:
        """Up to a batch of attempts; each decision is carried out at once."""
        self.schedule.had_turn(_ENGINE, now)
        held_back = self._hold_back()
        start = self._monotonic()
        until = start + DECIDE_SECONDS
        for _ in range(_BATCH):
            began = self._monotonic()
            if began >= until:
                return
            used = self._processor()
            decisions = self.scheduler.step(now, 1)
            used = self._processor() - used
            self.heartbeat.beats += 1
            self._turns.decisions += 1
            if decisions:
                self._decided = now
                self.schedule.worked(_QUEUE)
                seconds = self._monotonic() - began
                self._metrics.decided(decisions, seconds)
                if self._used_up(decisions, used, now):
                    until = start + VAIN_SECONDS
                for decision in decisions:
                    dispatcher.submit(decision, self._timing(decision, now, seconds))
                    self._note_wait(decision)
            if not self.scheduler.queue.has_active() or (held_back and not decisions):
                return

    def _hold_back(self) -> bool:
        """Hold back who used up its share while events are left, of which some may be pods of others; whether
        this is done.
        """
        shares = self.scheduler.queue.shares
        held_back = self._items_left and bool(shares.used_up) and self._held_back < MOST_HELD_BACK
        self._held_back = self._held_back + 1 if held_back else 0
        shares.held_back = held_back
        return held_back

    def _used_up(self, decisions: Sequence[Decision], seconds: float, now: float) -> bool:
        """Count what an attempt took that only refused pods, or took long for what it did; whether the
        namespace of its pods used up its share.
        """
        tried = [item.pod.namespace for item in decisions if isinstance(item, Rejected | Placed)]
        if not tried or any(isinstance(item, Asked) for item in decisions) or seconds <= _allowed(decisions):
            return False
        shares = self.scheduler.queue.shares
        shares.spend(tried[0], seconds, now)
        return shares.over(tried[0], now)

    def _review(self, dispatcher: Dispatcher, now: float) -> None:
        """While the queue is empty: check whether the reports of waiting pods are still true."""
        if now < self._reviewed or self.scheduler.queue.has_active():
            return
        self.schedule.had_turn(_REVIEWS, now)
        began = self._monotonic()
        decisions = self.scheduler.reviews.review(now)
        seconds = self._monotonic() - began
        if decisions:
            self.schedule.worked(*_REVIEWS)
            self._reviewed = now + max(seconds / _REVIEW_SHARE, 1.0 / _REVIEWS_PER_SECOND)
        for decision in decisions:
            dispatcher.review(decision, self._timing(decision, now, seconds))

    def _reconcile(self, dispatcher: Dispatcher, now: float) -> None:
        """Run the controllers. While many writes are in flight, they run later and write more at once."""
        self._reconciled = now
        for controller in self._controllers:
            self._turns.begin(_name(controller))
            for write in controller.reconcile(self.scheduler.state, now):
                dispatcher.submit_write(write)
                self._turns.writes += 1
                self.schedule.worked(_name(controller))
            self.heartbeat.beats += 1
        self.schedule.had_turn(map(_name, self._controllers), now)

    def _timing(self, decision: Decision, now: float, seconds: float) -> Timing:
        if isinstance(decision, Asked):
            # The attempt is not finished.
            return Timing(now, seconds, now)
        if isinstance(decision, Noticed):
            return self._intake.waiting_times.timing(decision.uid, now, seconds)
        quota = self.scheduler.state.ledger.quota_of(decision.pod.namespace) is not None
        return self._intake.waiting_times.timing(decision.pod.uid, now, seconds, quota=quota)

    def _note_wait(self, decision: Decision) -> None:
        """Remember what a refused pod of a quota waits for."""
        if isinstance(decision, Rejected) and self.scheduler.state.ledger.quota_of(decision.pod.namespace):
            reason = waits_for(self.scheduler.queue.refused_by(decision.pod.uid))
            self._intake.waiting_times.refused(decision.pod.uid, reason)
            self._metrics.wait_begins(decision.pod.namespace, reason)

    def _verify_accepted(self, dispatcher: Dispatcher, now: float) -> None:
        """Read pods whose bindings were accepted long ago and are still assumed."""
        accepted = dispatcher.accepted
        while accepted and accepted[0][0] + CONFIRM_SECONDS <= now:
            _, decision = accepted.popleft()
            placement = self.scheduler.state.placed.get(decision.pod.uid)
            if placement is not None and placement.assumed:
                dispatcher.verify(decision)

    def timeout(self) -> float:
        """Seconds that the next turn may wait for the inbox; 0 while there is work."""
        dispatcher = self.dispatcher
        if dispatcher is None or not self.synced or not self._may_decide():
            return _IDLE_SECONDS
        if dispatcher.backlog >= _MOST_BACKLOG:
            return _BACKLOG_SECONDS
        due = self.schedule.next_time()
        return max(0.0, min(due - self._wall(), _IDLE_SECONDS)) if due is not None else _IDLE_SECONDS

    def _next_try(self) -> float | None:
        """At once if units are active: the time of the last decision, so it moves while some are made."""
        return self._decided if self.scheduler.queue.has_active() else None

    def _next_report(self) -> float | None:
        return self.dispatcher.next_time() if self.dispatcher is not None else None

    def _next_statuses(self) -> float:
        """The earliest time of status writes."""
        busy = self.dispatcher is not None and self.dispatcher.backlog >= _MANY_IN_FLIGHT
        return self._reconciled + STATUS_SECONDS if busy else 0.0

    def _next_review(self) -> float | None:
        due = self.scheduler.reviews.due()
        return max(due, self._reviewed) if due is not None else None

    def _drain(self, timeout: float) -> None:
        """Apply the items of the inbox within the time limit; waits at most `timeout` seconds for the first
        item.

        Items are applied in order, so the events of one watch stay in order.
        """
        busy = self.dispatcher is not None and self.dispatcher.backlog >= _MANY_IN_FLIGHT
        if timeout > 0 and busy and not self._items_left:
            seconds = self._batch_delay.after(self._drained)
            time.sleep(seconds)
            timeout -= seconds
        self._drained, self._items_left = 0, False
        try:
            item = self.inbox.get(timeout=timeout) if timeout > 0 else self.inbox.get_nowait()
            self._turns.begin("taking events")
            until = self._monotonic() + TAKE_SECONDS
            while True:
                if self._drained % _SAME_TIME == 0:
                    now = self._wall()
                self._drained += 1
                self._intake.take(item, now)
                self.heartbeat.beats += 1
                if self._monotonic() >= until:
                    self._items_left = True
                    self.lag.note_left()
                    break
                item = self.inbox.get_nowait()
        except queue.Empty:
            self.lag.note_empty()
        self._turns.events += self._drained


def _name(controller: Controller) -> str:
    return type(controller).__name__


def _allowed(decisions: Sequence[Decision]) -> float:
    """The seconds that an attempt with these decisions may take before they count."""
    done = [item for item in decisions if isinstance(item, Placed | Evicted)]
    elsewhere = sum(
        isinstance(item, Evicted) and item.pod.namespace != item.preemptor.namespace for item in done
    )
    return elsewhere * RECLAIMED_SECONDS + (len(done) - elsewhere) * PLACED_SECONDS
