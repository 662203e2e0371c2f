"""A real control plane that can be killed and started again, its etcd compacted or restored from a copy."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.clusters.cluster import await_established
from tests.support.clusters.control_plane import ControlPlane


class FaultPlane(ControlPlane):
    """As ControlPlane. Objects are stored as JSON, so that etcd's own history can be read."""

    def __init__(self, extra_flags: Sequence[str] = ()) -> None:
        super().__init__(extra_flags=("--storage-media-type=application/json", *extra_flags))
        self.etcd = ""
        self._running: dict[str, tuple[subprocess.Popen[bytes], Path, tuple[str, ...]]] = {}

    def _start_etcd(self, binary: Path) -> str:
        self.etcd = super()._start_etcd(binary)
        return self.etcd

    def _start(self, name: str, binary: Path, *flags: str) -> subprocess.Popen[bytes]:
        process = super()._start(name, binary, *flags)
        self._running[name] = (process, binary, flags)
        return process

    def kill_apiserver(self) -> None:
        """SIGKILL: nothing is finished, nothing is said."""
        process = self._running["kube-apiserver"][0]
        process.kill()
        process.wait(60)

    def start_apiserver(self) -> None:
        """The same one again, on the same port and the same etcd."""
        _, binary, flags = self._running["kube-apiserver"]
        process = self._start("kube-apiserver", binary, *flags)
        self._await("kube-apiserver", process, f"{self.url}/readyz", self.ca_file)
        # Kinds of CRDs come a moment after it is ready.
        await_established(self)

    def save(self) -> None:
        """Keep a copy of what etcd has stored, as a power cut at this moment would leave it."""
        etcd = self._running["etcd"][0]
        etcd.send_signal(signal.SIGSTOP)
        try:
            _replace(self._saved, self._data)
        finally:
            etcd.send_signal(signal.SIGCONT)

    def restore(self) -> None:
        """Back to the copy, revisions included: as after a disaster, and with the same simple means."""
        self.kill_apiserver()
        etcd, binary, flags = self._running["etcd"]
        etcd.terminate()
        etcd.wait(60)
        _replace(self._data, self._saved)
        self._await("etcd", self._start("etcd", binary, *flags), f"{self.etcd}/health", None)
        self.start_apiserver()

    @property
    def _data(self) -> Path:
        return self.folder / "etcd"

    @property
    def _saved(self) -> Path:
        return self.folder / "etcd-saved"

    def compact(self) -> int:
        """Let etcd forget every revision but the newest; which one that is."""
        revision = int(self._etcd("/v3/kv/range", {"key": "AA=="})["header"]["revision"])
        self._etcd("/v3/kv/compaction", {"revision": revision, "physical": True})
        return revision

    def _etcd(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        call = urllib.request.Request(f"{self.etcd}{path}", json.dumps(body).encode(), method="POST")
        with urllib.request.urlopen(call, timeout=30) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found


def _replace(target: Path, source: Path) -> None:
    """Make a folder a copy of another one."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
