"""Decisions become API writes and events, on threads of their own; outcomes go back to the loop.

A binding whose answer was lost is resolved by reading the pod: the API decides, not an assumption.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from scheduler_core.app.outcomes import BindAccepted, BindFailed, Inbox, WriteFailed
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.errors import ModelError
from scheduler_core.kube.client import Client
from scheduler_core.kube.correlator import ObjectReference, Occurrence
from scheduler_core.kube.errors import ApiError, Conflict, NotFound
from scheduler_core.kube.recorder import Recorder
from scheduler_core.model import names
from scheduler_core.model.conditions import condition
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pod import Pod, parse_pod
from scheduler_core.model.writes import Evict, Patch, Write

T = TypeVar("T")

log = logging.getLogger(__name__)

WORKERS: Final = 16


def pod_reference(pod: Pod) -> ObjectReference:
    """The pod as an event's object."""
    return ObjectReference("v1", "Pod", pod.namespace, pod.name, pod.uid)


class Effects:
    """Carries decisions out. `report` takes outcomes, from any thread; `identity` names this process."""

    def __init__(
        self,
        client: Client,
        recorder: Recorder,
        report: Callable[[Inbox], None],
        identity: str,
        wall: Callable[[], float] = time.time,
        workers: int = WORKERS,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._report = report
        self._identity = identity
        self._wall = wall
        self._pool = ThreadPoolExecutor(workers, thread_name_prefix="effects")

    def submit(self, decision: Decision) -> None:
        """Carry a decision out, soon."""
        match decision:
            case Placed():
                self._pool.submit(self._guarded, self._bind, decision)
            case Evicted():
                self._pool.submit(self._guarded, self._evict, decision)
            case Rejected():
                self._pool.submit(self._guarded, self._reject, decision)

    def submit_write(self, write: Write) -> None:
        """Carry a controller's write out, soon."""
        self._pool.submit(self._guarded, self._controller_write, write)

    def stop(self) -> None:
        """Finish what was begun; what has not started is dropped and decided again by the next leader."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _guarded(self, act: Callable[[T], None], item: T) -> None:
        """Nothing may be lost in silence on a pool's thread."""
        try:
            act(item)
        except Exception:
            log.exception("carrying out %s", type(item).__name__)
            if isinstance(item, Placed):
                self._report(BindFailed(item, "internal error"))

    # Bindings

    def _bind(self, decision: Placed) -> None:
        started = self._wall()
        try:
            for write in decision.pre_bind:
                self._client.write(write)
            self._client.write(decision.bind)
        except ApiError as error:
            self._resolve(decision, error, started)
            return
        self._bound(decision, started)

    def _bound(self, decision: Placed, started: float) -> None:
        now = self._wall()
        self._report(BindAccepted(decision, now - started))
        note = f"Successfully assigned {decision.pod.key} to {decision.node}"
        self._event(
            decision.pod, decision.profile, names.EVENT_NORMAL, names.EVENT_SCHEDULED, "Binding", note
        )
        for write in decision.post_bind:
            self._try(write)

    def _resolve(self, decision: Placed, error: ApiError, started: float) -> None:
        """After a refused or unanswered binding: where is the pod really?"""
        seen = self._read(decision.pod)
        if seen is not None and seen.uid == decision.pod.uid and seen.node_name == decision.node:
            self._bound(decision, started)
            return
        self._report(BindFailed(decision, str(error), seen))
        note = f"binding to {decision.node} failed: {error}"
        pod = decision.pod
        self._event(
            pod, decision.profile, names.EVENT_WARNING, names.EVENT_FAILED_SCHEDULING, "Binding", note
        )

    def _read(self, pod: Pod) -> Pod | None:
        """The pod as the API has it; None if it is gone. Repeats until the API answers."""
        delay = 0.1
        while True:
            try:
                return parse_pod(self._client.get(PODS, pod.namespace, pod.name))
            except NotFound:
                return None
            except ModelError as error:
                log.warning("pod %s cannot be read after its binding failed: %s", pod.key, error)
                return None
            except ApiError as error:
                log.warning("reading pod %s after its binding failed: %s", pod.key, error)
                time.sleep(delay)
                delay = min(5.0, delay * 2)

    # Refusals and evictions

    def _reject(self, decision: Rejected) -> None:
        pod = decision.pod
        self._event(
            pod,
            decision.profile,
            names.EVENT_WARNING,
            names.EVENT_FAILED_SCHEDULING,
            "Scheduling",
            decision.message,
        )
        for write in decision.writes:
            self._controller_write(write)
        patch = rejection_patch(decision, self._wall())
        if patch is not None:
            self._try(patch)

    def _evict(self, decision: Evicted) -> None:
        pod, preemptor = decision.pod, decision.preemptor
        write = Evict(pod.namespace, pod.name, pod.uid, names.REASON_PREEMPTION, decision.message)
        try:
            self._client.write(write)
        except ApiError as error:
            log.warning("evicting %s for %s: %s", pod.key, preemptor.key, error)
            return
        self._event(
            pod,
            decision.profile,
            names.EVENT_NORMAL,
            names.EVENT_PREEMPTED,
            "Preempting",
            decision.message,
            related=pod_reference(preemptor),
        )

    def _controller_write(self, write: Write) -> None:
        try:
            self._client.write(write)
        except (Conflict, NotFound) as error:
            # Our view was old, or the object is gone: what comes by watch decides what is next.
            self._report(WriteFailed(write, str(error)))
        except ApiError as error:
            log.warning("controller write failed: %s", error)
            self._report(WriteFailed(write, str(error)))

    # Small things

    def _try(self, write: Write) -> None:
        try:
            self._client.write(write)
        except ApiError as error:
            log.warning("write failed: %s", error)

    def _event(
        self,
        pod: Pod,
        profile: str,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: ObjectReference | None = None,
    ) -> None:
        self._recorder.record(
            Occurrence(
                pod_reference(pod), kind, reason, action, note, profile, self._identity, self._wall(), related
            )
        )


def rejection_patch(decision: Rejected, now: float) -> Patch | None:
    """PodScheduled=False and the nominated node, or None if the pod says so already."""
    pod = decision.pod
    old = pod.scheduled_condition
    same = old is not None and (old.status, old.reason, old.message) == (
        "False",
        decision.reason,
        decision.message,
    )
    if same and decision.nominated == pod.nominated_node:
        return None
    status: dict[str, object] = {
        "conditions": [condition(names.POD_SCHEDULED, False, decision.reason, decision.message, now, old)]
    }
    if decision.nominated != pod.nominated_node:
        status["nominatedNodeName"] = decision.nominated or None
    return Patch(
        PODS,
        pod.namespace,
        pod.name,
        {"status": status},
        patch_type="strategic",
        subresource="status",
        uid=pod.uid,
    )
