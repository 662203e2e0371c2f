"""Folder of `muster-sandbox up --keep`: one cluster's objects, certificates, token, port and kubeconfig."""

from __future__ import annotations

import fcntl
import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from sandbox.persistence.kept_objects import (
    Generation,
    KeptObjects,
    raise_revision,
    read_kept,
    write_generation,
)
from sandbox.persistence.records import FORMAT, FileDamaged
from scheduler_core.decoding import decoder
from scheduler_core.errors import MusterError

_LOCK: Final = "lock"
_SETTINGS: Final = "cluster.json"
_OWN: Final = frozenset(
    {_LOCK, "ca.crt", "server.crt", "server.key", "kubeconfig", "scheduler.yaml", "webhook"}
)


class KeptSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a restarted cluster has in common with its first start, beside its objects.

    `nodes` is the number of nodes that the first start made, `topology` the digest of them.
    """

    port: int
    token: str
    nodes: int
    topology: str = ""
    format: int = FORMAT


_settings = decoder(KeptSettings)


class FolderInUse(MusterError):
    """Another process keeps its cluster in the folder."""

    def __init__(self, folder: Path, process: str) -> None:
        self.folder = folder
        self.process = process
        super().__init__(folder, process)

    def __str__(self) -> str:
        return f"{self.folder} is used by process {self.process}"


class FolderUnusable(MusterError):
    """A folder that cannot be written: its path, and the cause."""

    def __init__(self, folder: Path, problem: str) -> None:
        self.folder = folder
        self.problem = problem
        super().__init__(folder, problem)

    def __str__(self) -> str:
        return (
            f"{self.folder}: cannot keep a cluster here: {self.problem}; name a folder that you can write to"
        )


class ForeignFolder(MusterError):
    """A folder with files of something else: the folder and one of its files."""

    def __init__(self, folder: Path, file: str) -> None:
        self.folder = folder
        self.file = file
        super().__init__(folder, file)

    def __str__(self) -> str:
        return (
            f"{self.folder} has files that are not of a sandbox ({self.file}); name an empty or a new folder"
        )


class KeptFolder:
    """Context manager that locks the folder; `settings` is None until a cluster's first start is complete.

    `restored` holds the objects of the last start, `generation` the files for the writes of this one. Raises
    FolderInUse, ForeignFolder, FolderUnusable and FileDamaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self.settings: KeptSettings | None = None
        self.restored = KeptObjects()
        self.generation = Generation(self.path, 0)
        self._exits = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._open()
        except OSError as error:
            raise FolderUnusable(self.path, error.strerror or str(error)) from None
        return self

    def _open(self) -> None:
        with self._exits:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._refuse_foreign()
            self._lock()
            self.settings = self._read_settings()
            if self.settings is None:
                write_generation(self.generation, (), self.restored.revision)
            else:
                self.generation, self.restored = read_kept(self.path)
                raise_revision(self.generation, self.restored)
            self._exits = self._exits.pop_all()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exits.close()

    def complete(self, settings: KeptSettings) -> None:
        """Remember the settings of a start, atomically."""
        self.settings = settings
        draft = self.path / f"{_SETTINGS}.draft"
        draft.touch(mode=0o600)
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(settings), indent=2) + b"\n")
        draft.replace(self.path / _SETTINGS)

    def _refuse_foreign(self) -> None:
        names = sorted(entry.name for entry in self.path.iterdir())
        if _SETTINGS in names:
            return
        for name in names:
            if name not in _OWN and not name.startswith(
                (f"{_SETTINGS}.", "objects.", "writes.", ".kubeconfig.")
            ):
                raise ForeignFolder(self.path, name)

    def _lock(self) -> None:
        file = self._exits.enter_context((self.path / _LOCK).open("a+"))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise FolderInUse(self.path, file.read().strip() or "?") from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()

    def _read_settings(self) -> KeptSettings | None:
        file = self.path / _SETTINGS
        if not file.exists():
            return None
        raw = file.read_bytes()
        try:
            found = msgspec.json.decode(raw)
            version = found.get("format") if isinstance(found, dict) else None
            if version != FORMAT:
                raise FileDamaged(file, f"has format {version}; this muster-sandbox reads format {FORMAT}")
            return _settings.decode(raw)
        except msgspec.MsgspecError as error:
            raise FileDamaged(file, str(error)) from None
