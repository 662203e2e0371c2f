"""The loop: the only thread that touches the state. Events in, decisions out, until told to stop.

It goes in turns, and no part of a turn may take as long as it likes: while events come faster than they are
taken in there are decisions all the same, and while there is much to decide events are taken in.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Sequence
from typing import Final

from scheduler_core.app.contracts import Carrier, Controller
from scheduler_core.app.intake import Intake
from scheduler_core.app.metrics import Metrics
from scheduler_core.app.outcomes import Inbox, Stop, Timing
from scheduler_core.app.pulse import Lag, Pulse
from scheduler_core.app.turn import Turn
from scheduler_core.engine.decisions import Asked, Decision, Noticed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.breath import Breath
from scheduler_core.model.kinds import Resource

log = logging.getLogger(__name__)

# For so long events are taken in before decisions are made.
TAKE_SECONDS: Final = 0.05
# Units tried between two looks at the inbox, and for how long, so that decisions are not made on a state long
# out of date.
_BATCH: Final = 200
DECIDE_SECONDS: Final = 0.1
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
# Statuses yield to a crowd of bindings for so long: what is written later says more.
STATUS_SECONDS: Final = 2.0
# An accepted binding that the watch has not shown for so long is looked up.
CONFIRM_SECONDS: Final = 30.0


class Loop:
    """Waits until every watched resource was listed once and `lead` was called, then decides.

    `may_decide` is asked before every batch: a leader that can no longer vouch for itself decides nothing.
    `pulse` and `lag` show others how far it is. `wall` is the time to decide by, `monotonic` that of turns.
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
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.scheduler = scheduler
        self.inbox: queue.SimpleQueue[Inbox] = queue.SimpleQueue()
        self.carrier: Carrier | None = None
        self.pulse = Pulse()
        self.lag = Lag(self.inbox, wall)
        self._intake = Intake(scheduler, resources, metrics, self.lag, lambda: self.carrier, wall)
        self._controllers = controllers
        self._metrics = metrics
        self._may_decide = may_decide
        self._wall = wall
        self._monotonic = monotonic
        self._turns = Turn(self.pulse, metrics.slow_turns.inc, monotonic)
        self._breath = Breath()
        # How many items were taken last, and whether there was no time for more.
        self._drained = 0
        self._left = False
        self._reviewed = 0.0
        self._reconciled = 0.0

    @property
    def synced(self) -> bool:
        """Whether every resource has been listed once."""
        return self._intake.synced

    def run(self) -> None:
        """Until a Stop comes. An error that ends it is logged; the process is of no use without the loop."""
        try:
            while not self._intake.stopping:
                self._drain(self._timeout())
                if not self._intake.stopping:
                    self._turn(self._wall())
                self._turns.end()
        except Exception:
            log.exception("the loop ends")
            raise

    def stop(self) -> None:
        """End after this turn, whatever waits; from any thread."""
        self._intake.stopping = True
        self.inbox.put(Stop())

    def _turn(self, now: float) -> None:
        carrier = self.carrier
        if carrier is None or not self.synced or not self._may_decide():
            self._reconciled = now
            return
        if carrier.backlog < _MOST_BACKLOG:
            self._turns.begin("deciding")
            self._decide(carrier, now)
            self._turns.begin("reviewing")
            self._review(carrier, now)
            if now >= self._next_statuses(carrier):
                self._reconcile(carrier, now)
        self._turns.begin("catching up")
        self._look_after(carrier, now)
        carrier.catch_up(now)

    def _decide(self, carrier: Carrier, now: float) -> None:
        """Up to a batch of attempts, each carried out as soon as it is decided."""
        until = self._monotonic() + DECIDE_SECONDS
        for _ in range(_BATCH):
            began = self._monotonic()
            if began >= until:
                return
            decisions = self.scheduler.step(now, 1)
            self.pulse.beats += 1
            self._turns.decisions += 1
            if decisions:
                seconds = self._monotonic() - began
                self._metrics.decided(decisions, seconds)
                for decision in decisions:
                    carrier.submit(decision, self._timing(decision, now, seconds))
            if not self.scheduler.queue.has_active():
                return

    def _review(self, carrier: Carrier, now: float) -> None:
        """In a quiet moment: is what a waiting pod says still true?"""
        if now < self._reviewed or self.scheduler.queue.has_active():
            return
        began = self._monotonic()
        decisions = self.scheduler.reviews.review(now)
        seconds = self._monotonic() - began
        if decisions:
            self._reviewed = now + max(seconds / _REVIEW_SHARE, 1.0 / _REVIEWS_PER_SECOND)
        for decision in decisions:
            carrier.review(decision, self._timing(decision, now, seconds))

    def _reconcile(self, carrier: Carrier, now: float) -> None:
        """Statuses; like decisions they are written later, and newer, while too much is under way."""
        self._reconciled = now
        for controller in self._controllers:
            self._turns.begin(type(controller).__name__)
            for write in controller.reconcile(self.scheduler.state, now):
                carrier.submit_write(write)
                self._turns.writes += 1
            self.pulse.beats += 1

    def _timing(self, decision: Decision, now: float, seconds: float) -> Timing:
        if isinstance(decision, Asked):
            # The attempt is not over.
            return Timing(now, seconds, now)
        uid = decision.uid if isinstance(decision, Noticed) else decision.pod.uid
        return self._intake.waits.timing(uid, now, seconds)

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
        if carrier.backlog >= _MOST_BACKLOG:
            return _BACKLOG_SECONDS
        state = self.scheduler.state
        if self.scheduler.queue.has_active():
            return 0.0
        times = [part.next_time() for part in (self.scheduler.queue, state.unplaced)]
        times += [self._next_review(), carrier.next_time()]
        statuses = [controller.next_time(state) for controller in self._controllers]
        earliest = self._next_statuses(carrier)
        times += [max(moment, earliest) for moment in statuses if moment is not None]
        due = [moment for moment in times if moment is not None]
        return max(0.0, min(min(due) - self._wall(), _IDLE_SECONDS)) if due else _IDLE_SECONDS

    def _next_statuses(self, carrier: Carrier) -> float:
        """When controllers may write at the earliest."""
        return self._reconciled + STATUS_SECONDS if carrier.backlog >= _CROWD else 0.0

    def _next_review(self) -> float | None:
        due = self.scheduler.reviews.due()
        return max(due, self._reviewed) if due is not None else None

    def _drain(self, timeout: float) -> None:
        """Take what is there, as much as there is time for; waits at most `timeout` seconds for the first.

        Items are taken in the order in which they came, so those of one watch are in order.
        """
        crowded = self.carrier is not None and self.carrier.backlog >= _CROWD
        if timeout > 0 and crowded and not self._left:
            seconds = self._breath.after(self._drained)
            time.sleep(seconds)
            timeout -= seconds
        self._drained, self._left = 0, False
        try:
            item = self.inbox.get(timeout=timeout) if timeout > 0 else self.inbox.get_nowait()
            self._turns.begin("taking events")
            until = self._monotonic() + TAKE_SECONDS
            while True:
                if self._drained % _SAME_TIME == 0:
                    now = self._wall()
                self._drained += 1
                self._intake.take(item, now)
                self.pulse.beats += 1
                if self._monotonic() >= until:
                    self._left = True
                    self.lag.left()
                    break
                item = self.inbox.get_nowait()
        except queue.Empty:
            self.lag.emptied()
        self._turns.events += self._drained
