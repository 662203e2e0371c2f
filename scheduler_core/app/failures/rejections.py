"""PodScheduled conditions and nominated nodes of pods that were not scheduled."""

from __future__ import annotations

from collections import OrderedDict
from enum import IntEnum
from typing import Final, NamedTuple

from scheduler_core.engine.decisions import Noticed, Rejected
from scheduler_core.kube.writes.correlator import shape
from scheduler_core.model import names
from scheduler_core.model.conditions import condition
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Patch, pod_status_patch

# Pods and groups whose last report is stored.
MOST_REMEMBERED: Final = 10_000


class PodRejection(NamedTuple):
    """The reason why a pod waits, and its nominated node, if it has one."""

    reason: str
    message: str
    nominated: str = ""


class RejectionChange(IntEnum):
    """The difference between a report and the last one: none, in figures, in the reason, or in the nominated
    node.
    """

    NONE = 0
    FIGURES = 1
    REASON = 2
    NODE = 3


def current_rejection(pod: Pod) -> PodRejection:
    """The rejection that a pod shows in its known form, empty if none."""
    rejection = pod.scheduled_condition
    if rejection is None or rejection.status != "False":
        return PodRejection("", "", pod.nominated_node)
    return PodRejection(rejection.reason, rejection.message, pod.nominated_node)


class Rejections:
    """Stores the last report of pods and groups: the watch may show an older one."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, PodRejection] = OrderedDict()

    def change(self, pod: Pod, rejection: PodRejection) -> RejectionChange:
        """The difference from the pod's condition and from the last report."""
        last = self._last.get(pod.uid)
        found = _change_between(current_rejection(pod), rejection)
        return found if last is None else max(found, _change_between(last, rejection))

    def patch(self, pod: Pod, rejection: PodRejection, now: float) -> Patch | None:
        """The patch for a pod; None if it is up to date."""
        found = rejection_patch(pod, rejection, now, self._last.get(pod.uid))
        self._remember(pod.uid, rejection)
        return found

    def is_latest(self, uid: str, rejection: PodRejection) -> bool:
        """Whether this was the last report."""
        return self._last.get(uid) == rejection

    def record_notice(self, decision: Noticed) -> None:
        """Store the report of an event."""
        self._remember(decision.uid, PodRejection(decision.reason, decision.message))

    def is_changed(self, decision: Rejected | Noticed) -> bool:
        """Whether the last report of the object was different, or there is none."""
        if isinstance(decision, Noticed):
            return self._last.get(decision.uid) != PodRejection(decision.reason, decision.message)
        last = self._last.get(decision.pod.uid) or current_rejection(decision.pod)
        return last != PodRejection(decision.reason, decision.message, decision.nominated)

    def _remember(self, uid: str, rejection: PodRejection) -> None:
        self._last[uid] = rejection
        self._last.move_to_end(uid)
        if len(self._last) > MOST_REMEMBERED:
            self._last.popitem(last=False)


def _change_between(old: PodRejection, new: PodRejection) -> RejectionChange:
    if old.nominated != new.nominated:
        return RejectionChange.NODE
    if old.reason != new.reason:
        return RejectionChange.REASON
    if old.message == new.message:
        return RejectionChange.NONE
    return RejectionChange.FIGURES if shape(old.message) == shape(new.message) else RejectionChange.REASON


def rejection_patch(
    pod: Pod, rejection: PodRejection, now: float, last: PodRejection | None = None
) -> Patch | None:
    """PodScheduled=False and the nominated node; None if the pod shows both.

    `last` is the last report: the pod may not show it yet.
    """
    before = current_rejection(pod)
    if rejection == before and (last is None or last == rejection):
        return None
    old = pod.scheduled_condition
    status: dict[str, object] = {
        "conditions": [condition(names.POD_SCHEDULED, False, rejection.reason, rejection.message, now, old)]
    }
    if rejection.nominated != before.nominated or (
        last is not None and rejection.nominated != last.nominated
    ):
        status["nominatedNodeName"] = rejection.nominated or None
    return pod_status_patch(pod.namespace, pod.name, pod.uid, status)
