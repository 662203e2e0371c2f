"""What comes to the loop from the threads around it, and what goes with a decision on its way out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.kube.tracker import Event
from scheduler_core.model.extending import Answer
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Write


class Timing(msgspec.Struct, frozen=True):
    """When a decision was made and what led to it, in seconds; `since` is the pod's first sight."""

    decided: float = 0.0
    algorithm: float = 0.0
    since: float = 0.0
    attempts: int = 1


class BindFailed(msgspec.Struct, frozen=True):
    """The pod did not get our node. `seen` is the pod as it was read afterwards, if it could be."""

    decision: Placed
    problem: str
    seen: Pod | None = None


class BindRead(msgspec.Struct, frozen=True):
    """A pod whose accepted binding no watch confirmed, as the API has it; None if it is gone."""

    decision: Placed
    seen: Pod | None


class EvictFailed(msgspec.Struct, frozen=True):
    """A victim stays: the API server refused its eviction, or gave no answer."""

    decision: Evicted
    problem: str


class WriteFailed(msgspec.Struct, frozen=True):
    """A controller's write was refused; its object must be looked at again."""

    write: Write
    problem: str


class Answered(msgspec.Struct, frozen=True):
    """HTTP extenders have answered a question of the engine's."""

    answer: Answer


class Ask(msgspec.Struct, frozen=True):
    """A question about the state, answered on the loop's thread."""

    act: Callable[[Scheduler], None]


class Mark(msgspec.Struct, frozen=True):
    """The loop had no time for more: what comes after this came later than at `at`."""

    at: float


class Stop(msgspec.Struct, frozen=True):
    """End the loop."""


Inbox = Event | BindFailed | BindRead | EvictFailed | WriteFailed | Answered | Ask | Mark | Stop
