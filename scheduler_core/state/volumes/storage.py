"""Volumes, claims and storage classes, and what placed pods use of them."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler_core.model.storage_pools import CSIDriver, CSIStorageCapacity
from scheduler_core.state.nodes.held import Held
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.volumes.attachments import Attachments, Handle
from scheduler_core.state.volumes.pools import StoragePools
from scheduler_core.state.volumes.volume_table import VolumeTable

# An inline disk as its user holds it: identity, and whether for reading only.
Disk = tuple[str, bool]


class Assumed(msgspec.Struct, frozen=True):
    """A volume reserved for a claim and not yet bound in the API: the claim's key and the pod."""

    claim: str
    pod: str


class Storage:
    """The storage objects by key, the volumes as columns, and use per node."""

    def __init__(self, nodes: NodeTable) -> None:
        self.volumes: dict[str, PersistentVolume] = {}
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.classes: dict[str, StorageClass] = {}
        self.drivers: dict[str, CSIDriver] = {}
        self.pools = StoragePools(nodes)
        self.table = VolumeTable(nodes)
        self.attachments = Attachments(nodes, self.handle)
        self.assumed: dict[str, Assumed] = {}
        self.disks: Held[Disk] = Held()
        self.used: Held[str] = Held()
        self._assumed_for: dict[str, set[str]] = {}
        self._reserved: dict[str, set[str]] = {}
        self._claims_of_volume: dict[str, set[str]] = {}

    # Objects

    def put(self, obj: Any) -> None:
        """A storage object was added or changed."""
        if isinstance(obj, PersistentVolume):
            self._put_volume(obj)
        elif isinstance(obj, PersistentVolumeClaim):
            self._put_claim(obj)
        elif isinstance(obj, StorageClass):
            self.classes[obj.name] = obj
            self._class_changed(obj.name)
        elif isinstance(obj, CSINode):
            self.attachments.set_drivers(obj.name, obj.drivers)
        elif isinstance(obj, CSIDriver):
            self.drivers[obj.name] = obj
        elif isinstance(obj, CSIStorageCapacity):
            self.pools.put(obj)

    def remove(self, obj: Any) -> None:
        """A storage object is gone."""
        if isinstance(obj, PersistentVolume):
            self._remove_volume(obj.name)
        elif isinstance(obj, PersistentVolumeClaim):
            old = self.claims.pop(obj.key, None)
            if old is not None:
                _discard(self._claims_of_volume, old.volume, old.key)
            self._claim_changed(obj.key)
        elif isinstance(obj, StorageClass):
            self.classes.pop(obj.name, None)
            self._class_changed(obj.name)
        elif isinstance(obj, CSINode):
            self.attachments.set_drivers(obj.name, {})
        elif isinstance(obj, CSIDriver):
            self.drivers.pop(obj.name, None)
        elif isinstance(obj, CSIStorageCapacity):
            self.pools.remove(obj.key)

    def _put_volume(self, volume: PersistentVolume) -> None:
        self._unlink(volume.name)
        self.volumes[volume.name] = volume
        if volume.claim:
            self._reserved.setdefault(volume.claim, set()).add(volume.name)
            self._drop_assumed(volume.name)
        self.table.put(volume, usable=self._usable(volume))
        self._volume_changed(volume.name)

    def _remove_volume(self, name: str) -> None:
        self._unlink(name)
        self.volumes.pop(name, None)
        self._drop_assumed(name)
        self.table.remove(name)
        self._volume_changed(name)

    def _unlink(self, name: str) -> None:
        old = self.volumes.get(name)
        if old is not None:
            _discard(self._reserved, old.claim, name)

    def _usable(self, volume: PersistentVolume) -> bool:
        return volume.free and not volume.claim and volume.name not in self.assumed

    def _put_claim(self, claim: PersistentVolumeClaim) -> None:
        old = self.claims.get(claim.key)
        if old is not None:
            _discard(self._claims_of_volume, old.volume, old.key)
        self.claims[claim.key] = claim
        if claim.volume:
            self._claims_of_volume.setdefault(claim.volume, set()).add(claim.key)
        self._claim_changed(claim.key)

    def _claim_changed(self, claim: str) -> None:
        self.attachments.resolved_anew(claim, self.used.slots(claim))

    def _volume_changed(self, name: str) -> None:
        for claim in self._claims_of_volume.get(name, ()):
            self._claim_changed(claim)

    def _class_changed(self, name: str) -> None:
        """A class changed: all used claims of it are resolved again; this is rare."""
        for key in [key for key in self.used if self._class_of(key) == name]:
            self._claim_changed(key)

    def _class_of(self, claim: str) -> str:
        found = self.claims.get(claim)
        return found.storage_class if found is not None else ""

    # Use by placed pods

    def place(self, pod: Pod, slot: int) -> None:
        """A pod takes its volumes to a slot."""
        for volume in pod.volumes:
            if volume.disk:
                self.disks.add((volume.disk, volume.read_only), slot)
            else:
                claim = f"{pod.namespace}/{volume.claim}"
                if self.used.add(claim, slot):
                    self.attachments.use(claim, slot)

    def unplace(self, pod: Pod, slot: int) -> None:
        """A pod leaves with its volumes."""
        for volume in pod.volumes:
            if volume.disk:
                self.disks.drop((volume.disk, volume.read_only), slot)
            else:
                claim = f"{pod.namespace}/{volume.claim}"
                if self.used.drop(claim, slot):
                    self.attachments.release(claim, slot, last=not self.used.slots(claim))

    def handle(self, claim: str) -> Handle | None:
        """Driver and handle of a claim's CSI volume; one not made yet is known by its class and its claim.

        None for a volume of another sort or of another claim, which is attached for no pod of this one, for a
        claim that is not there, or one of an unknown class.
        """
        found = self.claims.get(claim)
        if found is None:
            return None
        volume = self.volumes.get(found.volume)
        if volume is not None:
            if is_of_another(volume, found):
                return None
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        made_by = self.classes.get(found.storage_class)
        if made_by is None or not made_by.provisions:
            return None
        return made_by.provisioner, f"claim {claim}"

    # Reservations of volumes

    def reserved_for(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Volumes reserved for a claim, in the API or by this scheduler, in name order."""
        named = self._reserved.get(claim.key, set()) | self._assumed_for.get(claim.key, set())
        found = [self.volumes[name] for name in sorted(named) if name in self.volumes]
        return [volume for volume in found if not volume.claim_uid or volume.claim_uid == claim.uid]

    def assume(self, volume: str, claim: str, pod: str) -> None:
        """Reserve a volume for a claim until the API shows it bound, or until `forget`."""
        self.assumed[volume] = Assumed(claim, pod)
        self._assumed_for.setdefault(claim, set()).add(volume)
        self.table.set_usable(volume, False)

    def forget(self, pod: str) -> None:
        """Release volumes reserved for a pod (by its uid) that the API does not show as bound."""
        for name in [name for name, item in self.assumed.items() if item.pod == pod]:
            self._drop_assumed(name)
            volume = self.volumes.get(name)
            if volume is not None:
                self.table.set_usable(name, self._usable(volume))

    def _drop_assumed(self, volume: str) -> None:
        item = self.assumed.pop(volume, None)
        if item is not None:
            _discard(self._assumed_for, item.claim, volume)


def is_of_another(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume is reserved for another claim than this one, which may name it all the same.

    Who may write claims writes any name, and the mark of a complete binding.
    """
    if volume.claim and volume.claim != claim.key:
        return True
    return bool(volume.claim_uid and claim.uid) and volume.claim_uid != claim.uid


def _discard(index: dict[str, set[str]], key: str, value: str) -> None:
    found = index.get(key)
    if found is not None:
        found.discard(value)
        if not found:
            del index[key]
