"""Messages to the loop from other threads, and the timing of a decision."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.extending import Answer
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Write


class Timing(msgspec.Struct, frozen=True):
    """The times of a decision, in seconds: when it was made, how long it took (`algorithm`), and since when
    the pod waits. `waited_for` is what a pod of a quota waited for, WAITED_FOR_TURN and others; else empty.
    """

    decided: float = 0.0
    algorithm: float = 0.0
    since: float = 0.0
    attempts: int = 1
    waited_for: str = ""


class BindFailed(msgspec.Struct, frozen=True):
    """A binding failed. `seen` is the pod as read afterwards, if it could be read."""

    decision: Placed
    problem: str
    seen: Pod | None = None


class BindRead(msgspec.Struct, frozen=True):
    """The pod of an accepted binding that the watch did not confirm, as read; None if it is gone."""

    decision: Placed
    seen: Pod | None


class EvictFailed(msgspec.Struct, frozen=True):
    """The API server refused the eviction of a victim, and will again (`refused`), or gave no response."""

    decision: Evicted
    problem: str
    refused: bool = False


class WriteFailed(msgspec.Struct, frozen=True):
    """A controller's write was refused; its object must be reconciled again."""

    write: Write
    problem: str


class ExtenderAnswered(msgspec.Struct, frozen=True):
    """The answer of HTTP extenders to a question of the engine."""

    answer: Answer


class StateQuery(msgspec.Struct, frozen=True):
    """A query of the state, answered on the loop's thread."""

    act: Callable[[Scheduler], None]


class LagMark(msgspec.Struct, frozen=True):
    """Marks a position in the inbox: the messages behind it came later than `at`."""

    at: float


class Stop(msgspec.Struct, frozen=True):
    """End the loop."""


Inbox = (
    Event | BindFailed | BindRead | EvictFailed | WriteFailed | ExtenderAnswered | StateQuery | LagMark | Stop
)
