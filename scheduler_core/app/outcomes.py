"""What comes back to the loop from the threads around it."""

from __future__ import annotations

import msgspec

from scheduler_core.engine.decisions import Placed
from scheduler_core.kube.tracker import Event
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Write


class BindAccepted(msgspec.Struct, frozen=True):
    """The API has the binding."""

    decision: Placed
    seconds: float


class BindFailed(msgspec.Struct, frozen=True):
    """The pod did not get our node. `seen` is the pod as it was read afterwards, if it could be."""

    decision: Placed
    problem: str
    seen: Pod | None = None


class WriteFailed(msgspec.Struct, frozen=True):
    """A controller's write was refused; its object must be looked at again."""

    write: Write
    problem: str


class Stop(msgspec.Struct, frozen=True):
    """End the loop."""


Inbox = Event | BindAccepted | BindFailed | WriteFailed | Stop
