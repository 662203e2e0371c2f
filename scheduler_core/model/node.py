"""Nodes, typed: parsed once, when they arrive, into what scheduling reads."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.model.kinds import NODES
from scheduler_core.model.meta import ApiObject, ClusterObject, Raw, parse
from scheduler_core.model.names import TAINT_UNSCHEDULABLE
from scheduler_core.model.pods.affinity import NO_SCHEDULE, Taint
from scheduler_core.model.resources import parse_resource_list

# Set by Kubernetes where a kubelet has not reported for a while.
UNREACHABLE_TAINT_KEY = "node.kubernetes.io/unreachable"
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


class _NodeWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class Node(ClusterObject, frozen=True, eq=False):
    """A node as the core sees it. `allocatable` is empty where the kubelet has not reported yet."""

    uid: str
    resource_version: str
    labels: dict[str, str]
    annotations: dict[str, str]
    created: float
    allocatable: dict[str, int]
    unschedulable: bool
    taints: tuple[Taint, ...]
    images: tuple[tuple[str, int], ...]


def ends_its_pods(node: Node | None) -> bool:
    """Whether a node is there and, as far as its controller knows, has a kubelet that ends pods."""
    return node is not None and all(taint.key != UNREACHABLE_TAINT_KEY for taint in node.taints)


def _node_from(wire: _NodeWire) -> Node:
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


def parse_node(raw: Raw) -> Node:
    """Read a node from JSON bytes or a dict. Raises ModelError naming the node and the field."""
    return parse(raw, _NodeWire, NODES, _node_from)
