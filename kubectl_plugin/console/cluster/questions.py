"""Questions to the live cluster, each answered in a process of its own with a time limit."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, NoReturn, TypeVar

import msgspec

from kubectl_plugin.console.cluster.live_cluster import LiveCluster
from kubectl_plugin.live.forked_world import world_of
from scheduler_core.answers.worlds import CopiedWorld, World
from scheduler_core.decoding import decode
from scheduler_core.errors import MusterError

T = TypeVar("T")

# Questions that run at the same time: each occupies a processor.
_AT_ONCE: Final = 2
# No more files than this are closed in a child: some systems name no limit.
_MOST_FILES: Final = 1 << 16
# Seconds for which a question waits for its turn, and how many may: each keeps a thread of the server.
_PATIENCE: Final = 10.0
_WAITING: Final = 2
# Bytes that a child may use beyond what it shares: a few lines of YAML can stand for any number of objects.
MOST_MEMORY: Final = 2 << 30


_BUSY: Final = "too many questions are being answered; try again"


class QuestionRefused(MusterError):
    """A question was not answered: what it was about, and why."""

    def __init__(self, about: str, problem: str) -> None:
        self.about = about
        self.problem = problem
        super().__init__(about, problem)

    def __str__(self) -> str:
        return f"{self.about}: {self.problem}"


class _Failed(msgspec.Struct, frozen=True):
    message: str


class Questions:
    """Asks a live cluster. A question may change the cluster that it is given: nobody else sees it.

    The child process is a copy of this one at a moment when `cluster.lock` is held, so that it sees a
    consistent cluster. It has one thread, closes all connections, and is killed when its time is over: a lock
    that another thread held at that moment can delay an answer, but not more.
    """

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self._turns = threading.Semaphore(_AT_ONCE)
        self._places = threading.Semaphore(_AT_ONCE + _WAITING)
        self._lock = threading.Lock()
        # The processes that work; None after the end.
        self._children: set[int] | None = set()

    def stop(self) -> None:
        """End all questions, and refuse what comes later: no process may outlive the console."""
        with self._lock:
            children, self._children = self._children or set(), None
            for child in children:
                _end(child)

    def ask(self, about: str, question: Callable[[World], T], answer: type[T], *, seconds: float) -> T:
        """The answer. Raises QuestionRefused, also with the message of what the question raised."""
        if not self._places.acquire(blocking=False):
            raise QuestionRefused(about, _BUSY)
        try:
            if not self._turns.acquire(timeout=_PATIENCE):
                raise QuestionRefused(about, _BUSY)
            try:
                if hasattr(os, "fork"):
                    return self._asked(about, question, answer, seconds)
                return self._copied(about, question)
            finally:
                self._turns.release()
        finally:
            self._places.release()

    def _asked(self, about: str, question: Callable[[World], T], answer: type[T], seconds: float) -> T:
        reader, writer = os.pipe()
        with self._cluster.lock:
            child = os.fork()
            if not child:
                self._answer(question, writer)
        os.close(writer)
        with contextlib.suppress(OSError):
            os.setpgid(child, child)
        with self._lock:
            if self._children is None:
                _end(child)
            else:
                self._children.add(child)
        told = _read(reader, time.monotonic() + seconds)
        if told is None:
            _end(child)
        with self._lock:
            # Before its number is free for another process.
            if self._children is not None:
                self._children.discard(child)
        _, status = os.waitpid(child, 0)
        if told is None:
            raise QuestionRefused(about, f"no answer within {seconds:g} seconds")
        if status or not told:
            raise QuestionRefused(about, f"the process ended with status {os.waitstatus_to_exitcode(status)}")
        if told[:1] == b"0":
            raise QuestionRefused(about, decode(told[1:], _Failed).message)
        return decode(told[1:], answer)

    def _copied(self, about: str, question: Callable[[World], T]) -> T:
        """The answer from a copy in this process, without a time limit, where processes cannot be forked."""
        with self._cluster.lock:
            twin = self._cluster.simulation.copy()
        twin.now = time.time()
        try:
            return question(CopiedWorld(twin))
        except MusterError as error:
            raise QuestionRefused(about, " ".join(str(error).split())) from None

    def _answer(self, question: Callable[[World], T], writer: int) -> NoReturn:
        """Answer in the child process, which ends here whatever happens."""
        code = 1
        try:
            with contextlib.suppress(OSError):
                os.setpgid(0, 0)
            # Connections of browsers and to the API server are not the child's.
            pipe = os.dup2(writer, 3) if writer != 3 else 3
            os.closerange(4, min(os.sysconf("SC_OPEN_MAX"), _MOST_FILES))
            _bound_memory()
            simulation = self._cluster.simulation
            simulation.now = time.time()
            try:
                told = b"1" + msgspec.json.encode(question(world_of(simulation)))
            except MusterError as error:
                told = b"0" + msgspec.json.encode(_Failed(" ".join(str(error).split())))
            except MemoryError:
                problem = f"it needs more than {MOST_MEMORY >> 20} MiB of memory"
                told = b"0" + msgspec.json.encode(_Failed(problem))
            while told:
                told = told[os.write(pipe, told) :]
            code = 0
        finally:
            os._exit(code)


def _end(child: int) -> None:
    """Kill a child and its group: it may have processes of its own."""
    with contextlib.suppress(OSError):
        os.killpg(child, signal.SIGKILL)


def _bound_memory() -> None:
    """Let this process use MOST_MEMORY more than it does, where the system can do that."""
    with contextlib.suppress(OSError, ValueError):
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf("SC_PAGE_SIZE")
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (used + MOST_MEMORY, most))


def _read(reader: int, until: float) -> bytes | None:
    """All that comes until the other end closes; None if that does not happen in time."""
    parts: list[bytes] = []
    with os.fdopen(reader, "rb", buffering=0) as pipe:
        while True:
            ready, _, _ = select.select([pipe], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                return None
            part = pipe.read(1 << 16)
            if not part:
                return b"".join(parts)
            parts.append(part)
