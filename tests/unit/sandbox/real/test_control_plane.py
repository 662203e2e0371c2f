"""Programs of a real control plane are found in a directory, and started from anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.real.control_plane import Binaries, binaries_in
from sandbox.real.controllers import JOBSET, JOBSET_CRD, MANAGER, controllers_in
from scheduler_core.errors import ConfigError


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_programs_of_a_relative_directory_start_in_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("etcd", "kube-apiserver"):
        program(tmp_path, name)
    monkeypatch.chdir(tmp_path.parent)
    assert binaries_in(Path(tmp_path.name)) == Binaries(tmp_path / "etcd", tmp_path / "kube-apiserver")


def test_controllers_come_with_the_definition_of_job_sets(tmp_path: Path) -> None:
    program(tmp_path, MANAGER)
    with pytest.raises(ConfigError, match="lacks the program jobset"):
        controllers_in(tmp_path)
    program(tmp_path, JOBSET)
    with pytest.raises(ConfigError, match=JOBSET_CRD):
        controllers_in(tmp_path)
    (tmp_path / JOBSET_CRD).write_text("kind: CustomResourceDefinition\nmetadata: {name: jobsets}\n")
    (definition,) = controllers_in(tmp_path).definitions
    assert definition["metadata"]["name"] == "jobsets"
