"""Which pods went to another scheduler, and what would bring each back.

The API server is asked. A copy of each pod is created under dry run: what comes back says where such a pod
goes now, and which group it belongs to. So the rules are those of the webhook; while it is away nothing is
touched.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, Final, Literal

import msgspec

from kubectl_plugin.entry import CommandFailed
from kubectl_plugin.reading import UNFINISHED, Scope, list_if_served, list_raw
from scheduler_core.decoding import convert, decode
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Forbidden
from scheduler_core.model.adoption import way_back
from scheduler_core.model.gang import naming
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS
from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.names import (
    CHARGED_ANNOTATION,
    DEFAULT_SCHEDULER,
    GROUP_NAME_ANNOTATION,
    MIRROR_ANNOTATION,
    MUSTER_SCHEDULER,
)
from scheduler_core.model.writes import Create

ELSEWHERE: Final = f"spec.schedulerName={DEFAULT_SCHEDULER},{UNFINISHED}"
_QUOTA_WORDS: Final = "exceeded quota"
# What the server sets, and what a new pod may not have.
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


class Step(msgspec.Struct, frozen=True):
    """One pod and what is to be done: `way_back` where it has no node, `joins` where it has.

    `pod` is the object as it is stored; `scheduler` and `group` are what the API server gives such a pod now.
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
        """Its controller; without one an empty reference."""
        return _controller(self.pod) or OwnerReference()

    def manifest(self) -> dict[str, Any]:
        """The pod that takes its place, where nobody else makes one."""
        return _anew(self.pod, self.scheduler, self.group)


def plan(client: Client, scope: str, group: str | None) -> list[Step]:
    """What to do in a namespace (or in all, empty), for one group or for all that should be Muster's.

    Raises the ApiError tree, and CommandFailed where the API server would send them elsewhere again.
    """
    quotas = list_if_served(client, ELASTIC_QUOTAS, Scope(scope)) or ()
    governed = {str(_decoded(raw)["metadata"]["namespace"]) for raw in quotas}
    steps: list[Step] = []
    for raw in list_raw(client, PODS, Scope(scope, fields=ELSEWHERE)):
        pod = _decoded(raw)
        if _leaves_alone(pod):
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


def _step(pod: dict[str, Any], scheduler: str, group: str) -> Iterator[Step]:
    metadata = pod["metadata"]
    annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
    way = way_back(_controller(pod), labels, annotations)
    if pod["spec"].get("nodeName") and way != "released":
        if group and annotations.get(GROUP_NAME_ANNOTATION) != group:
            yield Step("joins", pod, scheduler, group)
        return
    yield Step(way, pod, scheduler, group)


def _probe(client: Client, pod: dict[str, Any], *, governed: bool) -> tuple[str, str]:
    """The scheduler and the group that the API server would give such a pod. Raises the ApiError tree.

    A native quota that is full refuses a second pod beside the first: then nobody said anything, and what the
    pod itself says, and whether its namespace is `governed` by a quota, must do.
    """
    body = _anew(pod, "", "")
    # A name of its own, and its controller's: whose group counts.
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


def _anew(pod: dict[str, Any], scheduler: str, group: str) -> dict[str, Any]:
    """A new pod like this one, with its scheduler and group where they are given."""
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
        # Both follow from the class, and must not differ from what it says by now.
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


def _leaves_alone(pod: dict[str, Any]) -> bool:
    """On its way out, a node agent's own, or judged by the webhook as what it is."""
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
