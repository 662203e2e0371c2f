"""The engine's decisions as values. `app.api_dispatcher` and the simulation carry them out as API writes."""

from __future__ import annotations

import math

import msgspec

from scheduler_core.framework.status import Diagnosis
from scheduler_core.model.eviction_record import EvictionRecord
from scheduler_core.model.extending import Question
from scheduler_core.model.names import EVENT_FAILED_SCHEDULING, EVICTED_BY_PRIORITY, REASON_PREEMPTION
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Evict, Write


class Placed(msgspec.Struct, frozen=True):
    """A pod has a node: the binding, and the writes before (PreBind) and after it (PostBind)."""

    pod: Pod
    node: str
    profile: str
    bind: Write
    pre_bind: tuple[Write, ...] = ()
    post_bind: tuple[Write, ...] = ()


class Rejected(msgspec.Struct, frozen=True):
    """A pod has no node now.

    `event` is the reason of its Event: Unschedulable where its group is incomplete, else FailedScheduling
    (docs/gangs.md#status-and-conditions). `nominated` is the node that it waits for, if any; `writes` prepare
    that node for the pod (volumes to be provisioned there). `due` is when time alone may help it.
    `refused_by` is the plugin that was in its way first (`Diagnosis.refused_by`), empty where none is known.
    """

    pod: Pod
    profile: str
    reason: str
    message: str
    diagnosis: Diagnosis | None = None
    nominated: str = ""
    writes: tuple[Write, ...] = ()
    event: str = EVENT_FAILED_SCHEDULING
    due: float = math.inf
    refused_by: str = ""


class Evicted(msgspec.Struct, frozen=True):
    """A pod is to be evicted so that `preemptor` can run, by a rule: EVICTED_BY_PRIORITY or another.

    `grace`: the seconds that it has to end; None: its own. `preemptors`: whom a new process is told that it
    waits for the pod's end (`model.pods.pod.Pod`). `hides`: its Event must not name the preemptor. `record`:
    what the Event says for programs.
    """

    pod: Pod
    preemptor: Pod
    profile: str
    message: str
    why: str = EVICTED_BY_PRIORITY
    grace: int | None = None
    preemptors: tuple[str, ...] = ()
    hides: bool = False
    record: EvictionRecord | None = None


class Noticed(msgspec.Struct, frozen=True):
    """An Event on an object that is not a pod, such as a PodGroup.

    `waiting` is the uid of a pod: while it waits, the message holds; empty if that is not known.
    """

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    profile: str
    reason: str
    message: str
    waiting: str = ""


class Asked(msgspec.Struct, frozen=True):
    """A question to HTTP extenders about a pod; the answer goes to `Asking.answered`."""

    pod: Pod
    profile: str
    question: Question


def eviction_of(decision: Evicted) -> Evict:
    """The write that carries an eviction out."""
    pod, text = decision.pod, decision.message
    return Evict(
        pod.namespace, pod.name, pod.uid, REASON_PREEMPTION, text, decision.grace, decision.preemptors
    )


Decision = Placed | Rejected | Evicted | Noticed | Asked
