"""Finds the PodGroup of a new pod. The first of these applies:

1. its own annotation `scheduling.k8s.io/group-name`;
2. the label `scheduling.x-k8s.io/pod-group`, if it names a PodGroup of incubator.scheduling.k8s.io; pods of
   PodGroups of other API groups, by label or field, are left alone;
3. the annotation of its controller, of the controller of its controller, and so on (Job, StatefulSet,
   ReplicaSet -> Deployment, JobSet, PyTorchJob, ...);
4. in a namespace with the label `muster.dev/gang: auto`, the PodGroup that the webhook makes of what an owner
   says by itself: see `webhook.owner_gangs`;
5. the annotation `muster.dev/default-group` of its namespace.

Owners are looked up in the namespace of the pod only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import msgspec

from scheduler_core.model.groups.gang import naming
from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.names import (
    DEFAULT_GROUP_ANNOTATION,
    GROUP_NAME_ANNOTATION,
    SAKKARA_GROUP_NAME_LABEL,
    X_POD_GROUP_LABEL,
)
from scheduler_core.model.namespace import Namespace
from scheduler_core.quota.violations import Violation

# Longer than any chain of controllers in use; also ends cycles of owners.
MAX_OWNERS: Final = 5
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_PATH: Final = "/metadata/annotations/" + GROUP_NAME_ANNOTATION.replace("~", "~0").replace("/", "~1")


class Owner(msgspec.Struct, frozen=True):
    """A controller of pods: the group that it names, and its own controller."""

    uid: str
    group: str
    controller: OwnerReference | None


class Owners(Protocol):
    """Looks up controllers."""

    def find(self, namespace: str, reference: OwnerReference, *, ask: bool) -> Owner | None:
        """The owner of that uid in the namespace, or None where it cannot be read.

        Without `ask` only kinds that are watched are looked up.
        """


class NoOwners:
    """Finds no owners."""

    def find(self, namespace: str, reference: OwnerReference, *, ask: bool) -> Owner | None:
        """None."""
        return None


class PodMeta(msgspec.Struct, frozen=True, rename="camel"):
    """`metadata` of a new pod: the fields that determine its group."""

    name: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    deletion_timestamp: str | None = None
    owner_references: tuple[OwnerReference, ...] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages the pod, if any."""
        return next((owner for owner in self.owner_references or () if owner.controller), None)


class _SchedulingGroup(msgspec.Struct, frozen=True, rename="camel"):
    pod_group_name: str = ""


class PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    """`spec` of a new pod: the fields that determine its scheduler and group."""

    scheduler_name: str | None = None
    node_name: str | None = None
    priority_class_name: str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_group: _SchedulingGroup | None = None


class NewPod(msgspec.Struct, frozen=True):
    """The fields of a new pod that admission reads first."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec | None = None

    @property
    def annotations(self) -> Mapping[str, str]:
        """The pod's annotations, empty without."""
        return self.metadata.annotations or {}

    @property
    def named(self) -> str:
        """The group of the pod's own annotation, empty without."""
        return self.annotations.get(GROUP_NAME_ANNOTATION, "")

    @property
    def native_group(self) -> str:
        """The group of the native field, empty without."""
        group = self.spec.scheduling_group if self.spec is not None else None
        return group.pod_group_name if group is not None else ""


def group_of(
    pod: NewPod,
    namespace: str,
    is_ours: Callable[[str], bool],
    owners: Owners,
    home: Namespace | None,
    *,
    ask: bool,
) -> str:
    """The name of the pod's PodGroup, empty without. `is_ours`: whether a PodGroup of that name exists.

    `ask` allows questions to the API server about controllers of kinds that are not watched.
    """
    if is_of_other_dialect(pod, is_ours):
        return ""
    return chosen_group(pod, namespace, is_ours, owners, ask=ask) or default_group(home)


def is_of_other_dialect(pod: NewPod, is_ours: Callable[[str], bool]) -> bool:
    """Whether a pod names only a group that is no PodGroup of ours."""
    labels = pod.metadata.labels or {}
    if pod.named:
        return False
    if label := labels.get(X_POD_GROUP_LABEL, ""):
        return not is_ours(label)
    return bool(labels.get(SAKKARA_GROUP_NAME_LABEL) or pod.native_group)


def chosen_group(
    pod: NewPod, namespace: str, is_ours: Callable[[str], bool], owners: Owners, *, ask: bool
) -> str:
    """The PodGroup that a pod of no other dialect, or a controller of it, names; empty without."""
    if pod.named:
        return pod.named
    label = (pod.metadata.labels or {}).get(X_POD_GROUP_LABEL, "")
    if label and is_ours(label):
        return label
    return _of_owners(pod.metadata.controller, namespace, owners, ask)


def _of_owners(reference: OwnerReference | None, namespace: str, owners: Owners, ask: bool) -> str:
    for _ in range(MAX_OWNERS):
        if reference is None or reference.kind in ("Node", ""):
            return ""
        owner = owners.find(namespace, reference, ask=ask)
        if owner is None or owner.group:
            return owner.group if owner is not None else ""
        reference = owner.controller
    return ""


def default_group(home: Namespace | None) -> str:
    """The group of the namespace for pods without another one, empty without."""
    return home.annotations.get(DEFAULT_GROUP_ANNOTATION, "") if home is not None else ""


def check_move(pod: NewPod, before: NewPod, namespace: str) -> Violation | None:
    """The violation of an update that moves a pod out of its group.

    A pod without a group may join one, and a terminating pod may leave its group.
    """
    field, name = _named_by(pod)
    old_field, old_name = _named_by(before)
    if not old_name or (field, name) == (old_field, old_name) or pod.metadata.deletion_timestamp:
        return None
    if name:
        rule = f"moves the pod out of group {old_name}, which {old_field} named; create a new pod instead"
    else:
        field, rule = old_field, f"cannot be taken from a pod of group {old_name}; create a new pod instead"
    return Violation(f"Pod {namespace}/{pod.metadata.name}", field, name or '""', rule)


def _named_by(pod: NewPod) -> tuple[str, str]:
    """The field that names the group of a stored pod, and the group; empty without."""
    named = naming(pod.annotations, pod.metadata.labels or {}, pod.native_group)
    return (named.field, named.group) if named is not None else ("", "")


def is_group_name(text: str) -> bool:
    """Whether a PodGroup can have this name."""
    return _NAME.fullmatch(text) is not None


def annotation_patch(pod: NewPod, group: str) -> tuple[Mapping[str, Any], ...]:
    """The JSON patch that annotates a pod with its group; empty if there is nothing to write."""
    if pod.named or not is_group_name(group):
        return ()
    if pod.metadata.annotations is None:
        return ({"op": "add", "path": "/metadata/annotations", "value": {GROUP_NAME_ANNOTATION: group}},)
    return ({"op": "add", "path": _PATH, "value": group},)


def check_name(pod: NewPod, namespace: str) -> Violation | None:
    """The violation of a pod that names a group which cannot exist, such as one of another namespace."""
    if not pod.named or is_group_name(pod.named):
        return None
    return Violation(
        f"Pod {namespace}/{pod.metadata.name}",
        f"metadata.annotations[{GROUP_NAME_ANNOTATION}]",
        pod.named,
        "is no name of a PodGroup; a pod can belong only to a PodGroup of its own namespace",
    )
