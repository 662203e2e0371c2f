"""Nodes, typed: parsed once, when they arrive, into what scheduling reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.meta import ApiObject, decode
from scheduler_core.model.names import TAINT_UNSCHEDULABLE
from scheduler_core.model.pods.affinity import NO_SCHEDULE, Taint
from scheduler_core.model.resources import parse_resource_list

UNSCHEDULABLE_TAINT = Taint(key=TAINT_UNSCHEDULABLE, effect=NO_SCHEDULE)


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] | None = None


class _ImageWire(msgspec.Struct, frozen=True, rename="camel"):
    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    allocatable: dict[str, Any] | None = None
    capacity: dict[str, Any] | None = None
    images: tuple[_ImageWire, ...] | None = None


class NodeWire(ApiObject, frozen=True, rename="camel"):
    """A node, partial."""

    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class Node(msgspec.Struct, frozen=True, eq=False):
    """A node as the core sees it. `allocatable` is empty where the kubelet has not reported yet."""

    name: str
    uid: str
    resource_version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    created: float
    allocatable: dict[str, int]
    unschedulable: bool
    taints: tuple[Taint, ...]
    images: tuple[tuple[str, int], ...]

    @property
    def key(self) -> str:
        """The node's name."""
        return self.name


def node_from(wire: NodeWire) -> Node:
    """The typed node of a decoded object."""
    meta, spec, status = wire.metadata, wire.spec, wire.status
    # Kubernetes: allocatable defaults to capacity.
    field = "allocatable" if status.allocatable else "capacity"
    allocatable = parse_resource_list(
        status.allocatable or status.capacity, f"status.{field}", rounding="down"
    )
    images = tuple((name, image.size_bytes) for image in status.images or () for name in image.names or ())
    return Node(
        name=meta.name,
        uid=meta.uid or meta.name,
        resource_version=meta.resource_version,
        labels=meta.labels or {},
        annotations=meta.annotations or {},
        created=meta.created,
        allocatable={name: max(0, value) for name, value in allocatable.items()},
        unschedulable=bool(spec.unschedulable),
        taints=spec.taints or (),
        images=images,
    )


def parse_node(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> Node:
    """Read a node from JSON bytes or a dict. Raises ModelError naming the node and the field."""
    wire = decode(raw, NodeWire, "Node")
    try:
        return node_from(wire)
    except ModelError as error:
        raise error.within("Node", "", wire.metadata.name, wire.metadata.uid) from None
