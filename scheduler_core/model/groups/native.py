"""Reads the native PodGroup of scheduling.k8s.io in every version of its API.

See KEP-4671 and docs/gangs.md#native-groups.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.groups.gang import MINIMUM_FIELDS, Disruption, Gang, GangStatus, pod_group
from scheduler_core.model.kinds import NATIVE_POD_GROUPS
from scheduler_core.model.meta import ApiObject, Raw, decode

# The version of Kubernetes 1.36: other names of some fields, and a priority only behind a gate of its own.
V1ALPHA2: Final = "v1alpha2"
_MIN_COUNT: Final = MINIMUM_FIELDS["native-PodGroup"]


class _GangPolicyWire(msgspec.Struct, frozen=True, rename="camel"):
    min_count: int = 1


class _PolicyWire(msgspec.Struct, frozen=True, rename="camel"):
    gang: _GangPolicyWire | None = None


class TopologyWire(msgspec.Struct, frozen=True, rename="camel"):
    """A topology constraint: all pods in one domain of `key`."""

    key: str = ""


class ConstraintsWire(msgspec.Struct, frozen=True, rename="camel"):
    """`schedulingConstraints`."""

    topology: tuple[TopologyWire, ...] | None = None


class DisruptionWire(msgspec.Struct, frozen=True, rename="camel"):
    """`disruptionMode`; `all` where its members go together."""

    all: dict[str, Any] | None = None


class WorkloadRefWire(msgspec.Struct, frozen=True, rename="camel"):
    """`workloadRef`, in all versions."""

    workload_name: str = ""
    template_name: str = ""
    pod_group_template_name: str = ""


class _TemplateRefWire(msgspec.Struct, frozen=True, rename="camel"):
    workload: WorkloadRefWire | None = None


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_policy: _PolicyWire | None = None
    scheduling_constraints: ConstraintsWire | None = None
    disruption_mode: DisruptionWire | str | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    parent_composite_pod_group_name: str | None = None
    workload_ref: WorkloadRefWire | None = None
    pod_group_template_ref: _TemplateRefWire | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    conditions: tuple[ObjectCondition, ...] | None = None


class _NativePodGroupWire(ApiObject, frozen=True, rename="camel"):
    api_version: str = ""
    spec: _SpecWire = _SpecWire()
    status: _StatusWire | None = None


def parse_native_gang(raw: Raw, version: str = NATIVE_POD_GROUPS.version) -> Gang:
    """The gang of a native PodGroup of an API version. Raises ModelError.

    An object that names its own version is of that one; items of a list are of `version`.
    Without a gang policy the group is basic, with a minimum of 1. A minimum below 1 becomes the `problem` of
    the group: its pods wait. A group without a priority has 0, as the API server would set; in v1alpha2 it
    has none, because the field has a gate of its own there.
    """
    wire = decode(raw, _NativePodGroupWire, "PodGroup")
    spec = wire.spec
    version = wire.api_version.rpartition("/")[2] or version
    gang = spec.scheduling_policy.gang if spec.scheduling_policy is not None else None
    minimum = gang.min_count if gang is not None else 1
    return pod_group(
        wire.metadata,
        "native-PodGroup",
        max(minimum, 1),
        problem=_too_small(wire, minimum) if minimum < 1 else "",
        topology_key=topology_key_of(spec.scheduling_constraints),
        basic=gang is None,
        disruption=disruption_of(spec.disruption_mode),
        priority=spec.priority if version == V1ALPHA2 else spec.priority or 0,
        preemption_policy=spec.preemption_policy or "",
        parent=spec.parent_composite_pod_group_name or "",
        workload=_workload(spec),
        version=version,
        generation=wire.metadata.generation,
        status=GangStatus(conditions=wire.status.conditions if wire.status is not None else None),
    )


def topology_key_of(constraints: ConstraintsWire | None) -> str:
    """The label key of the one topology constraint; empty without one."""
    topology = (constraints.topology if constraints is not None else None) or ()
    return topology[0].key if topology else ""


def _too_small(wire: _NativePodGroupWire, minimum: int) -> str:
    meta = wire.metadata
    where = {"kind": "PodGroup", "namespace": meta.namespace or "default", "name": meta.name}
    return str(ModelError(_MIN_COUNT, f"{minimum} must be at least 1", **where))


def disruption_of(mode: DisruptionWire | str | None) -> Disruption:
    """`single` unless the group says otherwise; v1alpha2 has the strings Pod and PodGroup."""
    together = mode == "PodGroup" if isinstance(mode, str) else mode is not None and mode.all is not None
    return Disruption.ALL if together else Disruption.SINGLE


def _workload(spec: _SpecWire) -> tuple[str, str]:
    """The names of the Workload and of the template that the group was made from; empty without them."""
    ref = spec.workload_ref
    if ref is None and spec.pod_group_template_ref is not None:
        ref = spec.pod_group_template_ref.workload
    return (
        (ref.workload_name, ref.template_name or ref.pod_group_template_name) if ref is not None else ("", "")
    )
