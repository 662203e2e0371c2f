"""Volumes of a pod that constrain the nodes where it can run."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec

# Of one part of a disk's identity; of a longer one, which the API accepts, its digest is kept.
_LONGEST_PART: Final = 512


class _ClaimSourceWire(msgspec.Struct, frozen=True, rename="camel"):
    claim_name: str
    read_only: bool | None = None


class _DiskWire(msgspec.Struct, frozen=True, rename="camel"):
    """The inline disks whose double attachment is refused: one identity field each."""

    pd_name: str = ""
    volume_id: str = msgspec.field(default="", name="volumeID")
    read_only: bool | None = None
    iqn: str = ""
    monitors: tuple[str, ...] | None = None
    pool: str = "rbd"
    image: str = ""


class VolumeWire(msgspec.Struct, frozen=True, rename="camel"):
    """One entry of `spec.volumes`."""

    name: str = ""
    persistent_volume_claim: _ClaimSourceWire | None = None
    ephemeral: Any = None
    gce_persistent_disk: _DiskWire | None = msgspec.field(default=None, name="gcePersistentDisk")
    aws_elastic_block_store: _DiskWire | None = msgspec.field(default=None, name="awsElasticBlockStore")
    iscsi: _DiskWire | None = None
    rbd: _DiskWire | None = None


class PodVolume(msgspec.Struct, frozen=True):
    """A volume that can decide placement: a claim by name, or an inline disk by identity.

    `claim` is the PersistentVolumeClaim's name (generic ephemeral volumes: pod name, dash, volume name).
    `disk` is `type:identity` of an inline disk; two pods may share it on a node only if both read.
    """

    claim: str = ""
    ephemeral: bool = False
    disk: str = ""
    read_only: bool = False


def _part(text: str) -> str:
    return text if len(text) <= _LONGEST_PART else sha256(text.encode(errors="replace")).hexdigest()


def _disks(volume: VolumeWire, most: int) -> list[PodVolume]:
    found: list[PodVolume] = []
    if volume.gce_persistent_disk is not None:
        disk = volume.gce_persistent_disk
        found.append(PodVolume(disk=f"gce:{_part(disk.pd_name)}", read_only=bool(disk.read_only)))
    if volume.aws_elastic_block_store is not None:
        # Kubernetes refuses a second user of an EBS volume on the node even for reading.
        found.append(PodVolume(disk=f"ebs:{_part(volume.aws_elastic_block_store.volume_id)}"))
    if volume.iscsi is not None:
        disk = volume.iscsi
        found.append(PodVolume(disk=f"iscsi:{_part(disk.iqn)}", read_only=bool(disk.read_only)))
    if volume.rbd is not None:
        disk = volume.rbd
        pool, image = _part(disk.pool), _part(disk.image)
        for monitor in (disk.monitors or ())[:most]:
            identity = f"rbd:{_part(monitor)}/{pool}/{image}"
            found.append(PodVolume(disk=identity, read_only=bool(disk.read_only)))
    return found


def parse_volumes(
    volumes: tuple[VolumeWire, ...], pod_name: str, most: int = 1 << 20
) -> tuple[PodVolume, ...]:
    """The first `most` volumes that matter to placement; ConfigMaps, Secrets and emptyDirs do not."""
    found: list[PodVolume] = []
    for volume in volumes:
        source = volume.persistent_volume_claim
        if source is not None:
            found.append(PodVolume(claim=source.claim_name, read_only=bool(source.read_only)))
        elif volume.ephemeral is not None:
            found.append(PodVolume(claim=f"{pod_name}-{volume.name}", ephemeral=True))
        else:
            found.extend(_disks(volume, most))
        if len(found) >= most:
            break
    return tuple(found[:most])
