"""API dispatcher: carries decisions out as API writes and events on other threads, and reports outcomes to
the loop.

After a binding without a response the dispatcher reads the pod, and sends the binding again if the pod has no
node. So the API server decides the outcome, not an assumption.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial

import msgspec

from scheduler_core.app.extenders.chain import ExtenderChain
from scheduler_core.app.extenders.http_extender import ExtenderError
from scheduler_core.app.failures.event_aggregator import EventAggregator, pod_reference
from scheduler_core.app.failures.failure_handler import FailureHandler, PodEvents
from scheduler_core.app.loop.inbox import BindFailed, BindRead, EvictFailed, Inbox, Timing, WriteFailed
from scheduler_core.app.metrics.metrics import SchedulerMetrics
from scheduler_core.engine.decisions import (
    Asked,
    Decision,
    Evicted,
    Noticed,
    Placed,
    Rejected,
    eviction_of,
)
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Conflict, NotFound, Timeout, Unreachable, refuses
from scheduler_core.kube.writes.correlator import ObjectReference, Occurrence
from scheduler_core.kube.writes.recorder import EventRecorder
from scheduler_core.kube.writes.writer import ApiWriter
from scheduler_core.logs import fields
from scheduler_core.model import names
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.writes import Bind, Evict, Write, target

log = logging.getLogger(__name__)

_NO_TIMING = Timing()
_NO_ANNOTATIONS: Mapping[str, str] = {}
# Seconds before a binding with an unknown outcome is sent again.
REPEAT_DELAYS = (0.0, 0.2, 1.0)


class ApiDispatcher:
    """Carries decisions out. `report` takes outcomes, from any thread; `identity` names this process.

    `accepted` has (time, decision) of the bindings that the API server accepted, the oldest first, until the
    loop takes them. `waiting` returns the newest form of a pod that waits, by uid; `home` returns the object
    of aggregated events about a pod; `parse` reads a pod.
    """

    def __init__(
        self,
        client: Client,
        writer: ApiWriter,
        recorder: EventRecorder,
        report: Callable[[Inbox], None],
        identity: str,
        metrics: SchedulerMetrics,
        wall: Callable[[], float] = time.time,
        *,
        waiting: Callable[[str], Pod | None],
        home: Callable[[Pod], ObjectReference | None] = lambda pod: None,
        extenders: ExtenderChain | None = None,
        parse: Callable[[bytes | msgspec.Raw], Pod] = parse_pod,
    ) -> None:
        self.accepted: deque[tuple[float, Placed]] = deque()
        self._client = client
        self._parse = parse
        self._writer = writer
        self._recorder = recorder
        self._report = report
        self._identity = identity
        self._metrics = metrics
        self._wall = wall
        self._extenders = extenders
        self._stopping = threading.Event()
        self._failure_handler = FailureHandler(
            writer,
            PodEvents(self._warn, recorder.is_postponed, recorder.withdraw),
            EventAggregator(home, waiting),
            waiting,
            wall,
            metrics.write_failed,
        )

    @property
    def backlog(self) -> int:
        """Writes without a response."""
        return self._writer.backlog

    def submit(self, decision: Decision, timing: Timing = _NO_TIMING) -> None:
        """Queue a decision."""
        match decision:
            case Placed():
                self._place(decision, timing)
            case Evicted():
                self._writer.workers.submit(partial(self._evict, decision))
            case Rejected():
                self._reject(decision)
            case Noticed():
                self._failure_handler.notice(decision)
            case Asked():
                if self._extenders is not None:
                    self._extenders.ask(decision.question)

    def review(self, decision: Decision, timing: Timing = _NO_TIMING) -> None:
        """Queue the result of a review of a waiting pod, if it changed."""
        if not isinstance(decision, Rejected | Noticed) or self._failure_handler.is_changed(decision):
            self.submit(decision, timing)

    def submit_write(self, write: Write) -> None:
        """Queue a controller's write."""
        if isinstance(write, Evict):
            self._writer.workers.submit(partial(self._in_turn, write))
        else:
            self._writer.submit(write, partial(self._written, write))

    def flush_reports(self, now: float) -> None:
        """Write the pending conditions and events of waiting pods, within the rate limits."""
        self._failure_handler.flush_reports(now)

    def next_time(self) -> float | None:
        """When `flush_reports` is due, or None."""
        return self._failure_handler.next_time()

    def stop(self, timeout: float) -> None:
        """Finish the writes that were sent. Unsent writes are dropped; the next leader decides again."""
        self._writer.drop_unsent()
        deadline = time.monotonic() + timeout
        while self._unfinished() and time.monotonic() < deadline:
            time.sleep(0.002)
        self._stopping.set()

    def _unfinished(self) -> int:
        return self.backlog + (self._extenders.binding if self._extenders is not None else 0)

    # Bindings

    def _place(self, decision: Placed, timing: Timing) -> None:
        bind = decision.bind
        self._failure_handler.pod_bound()
        if isinstance(bind, Bind) and bind.by and self._extenders is not None:
            self._extenders.bind(bind, partial(self._bind_in_turn, decision, timing))
        elif decision.pre_bind or not isinstance(bind, Bind):
            self._writer.workers.submit(partial(self._bind_in_turn, decision, timing))
        else:
            self._writer.submit(bind, partial(self._answered, decision, timing))

    def _bind_in_turn(self, decision: Placed, timing: Timing) -> None:
        """The writes before the binding and the binding itself, one after the other."""
        try:
            for write in (*decision.pre_bind, decision.bind):
                if not self._writer.may_write():
                    return
                self._execute(write)
        except MusterError as error:
            self._resolve(decision, timing, error)
        else:
            self._bound(decision, timing)

    def _execute(self, write: Write) -> None:
        """Write, or call the extender that binds. If an ignorable extender fails, the scheduler binds itself.
        Raises MusterError.
        """
        if isinstance(write, Bind) and write.by and self._extenders is not None:
            try:
                self._extenders.bind_now(write)
                return
            except ExtenderError:
                if not self._extenders.may_bind(write):
                    raise
        self._client.write(write)

    def _answered(self, decision: Placed, timing: Timing, error: MusterError | None) -> None:
        if error is None:
            self._bound(decision, timing)
        else:
            self._writer.workers.submit(partial(self._resolve, decision, timing, error))

    def _bound(self, decision: Placed, timing: Timing) -> None:
        now = self._wall()
        self.accepted.append((now, decision))
        self._metrics.bound(decision, timing, now)
        if log.isEnabledFor(logging.DEBUG):
            log.debug("bound", extra=fields(pod=decision.pod.key, node=decision.node))
        note = f"Successfully assigned {decision.pod.key} to {decision.node}"
        kind, reason = names.EVENT_NORMAL, names.EVENT_SCHEDULED
        self._event(decision.pod, decision.profile, kind, reason, "Binding", note, now=now)
        for write in decision.post_bind:
            self.submit_write(write)

    def _resolve(self, decision: Placed, timing: Timing, error: MusterError) -> None:
        """Resolve a binding that was refused or got no response.

        While the pod has no node, a binding without a response may still be carried out. Until that is
        settled, the pod must not be bound to another node, nor other pods in its place. The same binding is
        sent again: the server carries it out, or refuses it because the first one was carried out.
        """
        pod = decision.pod
        for delay in (*REPEAT_DELAYS, None):
            read, seen = self._read(pod)
            if not read:
                return
            if seen is not None and seen.uid == pod.uid and seen.node_name == decision.node:
                self._bound(decision, timing)
                return
            if delay is None or not self._may_be_in_flight(decision, error, seen):
                break
            if self._stopping.wait(delay):
                return
            try:
                self._execute(decision.bind)
            except MusterError as again:
                error = again
            else:
                self._bound(decision, timing)
                return
        self._metrics.bind_failed(decision, timing, self._wall())
        if not isinstance(error, Conflict | NotFound):
            self._metrics.write_failed(target(decision.bind))
        self._report(BindFailed(decision, str(error), seen))
        note = f"binding to {decision.node} failed: {error}"
        self._event(
            pod, decision.profile, names.EVENT_WARNING, names.EVENT_FAILED_SCHEDULING, "Binding", note
        )

    def _may_be_in_flight(self, decision: Placed, error: MusterError, seen: Pod | None) -> bool:
        """Whether a binding may still be carried out, and may be repeated."""
        # After any other response the server has finished the request.
        unanswered = isinstance(error, Unreachable | Timeout | ExtenderError) and error.maybe_accepted
        without_node = seen is not None and seen.uid == decision.pod.uid and not seen.node_name
        repeatable = isinstance(decision.bind, Bind) and self._writer.may_write()
        return unanswered and without_node and repeatable

    def verify(self, decision: Placed) -> None:
        """Read a pod whose accepted binding the watch has not shown; the loop gets BindRead."""
        self._writer.workers.submit(partial(self._verify, decision))

    def _verify(self, decision: Placed) -> None:
        read, seen = self._read(decision.pod)
        if read:
            self._report(BindRead(decision, seen))

    def _read(self, pod: Pod) -> tuple[bool, Pod | None]:
        """Whether the API server answered (until the stop), and the pod; None if it is gone."""
        delay = 0.1
        while not self._stopping.is_set():
            try:
                return True, self._parse(self._client.get(PODS, pod.namespace, pod.name))
            except NotFound:
                return True, None
            except ModelError as error:
                log.warning("a pod cannot be read after its binding: %s", error, extra=fields(pod=pod.key))
                return True, None
            except MusterError as error:
                log.warning("reading a pod after its binding: %s", error, extra=fields(pod=pod.key))
                self._stopping.wait(delay)
                delay = min(5.0, delay * 2)
        return False, None

    # Rejections and evictions

    def _reject(self, decision: Rejected) -> None:
        for write in decision.writes:
            self.submit_write(write)
        self._failure_handler.handle(decision, self._wall())

    def _warn(self, about: ObjectReference, profile: str, reason: str, note: str) -> bool:
        """Record a warning event about a waiting pod or its group. False if it is postponed."""
        kind, action, me = names.EVENT_WARNING, "Scheduling", self._identity
        return self._recorder.record(Occurrence(about, kind, reason, action, note, profile, me, self._wall()))

    def _evict(self, decision: Evicted) -> None:
        pod, preemptor = decision.pod, decision.preemptor
        if not self._writer.may_write():
            return
        write = eviction_of(decision)
        try:
            self._client.write(write)
        except MusterError as error:
            log.warning("evicting: %s", error, extra=fields(pod=pod.key, preemptor=preemptor.key))
            # If the pod is gone or was replaced, the watch reports it.
            if not isinstance(error, Conflict | NotFound):
                self._metrics.write_failed(target(write))
                self._report(EvictFailed(decision, str(error), refuses(error)))
            return
        log.info("evicted", extra=fields(pod=pod.key, preemptor=preemptor.key))
        kind, reason, note = names.EVENT_NORMAL, names.EVENT_PREEMPTED, decision.message
        related = None if decision.hides else pod_reference(preemptor)
        told = decision.record.annotations() if decision.record is not None else {}
        self._event(pod, decision.profile, kind, reason, "Preempting", note, related, annotations=told)

    # Controllers' writes

    def _in_turn(self, write: Write) -> None:
        try:
            if self._writer.may_write():
                self._client.write(write)
        except MusterError as error:
            self._written(write, error)

    def _written(self, write: Write, error: MusterError | None) -> None:
        if error is None:
            return
        # After a conflict, or if the object is gone, the watch event leads to the next decision.
        if not isinstance(error, Conflict | NotFound):
            log.warning("a write failed: %s", error)
            self._metrics.write_failed(target(write))
        self._report(WriteFailed(write, str(error)))

    def _event(
        self,
        pod: Pod,
        profile: str,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ObjectReference | None = None,
        now: float | None = None,
        annotations: Mapping[str, str] = _NO_ANNOTATIONS,
    ) -> None:
        now, about = self._wall() if now is None else now, pod_reference(pod)
        self._recorder.record(
            Occurrence(about, kind, reason, action, note, profile, self._identity, now, related, annotations)
        )
