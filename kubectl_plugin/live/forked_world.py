"""A world that answers each question in a child process, which shares its memory until it writes."""

from __future__ import annotations

import gc
import os
import sys
from typing import Final, TypeVar

import msgspec

from scheduler_core.answers.changes import Changes
from scheduler_core.answers.worlds import CopiedWorld, Question, World
from scheduler_core.decoding import decode
from scheduler_core.errors import MusterError
from scheduler_core.simulate.world import Simulation

T = TypeVar("T")

# A copy costs 3 ms and 6 us for each object, a fork 10 ms for its process, whatever the cluster has.
_FEW_OBJECTS: Final = 800


class _Failed(msgspec.Struct, frozen=True):
    """What a child process could not answer: an error of Muster, as text."""

    message: str


class QuestionFailed(MusterError):
    """A question could not be answered: one line."""

    def __init__(self, message: str) -> None:
        self.message = message
        super().__init__(message)

    def __str__(self) -> str:
        return self.message


class ForkedWorld:
    """For clusters that are not small: a fork costs the same however many objects there are.

    Only for programs that have one thread: a lock that another thread holds stays locked in a child. The
    console, which has many, first makes a process for each question
    (`kubectl_plugin.console.cluster.questions`).
    """

    def __init__(self, base: Simulation) -> None:
        self._base = base
        # The child must not copy pages because the collector touches each object.
        gc.freeze()

    @property
    def base(self) -> Simulation:
        """The cluster as it is, before the scheduler runs. To be read only."""
        return self._base

    def ask(self, changes: Changes, question: Question[T], answer: type[T]) -> T:
        """The answer to a question about the changed cluster. Raises QuestionFailed."""
        if changes.config is not None:
            return CopiedWorld(self._base).ask(changes, question, answer)
        reader, writer = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        child = os.fork()
        if not child:
            os.close(reader)
            self._answer(changes, question, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        if status or not told:
            raise QuestionFailed(f"the simulation ended with status {os.waitstatus_to_exitcode(status)}")
        ok, body = told[:1] == b"1", told[1:]
        if not ok:
            raise QuestionFailed(decode(body, _Failed).message)
        return decode(body, answer)

    def _answer(self, changes: Changes, question: Question[T], writer: int) -> None:
        """Answer in the child process, which ends here whatever happens."""
        code = 1
        try:
            gc.disable()
            try:
                changes.apply(self._base)
                told = b"1" + msgspec.json.encode(question(self._base))
            except MusterError as error:
                told = b"0" + msgspec.json.encode(_Failed(" ".join(str(error).split())))
            with os.fdopen(writer, "wb") as pipe:
                pipe.write(told)
            code = 0
        except BaseException:  # the process must not go on as a second parent
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)


def world_of(base: Simulation) -> World:
    """The fastest world for this system and for a cluster of this size."""
    forks = hasattr(os, "fork") and len(base.known) > _FEW_OBJECTS
    return ForkedWorld(base) if forks else CopiedWorld(base)
