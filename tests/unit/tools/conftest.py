"""A machine on which little is installed."""

from __future__ import annotations

import builtins
import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.tools.mutants_site.sitecustomize import BLOCKS, PLAN

# A stand-in for Go: it knows its version and two packages, and builds a file that says so.
GO = """case $1 in
env) echo go{version} ;;
list) echo fmt; echo os ;;
*) while [ "$1" != -o ]; do shift; done; echo built >"$2"; chmod +x "$2"; echo "$3 $GOCACHE" >>"{log}" ;;
esac"""


@dataclass(frozen=True)
class Machine:
    """The folder that is on PATH, and the folder for caches."""

    programs: Path
    cache: Path

    @property
    def builds(self) -> list[str]:
        """The package and the build cache of every build."""
        log = self.programs / "go.log"
        return log.read_text().splitlines() if log.exists() else []

    def install(self, name: str, script: str = "exit 0", folder: Path | None = None) -> Path:
        path = (folder or self.programs) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    def install_go(self, version: str = "1.26.0", folder: Path | None = None) -> Path:
        return self.install("go", GO.format(version=version, log=self.programs / "go.log"), folder)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    """A machine with a shell, nice, chmod and rm on PATH, and an empty cache."""
    machine = Machine(tmp_path / "bin", tmp_path / "cache" / "muster")
    machine.programs.mkdir()
    for name in ("sh", "nice", "chmod", "rm"):
        (machine.programs / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    monkeypatch.setenv("PATH", str(machine.programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(machine.cache.parent))
    for variable in ("KUBEBUILDER_ASSETS", "MUSTER_GO_CACHE", "MUSTER_NO_BUILD"):
        monkeypatch.delenv(variable, raising=False)
    return machine


@pytest.fixture
def a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that may load modules from other code: afterwards it loads them as before."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr(builtins, BLOCKS, {}, raising=False)
    monkeypatch.setenv(PLAN, "")
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
