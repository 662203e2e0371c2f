"""Gangs: one form for every dialect of pod groups, and the membership of pods.

Dialects (docs/gangs.md#groups-in-every-dialect): the PodGroup of incubator.scheduling.k8s.io, the PodGroup of
scheduling.x-k8s.io (Kubeflow's trainer), the native PodGroup of scheduling.k8s.io (KEP-4671), and the group
ConfigMap (docs/topology.md#groups). The engine knows only `Gang`.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model import names
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.duration import parse_duration
from scheduler_core.model.groups.pod_group import PolicyWire
from scheduler_core.model.groups.topology import LONGEST_CONSTRAINTS, GroupSpec, takes_much
from scheduler_core.model.kinds import NATIVE_POD_GROUPS, POD_GROUPS, X_POD_GROUPS, Resource
from scheduler_core.model.meta import ApiObject, ObjectMeta, Raw, decode
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import LONGEST_KEY, MAX_RESOURCES, fractions, parse_resource_list

Dialect = Literal["PodGroup", "x-PodGroup", "native-PodGroup", "ConfigMap"]

RESOURCES: Final[Mapping[Dialect, Resource]] = {
    "PodGroup": POD_GROUPS,
    "x-PodGroup": X_POD_GROUPS,
    "native-PodGroup": NATIVE_POD_GROUPS,
}

# The names of the dialects for people (docs/cli.md#kubectl-podgroup-get).
DIALECT_NAMES: Final[Mapping[Dialect, str]] = {
    "PodGroup": "incubator",
    "x-PodGroup": "x-k8s",
    "native-PodGroup": "native",
    "ConfigMap": "configmap",
}
# Which group a plain name means if groups of several dialects have it: the first of these.
DIALECT_ORDER: Final[tuple[Dialect, ...]] = ("ConfigMap", "PodGroup", "x-PodGroup", "native-PodGroup")
# The field of the minimum in each dialect.
MINIMUM_FIELDS: Final[Mapping[Dialect, str]] = {
    "PodGroup": "spec.minMembers",
    "x-PodGroup": "spec.minMember",
    "native-PodGroup": "spec.schedulingPolicy.gang.minCount",
    "ConfigMap": "data.size",
}


def dialect_of(resource: Resource) -> Dialect | None:
    """The dialect of a kind of object in any version, or None if it is not a PodGroup."""
    name = resource.group, resource.plural
    return next(
        (dialect for dialect, known in RESOURCES.items() if (known.group, known.plural) == name), None
    )


class GroupRef(msgspec.Struct, frozen=True):
    """The group that a pod names. A pod can only belong to a group of its own namespace."""

    dialect: Dialect
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """Unique over all dialects, ordered by namespace and name."""
        return f"{self.namespace}/{self.name} {self.dialect}"

    @property
    def native(self) -> bool:
        """Whether it is a PodGroup of scheduling.k8s.io."""
        return self.dialect == "native-PodGroup"

    def __str__(self) -> str:
        kind = "group ConfigMap" if self.dialect == "ConfigMap" else "PodGroup"
        return f"{kind} {self.namespace}/{self.name}"


class Disruption(StrEnum):
    """What an eviction takes of a group (docs/gangs.md#preemption).

    GANG is the rule of all dialects but the native one: the whole group if it would fall below its minimum,
    else single members. The native group says SINGLE (also below the minimum) or ALL (also above it).
    """

    GANG = "gang"
    SINGLE = "single"
    ALL = "all"


class GangStatus(msgspec.Struct, frozen=True, rename="camel"):
    """The status of the object, kept to know whether it must be written again."""

    phase: str = ""
    admitted: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    conditions: tuple[ObjectCondition, ...] | None = None


class Gang(msgspec.Struct, frozen=True, eq=False):
    """A group of pods that start together: at least `min_members` of them, or none.

    `restarts`: what is left of a gang below minMembers is evicted, so that its owner starts it anew;
    spec.policy decides, where there is one, else the annotation.
    `constraints` and `results` are the texts of the topology annotations, `topology_key` the native group's
    single domain, `group` the data of a ConfigMap group. `priority` is that of the group object, or None.
    `total` is what it reserves (spec.totalResources). `hold`: for how many seconds it holds ElasticQuota
    while it waits, 0 for never (docs/gangs.md#quota-that-is-held). `problem` is what is wrong with a group
    that could not be read: its pods wait with it as their reason.

    A native group (KEP-4671): `basic` groups start as many members as fit, `disruption` says what an eviction
    takes, `priority` and `preemption_policy` ("" where not given) are the authority that its members must
    agree with, `parent` is the name of its CompositePodGroup, `workload` names (Workload, template).
    `version` is the API version that it was read in, `generation` that of its spec. `fractional` are the
    fields with fractions of what is counted, with their texts.
    """

    ref: GroupRef
    uid: str
    resource_version: str
    created: float
    min_members: int
    priority: int | None = None
    restarts: bool = False
    constraints: str = ""
    results: str = ""
    topology_key: str = ""
    group: GroupSpec | None = None
    total: dict[str, int] = {}
    status: GangStatus = GangStatus()
    problem: str = ""
    basic: bool = False
    disruption: Disruption = Disruption.GANG
    preemption_policy: str = ""
    parent: str = ""
    workload: tuple[str, str] = ("", "")
    hold: float = 0.0
    version: str = ""
    generation: int = 0
    fractional: tuple[tuple[str, str], ...] = ()

    @property
    def key(self) -> str:
        """The key of `ref`."""
        return self.ref.key


class Naming(NamedTuple):
    """The field of a pod that names its group."""

    dialect: Dialect
    field: str
    group: str


_BY_ANNOTATION: Final = f"metadata.annotations[{names.GROUP_NAME_ANNOTATION}]"
_BY_NATIVE_FIELD: Final = "spec.schedulingGroup.podGroupName"
_BY_X_LABEL: Final = f"metadata.labels[{names.X_POD_GROUP_LABEL}]"
_BY_SAKKARA_LABEL: Final = f"metadata.labels[{names.SAKKARA_GROUP_NAME_LABEL}]"


def naming(annotations: Mapping[str, str], labels: Mapping[str, str], native: str) -> Naming | None:
    """The first of these that is set: the annotation, the native field, the labels of the other dialects."""
    name = annotations.get(names.GROUP_NAME_ANNOTATION)
    if name:
        return Naming("PodGroup", _BY_ANNOTATION, name)
    if native:
        return Naming("native-PodGroup", _BY_NATIVE_FIELD, native)
    name = labels.get(names.X_POD_GROUP_LABEL)
    if name:
        return Naming("x-PodGroup", _BY_X_LABEL, name)
    name = labels.get(names.SAKKARA_GROUP_NAME_LABEL)
    return Naming("ConfigMap", _BY_SAKKARA_LABEL, name) if name else None


def group_of(pod: Pod) -> GroupRef | None:
    """The group that a pod names, in its own namespace."""
    named = naming(pod.annotations, pod.labels, pod.native_group)
    return GroupRef(named.dialect, pod.namespace, named.group) if named is not None else None


def two_groups(pod: Pod) -> str:
    """The line about a pod whose annotation and native field name a group each; empty for any other pod."""
    named = pod.annotations.get(names.GROUP_NAME_ANNOTATION)
    if not named or not pod.native_group:
        return ""
    return (
        f"Pod {pod.key}: {_BY_ANNOTATION} {named} and {_BY_NATIVE_FIELD} {pod.native_group} name two groups; "
        "a pod has one group: create it with one of them"
    )


def group_key(pod: Pod) -> str:
    """The key of the group that a pod names, empty for none."""
    ref = group_of(pod)
    return ref.key if ref is not None else ""


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    min_members: int = 1
    total_resources: dict[str, Any] | None = None
    policy: PolicyWire | None = None


class _PodGroupWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()
    status: GangStatus | None = None


class _XSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    min_member: int = 1


class _XPodGroupWire(ApiObject, frozen=True, rename="camel"):
    spec: _XSpecWire = _XSpecWire()


def pod_group(
    meta: ObjectMeta,
    dialect: Dialect,
    minimum: int,
    *,
    policy: PolicyWire | None = None,
    **more: Any,
) -> Gang:
    """The gang of the object of a PodGroup. Raises ModelError."""
    if minimum < 1:
        raise ModelError(
            MINIMUM_FIELDS[dialect],
            f"{minimum} must be at least 1",
            kind="PodGroup",
            namespace=meta.namespace,
            name=meta.name,
            uid=meta.uid,
        )
    annotations = meta.annotations or {}
    constraints = annotations.get(names.TOPOLOGY_CONSTRAINTS_ANNOTATION, "")
    results = annotations.get(names.TOPOLOGY_RESULTS_ANNOTATION, "")
    by_annotation = annotations.get(names.LIFECYCLE_POLICY_ANNOTATION)
    return Gang(
        ref=GroupRef(dialect, meta.namespace or "default", meta.name),
        uid=meta.uid or meta.key,
        resource_version=meta.resource_version,
        created=meta.created,
        min_members=minimum,
        restarts=policy.restarts if policy is not None else by_annotation == names.LIFECYCLE_RESTART,
        # One character more than is read, so that the text is at fault and says so.
        constraints=constraints[: LONGEST_CONSTRAINTS + 1],
        results="" if takes_much(results) else results,
        hold=hold_seconds(annotations) or 0.0,
        **more,
    )


def hold_seconds(annotations: Mapping[str, str]) -> float | None:
    """For how long the annotations of a group ask to hold quota; 0 without, None if it is no such time."""
    text = annotations.get(names.HOLD_QUOTA_ANNOTATION)
    if text is None:
        return 0.0
    seconds = parse_duration(text)
    return seconds if seconds is not None and seconds > 0 else None


def parse_gang(raw: Raw) -> Gang:
    """The gang of a PodGroup of incubator.scheduling.k8s.io. Raises ModelError."""
    wire = decode(raw, _PodGroupWire, "PodGroup")
    spec = wire.spec
    total = _total(spec)
    more: dict[str, Any] = {"status": wire.status or GangStatus(), "total": total}
    if total:
        more["fractional"] = fractions(spec.total_resources, "spec.totalResources")
    minimum, policy = spec.min_members, spec.policy
    return pod_group(wire.metadata, "PodGroup", minimum, policy=policy, **more)


def _total(spec: _SpecWire) -> dict[str, int]:
    """Totals decide nothing here, only admission reads them strictly; those at fault reserve nothing."""
    named = spec.total_resources or {}
    if len(named) > MAX_RESOURCES or sum(map(len, named)) > MAX_RESOURCES * LONGEST_KEY:
        return {}
    try:
        return parse_resource_list(spec.total_resources, "spec.totalResources")
    except ModelError:
        return {}


def parse_x_gang(raw: Raw) -> Gang:
    """The gang of a PodGroup of scheduling.x-k8s.io. Raises ModelError."""
    wire = decode(raw, _XPodGroupWire, "PodGroup")
    return pod_group(wire.metadata, "x-PodGroup", wire.spec.min_member)


def gang_of_group(meta: ObjectMeta, group: GroupSpec) -> Gang:
    """The gang of a group ConfigMap: all of its `size` pods, or none (docs/topology.md#groups)."""
    hold = hold_seconds(meta.annotations or {}) or 0.0
    return _of_config_map(meta, group.name, group.size, priority=group.priority, group=group, hold=hold)


def faulty_group(meta: ObjectMeta, name: str, problem: str) -> Gang:
    """The gang of a group ConfigMap whose text could not be read: its pods wait for a valid text."""
    return _of_config_map(meta, name, 1, problem=problem)


def _of_config_map(meta: ObjectMeta, name: str, size: int, **more: Any) -> Gang:
    ref = GroupRef("ConfigMap", meta.namespace or "default", name)
    return Gang(ref, meta.uid or meta.key, meta.resource_version, meta.created, size, **more)
