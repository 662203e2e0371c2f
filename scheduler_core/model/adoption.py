"""How a pod that waits for another scheduler is made anew: who does it, and what is written first. Pure.

`spec.schedulerName` of a pod never changes, so the pod has to go and another one has to come.

- A Job counts each of its pods that is deleted as a failure, against its backoffLimit, and waits longer and
  longer before it makes the next. A pod that is no longer its own is no failure: it is *released* first, and
  the Job makes another one at once.
- All other controllers make another one for each that is gone.
- A pod without a controller is created again by whoever deletes it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.names import GROUP_NAME_ANNOTATION, RELEASED_ANNOTATION

Way = Literal["delete", "release", "released", "create", "none"]
_JOB: Final = ("batch/v1", "Job")
# What a Job finds its pods by, unless it has a selector of its own.
_UID_LABELS: Final = ("batch.kubernetes.io/controller-uid", "controller-uid")
_JOB_LABELS: Final = (*_UID_LABELS, "batch.kubernetes.io/job-name", "job-name")


def way_back(
    controller: OwnerReference | None, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Way:
    """What to do about a pod that has no node.

    `delete`: its controller makes another one; `release`: its Job does, once the pod is no longer its own;
    `released`: that was done, and the pod must go, node or not; `create`: nobody would make another one;
    `none`: its Job has a selector of its own, and would take it back.
    """
    if RELEASED_ANNOTATION in annotations:
        return "released"
    if controller is None:
        return "create"
    if (controller.api_version, controller.kind) != _JOB:
        return "delete"
    return "release" if controller.uid in map(labels.get, _UID_LABELS) else "none"


def release(group: str) -> dict[str, Any]:
    """The merge patch that takes a pod from its Job. It must be deleted then, whatever became of it.

    Its group (or empty) is written down: without its Job nobody would know it.
    """
    annotations = {RELEASED_ANNOTATION: "true", **({GROUP_NAME_ANNOTATION: group} if group else {})}
    labels = dict.fromkeys(_JOB_LABELS)
    return {"metadata": {"ownerReferences": None, "labels": labels, "annotations": annotations}}


def joining(group: str) -> dict[str, Any]:
    """The merge patch that makes a pod say which PodGroup it belongs to."""
    return {"metadata": {"annotations": {GROUP_NAME_ANNOTATION: group}}}
