"""Failure handler, as in kube-scheduler: writes conditions, nominated nodes and events of pods that were not
scheduled.

A nominated node is written at once, because later decisions depend on it. Reasons are written in the order of
the queue within a rate limit, always in their newest form, and namespaces take turns; a reason with only
other figures is written less often. Pods that were bound or deleted meanwhile cost nothing.
"""

from __future__ import annotations

import logging
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from scheduler_core.app.failures.event_aggregator import EventAggregator, pod_reference
from scheduler_core.app.failures.rejections import PodRejection, RejectionChange, Rejections
from scheduler_core.app.failures.report_turns import ReportTurns
from scheduler_core.engine.decisions import Noticed, Rejected
from scheduler_core.errors import MusterError
from scheduler_core.kube.errors import ApiError, Conflict, NotFound, TooManyRequests, refuses
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.writes.correlator import ObjectReference
from scheduler_core.kube.writes.write_connection import WritePriority
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.logs import fields
from scheduler_core.model.pods.pod import Pod

log = logging.getLogger(__name__)

# Rate limit and burst of reasons, each with its event. Bound pods use up a share of it, except for the
# minimum.
PER_SECOND: Final = 100.0
MIN_PER_SECOND: Final = 20.0
BURST: Final = 100
MIN_BURST: Final = 20
BOUND_COST: Final = 0.5
# Rate limit and burst for a known reason with other figures.
FIGURES_PER_SECOND: Final = 10.0
FIGURES_BURST: Final = 50
# Conditions in flight.
MAX_IN_FLIGHT: Final = 128
# Pause after a failed write, in seconds.
PAUSE_SECONDS: Final = 2.0
# Interval at which postponed events are checked: do their pods still wait?
CHECK_SECONDS: Final = 1.0
# Delayed conditions are written in batches: writing them one by one costs the server a quarter more.
BATCH_SECONDS: Final = 1.0
_SERVERS_FAULT: Final = 500


class PodEvents(NamedTuple):
    """Events about pods that wait and their groups.

    `record` records one: object, profile, reason, note; False if it is postponed. `withdraw` cancels the
    postponed event about an object.
    """

    record: Callable[[ObjectReference, str, str, str], bool]
    is_postponed: Callable[[ObjectReference], bool]
    withdraw: Callable[[ObjectReference], None]


class _Report(NamedTuple):
    pod: Pod
    rejection: PodRejection
    event: str
    profile: str
    # Whether the pod has its own events.
    own_event: bool


class FailureHandler:
    """For the loop's thread only.

    `waiting` returns the newest form of a pod while it waits for a node. `failed` is told of each write that
    failed, by its resource, on a thread of the writer.
    """

    def __init__(
        self,
        writer: ApiWriter,
        events: PodEvents,
        aggregator: EventAggregator,
        waiting: Callable[[str], Pod | None],
        wall: Callable[[], float],
        failed: Callable[[str], None] = lambda resource: None,
    ) -> None:
        self._writer = writer
        self._count_failure = failed
        self._events = events
        self._aggregator = aggregator
        self._waiting = waiting
        self._wall = wall
        self._rejections = Rejections()
        self._shared_limiter = RateLimiter(PER_SECOND - MIN_PER_SECOND, BURST - MIN_BURST, monotonic=wall)
        self._reserved_limiter = RateLimiter(MIN_PER_SECOND, MIN_BURST, monotonic=wall)
        self._figures_limiter = RateLimiter(FIGURES_PER_SECOND, FIGURES_BURST, monotonic=wall)
        # By uid, of each namespace in the order in which the reports became pending.
        self._pending: dict[RejectionChange, ReportTurns[_Report]] = {
            RejectionChange.REASON: ReportTurns(),
            RejectionChange.FIGURES: ReportTurns(),
        }
        self._in_flight: set[str] = set()
        # The objects of postponed events, with the uid of a pod that waits for this reason.
        self._postponed: dict[ObjectReference, str] = {}
        self._next_check = float("-inf")
        # Filled by threads of the writer.
        self._failed: deque[_Report] = deque()
        self._paused_until = float("-inf")
        self._next_batch = dict.fromkeys(self._pending, float("-inf"))

    @property
    def pending(self) -> int:
        """Pods with a pending report."""
        return sum(map(len, self._pending.values()))

    def pod_bound(self) -> None:
        """A pod was bound: pending reports wait longer."""
        self._shared_limiter.spend(BOUND_COST)

    def is_changed(self, decision: Rejected | Noticed) -> bool:
        """Whether the last report of the object was different, or there is none."""
        if isinstance(decision, Rejected):
            for queue in self._pending.values():
                if (report := queue.get(decision.pod.uid)) is not None:
                    return report.rejection != PodRejection(
                        decision.reason, decision.message, decision.nominated
                    )
        return self._rejections.is_changed(decision)

    def notice(self, decision: Noticed) -> None:
        """Record an event about an object other than a pod, at once."""
        self._rejections.record_notice(decision)
        about = ObjectReference(
            decision.api_version, decision.kind, decision.namespace, decision.name, decision.uid
        )
        self._tell(about, decision.profile, decision.reason, decision.message, decision.waiting)

    def handle(self, decision: Rejected, now: float) -> None:
        """Report a pod that was not scheduled."""
        pod = decision.pod
        # Pods of one kind have equal messages: keep one string.
        rejection = PodRejection(decision.reason, sys.intern(decision.message), decision.nominated)
        own_event = self._aggregator.add(pod, rejection, decision.event, decision.profile, now)
        report = _Report(pod, rejection, decision.event, decision.profile, own_event)
        change = self._rejections.change(pod, rejection)
        if change is RejectionChange.NODE:
            self._remove(pod.uid)
            self._write(pod, report, now, WritePriority.URGENT)
            if pod.uid in self._in_flight:
                # The write in flight may arrive after this one, with older content: write the reason again.
                self._pending[RejectionChange.REASON].put(pod.namespace, pod.uid, report)
        elif change is RejectionChange.NONE:
            self._remove(pod.uid)
            if own_event and not self._pending[RejectionChange.FIGURES] and self._figures_limiter.take():
                self._record_event(report)
        else:
            other = RejectionChange.REASON if change is RejectionChange.FIGURES else RejectionChange.FIGURES
            self._pending[other].drop(pod.uid)
            self._pending[change].put(pod.namespace, pod.uid, report)
        self.flush_reports(now)

    def flush_reports(self, now: float) -> None:
        """Write as many pending reports as the rate limits allow."""
        while self._failed:
            self._paused_until = now + PAUSE_SECONDS
            self._requeue(self._failed.popleft())
        if now < self._paused_until:
            return
        self._write_some(RejectionChange.REASON, (self._shared_limiter, self._reserved_limiter), now)
        self._write_some(RejectionChange.FIGURES, (self._figures_limiter,), now)
        self._withdraw_ended(now)
        for summary in self._aggregator.due(now):
            self._events.record(summary.regarding, summary.profile, summary.event, summary.note)

    def next_time(self) -> float | None:
        """When `flush_reports` is due, or None."""
        times = []
        for change, queue in self._pending.items():
            if queue:
                times.append(max(self._next_batch[change], self._paused_until))
        if self._postponed:
            times.append(max(self._next_check, self._paused_until))
        if (look := self._aggregator.next_time()) is not None:
            times.append(max(look, self._paused_until))
        return min(times, default=None)

    def _write_some(self, change: RejectionChange, limiters: tuple[RateLimiter, ...], now: float) -> None:
        queue = self._pending[change]
        if now < self._next_batch[change]:
            return
        while queue:
            uid, report = queue.next()
            pod = self._waiting(uid)
            if pod is not None:
                held = uid in self._in_flight or len(self._in_flight) >= MAX_IN_FLIGHT
                if held or not any(limiter.take() for limiter in limiters):
                    self._next_batch[change] = now + BATCH_SECONDS
                    return
                queue.had_turn()
            queue.drop(uid)
            if pod is not None:
                self._write(pod, report, now, WritePriority.CONDITION)

    def _write(self, pod: Pod, report: _Report, now: float, priority: WritePriority) -> None:
        patch = self._rejections.patch(pod, report.rejection, now)
        if patch is not None:
            if priority is WritePriority.CONDITION:
                self._in_flight.add(pod.uid)
            self._writer.submit(patch, partial(self._written, report, priority), priority)
        if report.own_event:
            self._record_event(report)

    def _record_event(self, report: _Report) -> None:
        pod, note = report.pod, report.rejection.message
        self._tell(pod_reference(pod), report.profile, report.event, note, pod.uid)

    def _tell(self, about: ObjectReference, profile: str, reason: str, note: str, waiting: str) -> None:
        """Record an event; it holds as long as the pod `waiting` waits, if one is given."""
        self._postponed.pop(about, None)
        if not self._events.record(about, profile, reason, note) and waiting:
            self._postponed[about] = waiting

    def _withdraw_ended(self, now: float) -> None:
        """Withdraw the postponed events of pods that no longer wait."""
        if now < self._next_check or not self._postponed:
            return
        self._next_check = now + CHECK_SECONDS
        for about, uid in list(self._postponed.items()):
            if self._waiting(uid) is None:
                self._events.withdraw(about)
            elif self._events.is_postponed(about):
                continue
            del self._postponed[about]

    def _written(self, report: _Report, priority: WritePriority, error: MusterError | None) -> None:
        """The outcome of a write; on a thread of the writer."""
        if error is not None and not isinstance(error, NotFound | Conflict):
            log.warning("writing the condition of a pod: %s", error, extra=fields(pod=report.pod.key))
            self._count_failure("pods/status")
            refused = refuses(error) or (isinstance(error, ApiError) and 0 < error.status < _SERVERS_FAULT)
            if not refused or isinstance(error, TooManyRequests):
                self._failed.append(report)
        if priority is WritePriority.CONDITION:
            self._in_flight.discard(report.pod.uid)

    def _requeue(self, report: _Report) -> None:
        """Report again, unless there is a newer report."""
        uid = report.pod.uid
        pending = any(uid in queue for queue in self._pending.values())
        if not pending and self._rejections.is_latest(uid, report.rejection):
            again = report._replace(own_event=False)
            self._pending[RejectionChange.REASON].put(report.pod.namespace, uid, again)

    def _remove(self, uid: str) -> None:
        for queue in self._pending.values():
            queue.drop(uid)
