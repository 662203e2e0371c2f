"""Decisions become API writes and events, on threads of their own; outcomes go back to the loop.

A binding whose answer was lost is resolved by reading the pod, and by sending it again where it has no node:
the API decides, not an assumption.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from functools import partial

from scheduler_core.app.announcer import Announcer
from scheduler_core.app.crowds import Crowds, pod_reference
from scheduler_core.app.extender_call import CallRefused
from scheduler_core.app.extenders import ExtenderCalls
from scheduler_core.app.metrics import Metrics
from scheduler_core.app.outcomes import BindFailed, BindRead, EvictFailed, Inbox, Timing, WriteFailed
from scheduler_core.engine.decisions import Asked, Decision, Evicted, Noticed, Placed, Rejected
from scheduler_core.errors import ModelError, MusterError
from scheduler_core.kube.client import Client
from scheduler_core.kube.correlator import ObjectReference, Occurrence
from scheduler_core.kube.errors import Conflict, NotFound, Timeout, Unreachable
from scheduler_core.kube.recorder import Recorder
from scheduler_core.kube.writer import Writer
from scheduler_core.logs import fields
from scheduler_core.model import names
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pod import Pod, parse_pod
from scheduler_core.model.writes import Bind, Evict, Write

log = logging.getLogger(__name__)

_NO_TIMING = Timing()
# Before a binding whose outcome is unknown is sent again, in seconds.
_REPEAT_DELAYS = (0.0, 0.2, 1.0)


class Effects:
    """Carries decisions out. `report` takes outcomes, from any thread; `identity` names this process.

    `accepted` holds (time, decision) of bindings that the API took, oldest first, until the loop takes them.
    `waiting` gives a pod in its newest form while it waits, `home` the object on which many of them are told
    of.
    """

    def __init__(
        self,
        client: Client,
        writer: Writer,
        recorder: Recorder,
        report: Callable[[Inbox], None],
        identity: str,
        metrics: Metrics,
        wall: Callable[[], float] = time.time,
        *,
        waiting: Callable[[str], Pod | None],
        home: Callable[[Pod], ObjectReference | None] = lambda pod: None,
        extenders: ExtenderCalls | None = None,
    ) -> None:
        self.accepted: deque[tuple[float, Placed]] = deque()
        self._client = client
        self._writer = writer
        self._recorder = recorder
        self._report = report
        self._identity = identity
        self._metrics = metrics
        self._wall = wall
        self._extenders = extenders
        self._stopping = threading.Event()
        self._announcer = Announcer(writer, self._warn, Crowds(home, waiting), waiting, wall)

    @property
    def backlog(self) -> int:
        """Writes that have no answer yet."""
        return self._writer.backlog

    def submit(self, decision: Decision, timing: Timing = _NO_TIMING) -> None:
        """Carry a decision out, soon."""
        match decision:
            case Placed():
                self._place(decision, timing)
            case Evicted():
                self._writer.slow.submit(partial(self._evict, decision))
            case Rejected():
                self._reject(decision)
            case Noticed():
                self._announcer.notice(decision)
            case Asked():
                if self._extenders is not None:
                    self._extenders.ask(decision.question)

    def review(self, decision: Decision, timing: Timing = _NO_TIMING) -> None:
        """Carry out what looking again at a waiting pod says, where that is news."""
        if not isinstance(decision, Rejected | Noticed) or self._announcer.is_news(decision):
            self.submit(decision, timing)

    def submit_write(self, write: Write) -> None:
        """Carry a controller's write out, soon."""
        if isinstance(write, Evict):
            self._writer.slow.submit(partial(self._in_turn, write))
        else:
            self._writer.submit(write, partial(self._written, write))

    def catch_up(self, now: float) -> None:
        """Write what waiting pods have to say, as much of it as may go now."""
        self._announcer.catch_up(now)

    def next_time(self) -> float | None:
        """When `catch_up` has something to do next, or None."""
        return self._announcer.next_time()

    def stop(self, timeout: float) -> None:
        """Finish what was sent; what was not is dropped and decided again by the next leader."""
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
        self._announcer.bound()
        if isinstance(bind, Bind) and bind.by and self._extenders is not None:
            self._extenders.bind(bind, partial(self._bind_in_turn, decision, timing))
        elif decision.pre_bind or not isinstance(bind, Bind):
            self._writer.slow.submit(partial(self._bind_in_turn, decision, timing))
        else:
            self._writer.submit(bind, partial(self._answered, decision, timing))

    def _bind_in_turn(self, decision: Placed, timing: Timing) -> None:
        """The writes before the binding first, each after the one before it."""
        try:
            for write in (*decision.pre_bind, decision.bind):
                if not self._writer.may_write():
                    return
                self._carry(write)
        except MusterError as error:
            self._resolve(decision, timing, error)
        else:
            self._bound(decision, timing)

    def _carry(self, write: Write) -> None:
        """Write, or let an extender bind; where it may be ignored we do it ourselves. Raises MusterError."""
        if isinstance(write, Bind) and write.by and self._extenders is not None:
            try:
                self._extenders.bind_now(write)
                return
            except CallRefused:
                if not self._extenders.may_bind(write):
                    raise
        self._client.write(write)

    def _answered(self, decision: Placed, timing: Timing, error: MusterError | None) -> None:
        if error is None:
            self._bound(decision, timing)
        else:
            self._writer.slow.submit(partial(self._resolve, decision, timing, error))

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
        """After a refused or unanswered binding: where is the pod really?

        A binding without an answer may still be on its way where the pod has no node yet. To bind the pod
        elsewhere, or others in its place, would be too early: the same binding once more is carried out,
        or refused because it was.
        """
        pod = decision.pod
        for delay in (*_REPEAT_DELAYS, None):
            read, seen = self._read(pod)
            if not read:
                return
            if seen is not None and seen.uid == pod.uid and seen.node_name == decision.node:
                self._bound(decision, timing)
                return
            if delay is None or not self._open_still(decision, error, seen):
                break
            if self._stopping.wait(delay):
                return
            try:
                self._carry(decision.bind)
            except MusterError as again:
                error = again
            else:
                self._bound(decision, timing)
                return
        self._metrics.bind_failed(decision, timing, self._wall())
        self._report(BindFailed(decision, str(error), seen))
        note = f"binding to {decision.node} failed: {error}"
        self._event(
            pod, decision.profile, names.EVENT_WARNING, names.EVENT_FAILED_SCHEDULING, "Binding", note
        )

    def _open_still(self, decision: Placed, error: MusterError, seen: Pod | None) -> bool:
        """Whether a binding may still be on its way, and we may repeat it."""
        # Any other answer means that the server is done with it.
        unanswered = isinstance(error, Unreachable | Timeout | CallRefused) and error.maybe_accepted
        without_node = seen is not None and seen.uid == decision.pod.uid and not seen.node_name
        repeatable = isinstance(decision.bind, Bind) and self._writer.may_write()
        return unanswered and without_node and repeatable

    def verify(self, decision: Placed) -> None:
        """Read a pod whose accepted binding was not confirmed by the watch; the loop gets BindRead."""
        self._writer.slow.submit(partial(self._verify, decision))

    def _verify(self, decision: Placed) -> None:
        read, seen = self._read(decision.pod)
        if read:
            self._report(BindRead(decision, seen))

    def _read(self, pod: Pod) -> tuple[bool, Pod | None]:
        """Whether the API answered (until we stop), and the pod as it has it; None if it is gone."""
        delay = 0.1
        while not self._stopping.is_set():
            try:
                return True, parse_pod(self._client.get(PODS, pod.namespace, pod.name))
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

    # Refusals and evictions

    def _reject(self, decision: Rejected) -> None:
        for write in decision.writes:
            self.submit_write(write)
        self._announcer.say(decision, self._wall())

    def _warn(self, about: ObjectReference, profile: str, reason: str, note: str) -> None:
        """An event on what waits."""
        kind, action, me = names.EVENT_WARNING, "Scheduling", self._identity
        self._recorder.record(Occurrence(about, kind, reason, action, note, profile, me, self._wall()))

    def _evict(self, decision: Evicted) -> None:
        pod, preemptor = decision.pod, decision.preemptor
        if not self._writer.may_write():
            return
        write = Evict(pod.namespace, pod.name, pod.uid, names.REASON_PREEMPTION, decision.message)
        try:
            self._client.write(write)
        except MusterError as error:
            log.warning("evicting: %s", error, extra=fields(pod=pod.key, preemptor=preemptor.key))
            # One that is gone, or another of its name, is told by the watch.
            if not isinstance(error, Conflict | NotFound):
                self._report(EvictFailed(decision, str(error)))
            return
        log.info("evicted", extra=fields(pod=pod.key, preemptor=preemptor.key))
        kind, reason, related = names.EVENT_NORMAL, names.EVENT_PREEMPTED, pod_reference(preemptor)
        self._event(pod, decision.profile, kind, reason, "Preempting", decision.message, related)

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
        # After a conflict, or when the object is gone, what comes by watch decides what is next.
        if not isinstance(error, Conflict | NotFound):
            log.warning("a write failed: %s", error)
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
    ) -> None:
        now = self._wall() if now is None else now
        self._recorder.record(
            Occurrence(pod_reference(pod), kind, reason, action, note, profile, self._identity, now, related)
        )
