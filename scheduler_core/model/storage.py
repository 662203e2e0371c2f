"""Storage objects, typed: volumes, claims, classes, and the volume limits of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from scheduler_core.model import names
from scheduler_core.model.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES
from scheduler_core.model.meta import (
    MAX_NAME,
    ApiObject,
    ClusterObject,
    NamespacedObject,
    ObjectMeta,
    Raw,
    decode,
    parse,
)
from scheduler_core.model.quantity import Rounding
from scheduler_core.model.resources import parse_resource_list
from scheduler_core.model.selectors import (
    IN,
    NOTHING,
    LabelSelectorWire,
    NodeSelectorWire,
    NodeTerm,
    Requirement,
    Selector,
    parse_node_selector,
    parse_selector,
    selector_size,
    too_many_selected,
    wire_size,
)

STORAGE: Final = "storage"
FILESYSTEM: Final = "Filesystem"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
BOUND: Final = "Bound"
LOST: Final = "Lost"
AVAILABLE: Final = "Available"


class _RefWire(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = ""
    name: str = ""
    uid: str = ""


class _CsiWire(msgspec.Struct, frozen=True, rename="camel"):
    driver: str = ""
    volume_handle: str = ""


class _VolumeAffinityWire(msgspec.Struct, frozen=True, rename="camel"):
    required: NodeSelectorWire | None = None


class _VolumeSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    capacity: dict[str, Any] | None = None
    access_modes: tuple[str, ...] | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: _VolumeAffinityWire | None = None
    claim_ref: _RefWire | None = None
    csi: _CsiWire | None = None


class _PhaseWire(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""


class _VolumeWire(ApiObject, frozen=True, rename="camel"):
    spec: _VolumeSpecWire = _VolumeSpecWire()
    status: _PhaseWire = _PhaseWire()


class _RequestsWire(msgspec.Struct, frozen=True, rename="camel"):
    requests: dict[str, Any] | None = None


class _ClaimSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    access_modes: tuple[str, ...] | None = None
    resources: _RequestsWire | None = None
    storage_class_name: str | None = None
    volume_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    selector: LabelSelectorWire | None = None


class _ClaimWire(ApiObject, frozen=True, rename="camel"):
    spec: _ClaimSpecWire = _ClaimSpecWire()
    status: _PhaseWire = _PhaseWire()


class _TopologyValuesWire(msgspec.Struct, frozen=True, rename="camel"):
    key: str
    values: tuple[str, ...] = ()


class _TopologyWire(msgspec.Struct, frozen=True, rename="camel"):
    match_label_expressions: tuple[_TopologyValuesWire, ...] | None = None


class _ClassWire(ApiObject, frozen=True, rename="camel"):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[_TopologyWire, ...] | None = None


class _CountWire(msgspec.Struct, frozen=True, rename="camel"):
    count: int | None = None


class _DriverWire(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    allocatable: _CountWire | None = None


class _CsiNodeSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    drivers: tuple[_DriverWire, ...] | None = None


class _CsiNodeWire(ApiObject, frozen=True, rename="camel"):
    spec: _CsiNodeSpecWire = _CsiNodeSpecWire()


class PersistentVolume(ClusterObject, frozen=True, eq=False):
    """A volume. `claim` is `namespace/name` of the claim it is reserved for (`claim_uid` may be empty).

    `free` says that it can be matched to a claim; `terms` are its node affinity, None if it has none.
    """

    uid: str
    resource_version: str
    labels: dict[str, str]
    capacity: int
    modes: frozenset[str]
    storage_class: str
    volume_mode: str
    attributes_class: str
    terms: tuple[NodeTerm, ...] | None
    claim: str
    claim_uid: str
    free: bool
    deleting: bool
    driver: str
    handle: str


class PersistentVolumeClaim(NamespacedObject, frozen=True, eq=False):
    """A claim. `bound` means that the binding to `volume` is complete; `owner` is its controller's uid.

    `selector` is kept while there is no `volume`; `values` is how many requirements and values it has, and
    `left_out` says that it is too large to be read, so that it selects no volume.
    """

    uid: str
    resource_version: str
    request: int
    modes: frozenset[str]
    storage_class: str
    volume_mode: str
    attributes_class: str
    selector: Selector | None
    volume: str
    bound: bool
    lost: bool
    deleting: bool
    selected_node: str
    owner: str
    values: int = 0
    left_out: str = ""


class StorageClass(ClusterObject, frozen=True, eq=False):
    """A class: the provisioner, whether binding waits for a pod, and the allowed topologies."""

    provisioner: str
    binding_mode: str
    topologies: tuple[NodeTerm, ...]

    @property
    def waits(self) -> bool:
        """Whether claims are bound only when a pod that uses them is scheduled (WaitForFirstConsumer)."""
        return self.binding_mode == WAIT_FOR_FIRST_CONSUMER

    @property
    def provisions(self) -> bool:
        """Whether volumes can be provisioned on demand."""
        return self.provisioner not in ("", NO_PROVISIONER)


class CSINode(ClusterObject, frozen=True, eq=False):
    """The CSI drivers of a node, each with the number of volumes that it can attach, None for no limit."""

    drivers: dict[str, int | None]


def _class_of(meta: ObjectMeta, name: str | None) -> str:
    """The class of an object; as in Kubernetes, the legacy annotation takes precedence over the field."""
    return (meta.annotations or {}).get(names.STORAGE_CLASS_ANNOTATION, name or "")[:MAX_NAME]


def _amount(raw: Mapping[str, Any] | None, path: str, rounding: Rounding) -> int:
    only = {key: value for key, value in (raw or {}).items() if key == STORAGE}
    return parse_resource_list(only, path, rounding=rounding).get(STORAGE, 0)


def parse_persistent_volume(raw: Raw) -> PersistentVolume:
    """Read a PersistentVolume. Raises ModelError naming the volume and the field."""
    return parse(raw, _VolumeWire, PERSISTENT_VOLUMES, _volume_from)


def _volume_from(wire: _VolumeWire) -> PersistentVolume:
    meta, spec = wire.metadata, wire.spec
    reference, csi = spec.claim_ref, spec.csi or _CsiWire()
    affinity = spec.node_affinity or _VolumeAffinityWire()
    return PersistentVolume(
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        labels=meta.labels or {},
        capacity=_amount(spec.capacity, "spec.capacity", "down"),
        modes=frozenset(spec.access_modes or ()),
        storage_class=_class_of(meta, spec.storage_class_name),
        volume_mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        terms=parse_node_selector(affinity.required, "spec.nodeAffinity.required"),
        claim=f"{reference.namespace}/{reference.name}" if reference else "",
        claim_uid=reference.uid if reference else "",
        # A server always gives a phase; only objects that never met one have none.
        free=wire.status.phase in ("", AVAILABLE) and meta.deletion_timestamp is None,
        deleting=meta.deletion_timestamp is not None,
        driver=csi.driver,
        handle=csi.volume_handle,
    )


def parse_persistent_volume_claim(raw: Raw) -> PersistentVolumeClaim:
    """Read a PersistentVolumeClaim. Raises ModelError naming the claim and the field."""
    return parse(raw, _ClaimWire, PERSISTENT_VOLUME_CLAIMS, _claim_from)


def _claim_from(wire: _ClaimWire) -> PersistentVolumeClaim:
    meta, spec = wire.metadata, wire.spec
    notes = meta.annotations or {}
    requests = spec.resources.requests if spec.resources else None
    complete = names.BIND_COMPLETED_ANNOTATION in notes or wire.status.phase == BOUND
    asked = spec.selector if not spec.volume_name else None
    problem = too_many_selected(wire_size(asked))
    selector = parse_selector(asked, "spec.selector") if asked and not problem else None
    claim = PersistentVolumeClaim(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
        request=_amount(requests, "spec.resources.requests", "up"),
        modes=frozenset(spec.access_modes or ()),
        storage_class=_class_of(meta, spec.storage_class_name),
        volume_mode=spec.volume_mode or FILESYSTEM,
        attributes_class=spec.volume_attributes_class_name or "",
        selector=selector,
        volume=spec.volume_name[:MAX_NAME],
        bound=bool(spec.volume_name) and complete,
        lost=wire.status.phase == LOST,
        deleting=meta.deletion_timestamp is not None,
        selected_node=notes.get(names.SELECTED_NODE_ANNOTATION, "")[:MAX_NAME],
        owner=meta.controller.uid if meta.controller else "",
        values=selector_size(selector) if selector is not None else 0,
    )
    return (
        selecting_nothing(claim, f"PersistentVolumeClaim {claim.key}: spec.selector: {problem}")
        if problem
        else claim
    )


def selecting_nothing(claim: PersistentVolumeClaim, problem: str) -> PersistentVolumeClaim:
    """The claim as one that selects no volume; `problem` says why its selector is not read."""
    return msgspec.structs.replace(claim, selector=NOTHING, values=0, left_out=problem)


def parse_storage_class(raw: Raw) -> StorageClass:
    """Read a StorageClass. Raises ModelError naming the class and the field."""
    wire = decode(raw, _ClassWire, "StorageClass")
    topologies = tuple(
        NodeTerm(tuple(Requirement(item.key, IN, item.values) for item in term.match_label_expressions or ()))
        for term in wire.allowed_topologies or ()
    )
    mode = wire.volume_binding_mode or "Immediate"
    return StorageClass(wire.metadata.name, wire.provisioner, mode, topologies)


def parse_csi_node(raw: Raw) -> CSINode:
    """Read a CSINode. Raises ModelError naming the node and the field."""
    wire = decode(raw, _CsiNodeWire, "CSINode")
    drivers = {
        driver.name: driver.allocatable.count if driver.allocatable is not None else None
        for driver in wire.spec.drivers or ()
    }
    return CSINode(wire.metadata.name, drivers)
