"""What volumes can still be made: CSI drivers, and the free space that they report."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from scheduler_core.model.meta import MAX_NAME, ApiObject, ClusterObject, NamespacedObject, Raw, decode
from scheduler_core.model.resources import parse_resource_list
from scheduler_core.model.selectors import (
    NOTHING,
    LabelSelectorWire,
    Selector,
    parse_selector,
    selector_size,
    too_many_selected,
)
from scheduler_core.model.storage import STORAGE

# Reported in place of a size that a pool does not have: no claim is that small.
NO_SIZE: Final = -1


class _DriverSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class _DriverWire(ApiObject, frozen=True, rename="camel"):
    spec: _DriverSpecWire = _DriverSpecWire()


class _CapacityWire(ApiObject, frozen=True, rename="camel"):
    storage_class_name: str = ""
    node_topology: LabelSelectorWire | None = None
    capacity: Any = None
    maximum_volume_size: Any = None


class CSIDriver(ClusterObject, frozen=True):
    """A driver: whether its pools are looked at, and whether nodes must list it to take its volumes."""

    reports_capacity: bool
    required_on_node: bool


class CSIStorageCapacity(NamespacedObject, frozen=True, eq=False):
    """The space for one class in a pool; nodes that `topology` selects reach it, none without one, or with
    one of more than 1,000 requirements and values.

    `largest` is the size of the largest volume that can be made, `capacity` what is free: bytes, or NO_SIZE.
    """

    storage_class: str
    topology: Selector | None
    largest: int
    capacity: int


def parse_csi_driver(raw: Raw) -> CSIDriver:
    """Read a CSIDriver. Raises ModelError naming the driver and the field."""
    wire = decode(raw, _DriverWire, "CSIDriver")
    spec = wire.spec
    return CSIDriver(
        wire.metadata.name, bool(spec.storage_capacity), bool(spec.prevent_pod_scheduling_if_missing)
    )


def parse_csi_storage_capacity(raw: Raw) -> CSIStorageCapacity:
    """Read a CSIStorageCapacity. Raises ModelError naming the object and the field."""
    wire = decode(raw, _CapacityWire, "CSIStorageCapacity")
    capacity = _size(wire.capacity, "capacity")
    largest = _size(wire.maximum_volume_size, "maximumVolumeSize")
    topology = None
    if wire.node_topology is not None:
        topology = parse_selector(wire.node_topology, "nodeTopology")
        if too_many_selected(selector_size(topology)):
            topology = NOTHING
    return CSIStorageCapacity(
        namespace=wire.metadata.namespace or "default",
        name=wire.metadata.name,
        storage_class=wire.storage_class_name[:MAX_NAME],
        topology=topology,
        largest=capacity if largest == NO_SIZE else largest,
        capacity=capacity,
    )


def _size(quantity: Any, path: str) -> int:
    return (
        NO_SIZE
        if quantity is None
        else parse_resource_list({STORAGE: quantity}, path, rounding="down")[STORAGE]
    )
