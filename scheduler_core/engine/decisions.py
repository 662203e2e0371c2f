"""What the engine decides, as values. `app.effects` and the simulation turn them into writes and events."""

from __future__ import annotations

import msgspec

from scheduler_core.framework.status import Diagnosis
from scheduler_core.model.extending import Question
from scheduler_core.model.names import EVENT_FAILED_SCHEDULING
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Write


class Placed(msgspec.Struct, frozen=True):
    """A pod has a node: the writes before its binding, the binding, and the writes after it."""

    pod: Pod
    node: str
    profile: str
    bind: Write
    pre_bind: tuple[Write, ...] = ()
    post_bind: tuple[Write, ...] = ()


class Rejected(msgspec.Struct, frozen=True):
    """A pod has no node now. `event` is the reason of its event: Unschedulable where the group, not a node,

    is what is missing (coscheduling seed). `nominated` is the node it waits for, if any.

    `writes` prepare that node for the pod (volumes to be made there).
    """

    pod: Pod
    profile: str
    reason: str
    message: str
    diagnosis: Diagnosis | None = None
    nominated: str = ""
    writes: tuple[Write, ...] = ()
    event: str = EVENT_FAILED_SCHEDULING


class Evicted(msgspec.Struct, frozen=True):
    """A victim must go, so that `preemptor` can run."""

    pod: Pod
    preemptor: Pod
    profile: str
    message: str


class Noticed(msgspec.Struct, frozen=True):
    """Something to say of an object that is no pod: an event on a group."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    profile: str
    reason: str
    message: str


class Asked(msgspec.Struct, frozen=True):
    """A pod is decided once HTTP extenders have answered; the answer goes to `Asking.answered`."""

    pod: Pod
    profile: str
    question: Question


Decision = Placed | Rejected | Evicted | Noticed | Asked
