"""Adoption of pods that wait for another scheduler: the way to recreate a pod, and the patches before. Pure.

`spec.schedulerName` of a pod is immutable, so the pod must be deleted and another one created.

- A Job counts each of its pods that is deleted as a failure, against its backoffLimit, and waits longer and
  longer before it makes the next. A pod that is no longer its own is no failure: it is *released* first, and
  the Job makes another one at once.
- All other controllers create another pod for each that is deleted.
- A pod without a controller must be created again by the client that deletes it.
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
JOB_LABELS: Final = (*_UID_LABELS, "batch.kubernetes.io/job-name", "job-name")


def recreation_way(
    controller: OwnerReference | None, labels: Mapping[str, str], annotations: Mapping[str, str]
) -> Way:
    """The way to recreate a pod that has no node.

    `delete`: its controller creates another pod; `release`: its Job does, once the pod is released;
    `released`: the pod is released and must be deleted, with a node or without; `create`: no controller would
    create another pod; `none`: its Job has its own selector, and would adopt the pod again.
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

    The patch records its group (or empty), which is not known without the Job.
    """
    annotations = {RELEASED_ANNOTATION: "true", **({GROUP_NAME_ANNOTATION: group} if group else {})}
    labels = dict.fromkeys(JOB_LABELS)
    return {"metadata": {"ownerReferences": None, "labels": labels, "annotations": annotations}}


def joining(group: str) -> dict[str, Any]:
    """The merge patch that makes a pod a member of a PodGroup."""
    return {"metadata": {"annotations": {GROUP_NAME_ANNOTATION: group}}}
