"""Reads the CompositePodGroup of scheduling.k8s.io: a group of groups (alpha).

A PodGroup or another CompositePodGroup names its parent; the groups under one root are a tree. See
docs/gangs.md#composite-groups.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.gang import Disruption
from scheduler_core.model.groups.native import (
    ConstraintsWire,
    DisruptionWire,
    disruption_of,
    topology_key_of,
)
from scheduler_core.model.kinds import COMPOSITE_POD_GROUPS
from scheduler_core.model.meta import ApiObject, Raw, decode

KIND: Final = "CompositePodGroup"
_SUFFIX: Final = f" {KIND}"


def composite_key(namespace: str, name: str) -> str:
    """The key of a CompositePodGroup, which no group of pods has."""
    return f"{namespace}/{name}{_SUFFIX}"


def is_composite_key(key: str) -> bool:
    """Whether a key of a group or unit is that of a CompositePodGroup."""
    return key.endswith(_SUFFIX)


def composite_text(key: str) -> str:
    """`CompositePodGroup namespace/name`, for messages; `key` is that of a CompositePodGroup."""
    return f"{KIND} {key.removesuffix(_SUFFIX)}"


class Composite(msgspec.Struct, frozen=True, eq=False):
    """A group of groups: at least `min_groups` of its child groups start together, or none of them.

    Without a gang policy one suffices: as many child groups start as fit. `topology_key`: all pods of the
    subtree are on nodes with one value of this label. `disruption` says whether an eviction takes the whole
    subtree. `priority` and `preemption_policy` ("" where not given) count where the group is the root.
    `parent` is the name of the CompositePodGroup above, in the same namespace. `problem` is what is wrong
    with an object that cannot be followed.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    created: float
    min_groups: int = 1
    topology_key: str = ""
    disruption: Disruption = Disruption.SINGLE
    priority: int = 0
    preemption_policy: str = ""
    parent: str = ""
    problem: str = ""

    @property
    def key(self) -> str:
        """Unique over all groups."""
        return composite_key(self.namespace, self.name)

    def __str__(self) -> str:
        return composite_text(self.key)


class _GangPolicyWire(msgspec.Struct, frozen=True, rename="camel"):
    min_group_count: int = 1


class _PolicyWire(msgspec.Struct, frozen=True, rename="camel"):
    gang: _GangPolicyWire | None = None


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_policy: _PolicyWire | None = None
    scheduling_constraints: ConstraintsWire | None = None
    disruption_mode: DisruptionWire | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None


class _CompositeWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()


def parse_composite(raw: Raw, version: str = COMPOSITE_POD_GROUPS.version) -> Composite:
    """The value of a CompositePodGroup, whose fields are the same in every `version`. Raises ModelError."""
    wire = decode(raw, _CompositeWire, KIND)
    meta, spec = wire.metadata, wire.spec
    gang = spec.scheduling_policy.gang if spec.scheduling_policy is not None else None
    least = gang.min_group_count if gang is not None else 1
    namespace = meta.namespace or "default"
    problem = ""
    if least < 1:
        field = "spec.schedulingPolicy.gang.minGroupCount"
        text = f"{least} must be at least 1"
        problem = str(ModelError(field, text, kind=KIND, namespace=namespace, name=meta.name))
    return Composite(
        namespace,
        meta.name,
        meta.uid or meta.key,
        meta.resource_version,
        meta.created,
        max(least, 1),
        problem=problem,
        topology_key=topology_key_of(spec.scheduling_constraints),
        disruption=disruption_of(spec.disruption_mode),
        priority=spec.priority or 0,
        preemption_policy=spec.preemption_policy or "",
        parent=spec.parent_composite_pod_group_name or "",
    )
