"""What takes longer than a page may: the queue, when its work starts, and the steps that would help."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec

from kubectl_plugin.console.cluster.live_cluster import LiveCluster
from kubectl_plugin.console.cluster.questions import QuestionRefused, Questions
from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.eta.run_times import times_of
from scheduler_core.answers.queue.advice import QueueAdvice, advise
from scheduler_core.answers.queue.waiting import WaitingQueue, queue_of
from scheduler_core.answers.worlds import World

# A queue that is no older is not asked for again, however much changes.
_QUEUE_SECONDS: Final = 3.0
_ADVICE_SECONDS: Final = 30.0
# Time limits of the questions, and for how much of the queue advice is looked for.
_MOST_QUEUE: Final = 30.0
_MOST_ESTIMATES: Final = 8.0
_MOST_STEPS: Final = 12.0
ADVISED: Final = 10
_FIRST: Final = "the queue is being computed"

# What the queue depends on.
QUEUE_KINDS: Final = frozenset(
    {"pods", "nodes", "elasticquotas", "podgroups", "quotagroups", "quotaflavors", "configmaps"}
    | {"reservationledgers", "nodemetrics", "persistentvolumeclaims", "compositepodgroups"}
)


class Known(msgspec.Struct, frozen=True):
    """The queue, and the advice that was found for it so far.

    `serial` grows with every new answer. `problem`: why there is no newer queue; empty if there is.
    `current`: both are of the cluster as it is now.
    """

    queue: WaitingQueue = WaitingQueue()
    advice: QueueAdvice = QueueAdvice()
    serial: int = 0
    problem: str = ""
    searching: bool = False
    current: bool = True


class Advisor:
    """Keeps the last answers, and looks for new ones while somebody looks at the queue. Thread-safe.

    `monotonic` tells seconds; `thread` makes what a search for advice runs on.
    """

    def __init__(
        self,
        cluster: LiveCluster,
        questions: Questions,
        monotonic: Callable[[], float] = time.monotonic,
        thread: Callable[..., threading.Thread] = threading.Thread,
    ) -> None:
        self._cluster = cluster
        self._questions = questions
        self._monotonic = monotonic
        self._new_thread = thread
        self._asking = threading.Lock()
        self._known = Known()
        self._version = -1
        self._asked = self._advised = float("-inf")
        self._advised_version = -1
        self._thread: threading.Thread | None = None

    @property
    def serial(self) -> int:
        """Grows with every new answer."""
        return self._known.serial

    def queue(self) -> Known:
        """The queue as of a few seconds ago at most, and the advice as of half a minute.

        While it is asked for, others get the last answer: each that waited would keep a thread of the server.
        """
        if not self._asking.acquire(blocking=False):
            known = self._known
            problem = known.problem or ("" if known.serial else _FIRST)
            return msgspec.structs.replace(known, current=False, problem=problem)
        try:
            now = self._monotonic()
            version = self._cluster.version_of(QUEUE_KINDS)
            if version != self._version and now - self._asked > _QUEUE_SECONDS:
                self._ask(version)
                self._asked = self._monotonic()
            self._advise_later()
            queued = self._version == version and not self._known.problem
            advised = self._advised_version == self._version or not self._known.queue.units
            return msgspec.structs.replace(self._known, current=queued and advised)
        finally:
            self._asking.release()

    def _ask(self, version: int) -> None:
        try:
            found = self._questions.ask("the queue", _queue, WaitingQueue, seconds=_MOST_QUEUE)
        except QuestionRefused as error:
            self._known = msgspec.structs.replace(self._known, problem=str(error))
            return
        self._version = version
        if found != self._known.queue or self._known.problem:
            serial = self._known.serial + 1
            self._known = msgspec.structs.replace(self._known, queue=found, problem="", serial=serial)

    def _advise_later(self) -> None:
        """Look for advice on a thread of its own, unless it is fresh or on its way."""
        due = self._monotonic() - self._advised > _ADVICE_SECONDS
        running = self._thread is not None and self._thread.is_alive()
        if running or not due or self._advised_version == self._version or not self._known.queue.units:
            return
        self._advised, self._advised_version = self._monotonic(), self._version
        self._thread = self._new_thread(target=self._advise, name="console-advisor", daemon=True)
        self._known = msgspec.structs.replace(self._known, searching=True)
        self._thread.start()

    def _advise(self) -> None:
        units = self._known.queue.units[:ADVISED]
        with self._cluster.lock:
            finished, jobs = list(self._cluster.finished.values()), list(self._cluster.jobs.values())

        def question(world: World) -> QueueAdvice:
            began = time.monotonic()
            return advise(
                world,
                units,
                times_of(world.base, finished, jobs),
                estimates=lambda: time.monotonic() > began + _MOST_ESTIMATES,
                steps=lambda: time.monotonic() > began + _MOST_ESTIMATES + _MOST_STEPS,
            )

        seconds = 2 * (_MOST_ESTIMATES + _MOST_STEPS)
        found, answered = self._known.advice, False
        # Without an answer the queue is shown without advice, and a later look tries again.
        with contextlib.suppress(QuestionRefused):
            found = self._questions.ask("what helps", question, QueueAdvice, seconds=seconds)
            answered = True
        with self._asking:
            if not answered:
                self._advised_version = -1
            serial = self._known.serial + 1
            self._known = msgspec.structs.replace(self._known, advice=found, serial=serial, searching=False)


def _queue(world: World) -> WaitingQueue:
    return world.ask(NOTHING, queue_of, WaitingQueue)
