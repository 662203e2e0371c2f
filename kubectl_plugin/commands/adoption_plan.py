"""The plan of `adopt`: which pods another scheduler has, and the step that brings each back.

A copy of each pod is created under dry run. The answer of the API server has the scheduler and the group that
the webhook gives such a pod. If the webhook does not answer, the plan fails and nothing is changed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.reading import UNFINISHED, ListScope, list_if_served, list_raw
from scheduler_core.decoding import convert, decode
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Forbidden
from scheduler_core.model.groups.gang import naming
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.names import (
    CHARGED_ANNOTATION,
    DEFAULT_SCHEDULER,
    GROUP_NAME_ANNOTATION,
    MIRROR_ANNOTATION,
    MUSTER_SCHEDULER,
)
from scheduler_core.model.pods.adoption import recreation_way
from scheduler_core.model.writes import Create

ELSEWHERE: Final = f"spec.schedulerName={DEFAULT_SCHEDULER},{UNFINISHED}"
_QUOTA_WORDS: Final = "exceeded quota"
# Fields of metadata that the API server sets.
_SET_BY_SERVER: Final = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)

Action = Literal["joins", "delete", "release", "released", "create", "none"]


class AdoptionStep(msgspec.Struct, frozen=True):
    """A pod and its action: that of `recreation_way` for a pod without a node, `joins` for a pod with one.

    `pod` is the stored object. `scheduler`, `group`: those that the API server gives such a pod now.
    """

    action: Action
    pod: dict[str, Any]
    scheduler: str
    group: str

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return str(self.pod["metadata"]["namespace"])

    @property
    def name(self) -> str:
        """metadata.name."""
        return str(self.pod["metadata"]["name"])

    @property
    def controller(self) -> OwnerReference:
        """The controller of the pod; an empty reference without one."""
        return _controller(self.pod) or OwnerReference()

    def manifest(self) -> dict[str, Any]:
        """The new pod for one without a controller."""
        return _new_pod(self.pod, self.scheduler, self.group)


def plan(client: Client, scope: str, group: str | None) -> list[AdoptionStep]:
    """The steps in a namespace (all if empty), for one group or for every pod that belongs to Muster.

    Raises the ApiError tree, and CommandFailed if the API server would assign the default scheduler again.
    """
    quotas = list_if_served(client, ELASTIC_QUOTAS, ListScope(scope)) or ()
    governed = {str(_decoded(raw)["metadata"]["namespace"]) for raw in quotas}
    steps: list[AdoptionStep] = []
    for raw in list_raw(client, PODS, ListScope(scope, fields=ELSEWHERE)):
        pod = _decoded(raw)
        if _is_exempt(pod):
            continue
        under_quota = pod["metadata"]["namespace"] in governed
        scheduler, found = _probe(client, pod, governed=under_quota)
        if scheduler == DEFAULT_SCHEDULER:
            if under_quota or found:
                raise CommandFailed(_still_away(pod))
            continue
        if group is None or found == group:
            steps += _step(pod, scheduler, found)
    return steps


def _step(pod: dict[str, Any], scheduler: str, group: str) -> Iterator[AdoptionStep]:
    metadata = pod["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    way = recreation_way(_controller(pod), labels, annotations)
    if pod["spec"].get("nodeName") and way != "released":
        if group and annotations.get(GROUP_NAME_ANNOTATION) != group:
            yield AdoptionStep("joins", pod, scheduler, group)
        return
    yield AdoptionStep(way, pod, scheduler, group)


def _probe(client: Client, pod: dict[str, Any], *, governed: bool) -> tuple[str, str]:
    """The scheduler and the group that the API server would give such a pod. Raises the ApiError tree.

    A full ResourceQuota refuses the copy. Then the group that the pod names, and whether a quota governs its
    namespace (`governed`), decide.
    """
    body = _new_pod(pod, "", "")
    # The copy has another name, and the controller of the pod, which may name the group.
    name = body["metadata"].pop("name")
    body["metadata"]["generateName"] = f"{name[:50]}-"
    body["metadata"]["ownerReferences"] = pod["metadata"].get("ownerReferences")
    try:
        answer = _decoded(client.create(Create(PODS, pod["metadata"]["namespace"], body), dry_run=True))
    except Forbidden as error:
        if _QUOTA_WORDS not in error.message:
            raise
        named = _group(pod)
        return MUSTER_SCHEDULER if named or governed else DEFAULT_SCHEDULER, named
    return str(answer["spec"].get("schedulerName", DEFAULT_SCHEDULER)), _group(answer)


def _new_pod(pod: dict[str, Any], scheduler: str, group: str) -> dict[str, Any]:
    """A copy of the pod for creation, with `scheduler` and `group` unless empty."""
    body = copy.deepcopy({key: pod[key] for key in ("metadata", "spec")})
    metadata, spec = body["metadata"], body["spec"]
    for key in _SET_BY_SERVER:
        metadata.pop(key, None)
    owners = [owner for owner in metadata.pop("ownerReferences", None) or () if not owner.get("controller")]
    if owners:
        metadata["ownerReferences"] = owners
    for key in ("nodeName", "ephemeralContainers", "schedulerName"):
        spec.pop(key, None)
    if spec.get("priorityClassName"):
        # The API server sets both from the PriorityClass and refuses other values.
        for key in ("priority", "preemptionPolicy"):
            spec.pop(key, None)
    if scheduler:
        spec["schedulerName"] = scheduler
    if group:
        metadata["annotations"] = {**(metadata.get("annotations") or {}), GROUP_NAME_ANNOTATION: group}
    return {"apiVersion": "v1", "kind": "Pod", **body}


def _group(pod: dict[str, Any]) -> str:
    metadata = pod["metadata"]
    native = (pod["spec"].get("schedulingGroup") or {}).get("podGroupName", "")
    named = naming(metadata.get("annotations") or {}, metadata.get("labels") or {}, native)
    return named.group if named is not None and named.dialect == "PodGroup" else ""


def _is_exempt(pod: dict[str, Any]) -> bool:
    """Whether the pod is terminating, a mirror pod, or already charged by the webhook."""
    annotations = pod["metadata"].get("annotations") or {}
    settled = {MIRROR_ANNOTATION, CHARGED_ANNOTATION} & annotations.keys()
    return "deletionTimestamp" in pod["metadata"] or bool(settled)


def _controller(pod: dict[str, Any]) -> OwnerReference | None:
    owners = convert(pod["metadata"].get("ownerReferences") or (), tuple[OwnerReference, ...])
    return next((owner for owner in owners if owner.controller), None)


def _decoded(raw: msgspec.Raw | bytes) -> dict[str, Any]:
    found: dict[str, Any] = decode(raw, dict)
    return found


def _still_away(pod: dict[str, Any]) -> str:
    metadata = pod["metadata"]
    return (
        f"a pod like {metadata['namespace']}/{metadata['name']} would get schedulerName={DEFAULT_SCHEDULER} "
        "again: the webhook does not answer the API server; nothing was changed"
    )
