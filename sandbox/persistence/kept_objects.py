"""What the kept files of a cluster amount to: the last version of each object, and the next resourceVersion.

`objects.N` has all objects at one moment, `writes.N` all writes since. A new pair replaces the old one by
renaming `objects.N`, so that a complete pair is there after a crash at any moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sandbox.persistence.records import FileDamaged, Record, file_of, header, line_of, read_records
from sandbox.store.object_store import Version

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
REVISION_GAP: Final = 1_000_000
"""A client may have seen versions of writes that a crash lost; a restarted cluster gives them to no other."""

_Key = tuple[str, str, str]


@dataclass
class KeptObjects:
    """Objects by storage, namespace and name, and the newest resourceVersion."""

    objects: dict[_Key, Version] = field(default_factory=dict)
    revision: int = 1

    def apply(self, record: Record) -> None:
        """Carry out one recorded write."""
        self.revision = max(self.revision, record.rv)
        if record.put is not None:
            version = Version(record.put, record.rv)
            self.objects[record.storage, version.namespace, version.name] = version
        elif record.delete is not None:
            self.objects.pop((record.storage, *record.delete), None)

    def in_order(self) -> list[tuple[str, Version]]:
        """Definitions of kinds first, then by resourceVersion."""
        found = [(key[0], version) for key, version in self.objects.items()]
        return sorted(found, key=lambda item: (item[0] != DEFINITIONS, item[1].rv))


@dataclass(frozen=True)
class Generation:
    """The pair of files with one number."""

    folder: Path
    number: int

    @property
    def objects(self) -> Path:
        """All objects at the begin of the generation."""
        return self.folder / f"objects.{self.number}"

    @property
    def writes(self) -> Path:
        """The writes since."""
        return self.folder / f"writes.{self.number}"


def read_kept(folder: Path) -> tuple[Generation, KeptObjects]:
    """The newest generation in a folder and its objects; a torn end of the writes is cut off.

    Files of other generations, and drafts, are removed. Raises FileDamaged, and OSError.
    """
    numbers = [int(path.suffix[1:]) for path in folder.glob("objects.*") if path.suffix[1:].isdigit()]
    if not numbers:
        raise FileDamaged(folder, "lacks the file objects.N with the objects of the cluster")
    generation = Generation(folder, max(numbers))
    kept = KeptObjects()
    for record in read_records(generation.objects, may_be_torn=False)[0]:
        kept.apply(record)
    if generation.writes.exists():
        records, size = read_records(generation.writes, may_be_torn=True)
        for record in records:
            kept.apply(record)
        os.truncate(generation.writes, size)
    if not generation.writes.exists() or not generation.writes.stat().st_size:
        generation.writes.write_bytes(header())
    remove_others(generation)
    return generation, kept


def raise_revision(generation: Generation, kept: KeptObjects) -> None:
    """Let all later writes have versions that no write before had, not even one that was lost."""
    kept.apply(Record(kept.revision + REVISION_GAP))
    with generation.writes.open("ab") as file:
        file.write(line_of(Record(kept.revision)))
        file.flush()
        os.fsync(file.fileno())


def remove_others(generation: Generation) -> None:
    """Remove the files of all other generations, and drafts."""
    for path in [*generation.folder.glob("objects.*"), *generation.folder.glob("writes.*")]:
        if path not in (generation.objects, generation.writes):
            path.unlink()


def write_generation(generation: Generation, objects: Iterable[tuple[str, Version]], revision: int) -> None:
    """Write all objects as the begin of a new generation; on return it is on the disk and the only one."""
    records = (Record(version.rv, storage, put=version.obj) for storage, version in objects)
    draft = generation.objects.with_name(f"{generation.objects.name}.draft")
    with draft.open("wb") as file:
        file.writelines(file_of(records))
        file.write(line_of(Record(revision)))
        file.flush()
        os.fsync(file.fileno())
    generation.writes.write_bytes(header())
    draft.replace(generation.objects)
    _sync_folder(generation.folder)
    remove_others(generation)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
