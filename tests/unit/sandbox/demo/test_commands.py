"""Programs that are missing are named, and commands get an environment of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.demo import commands as module
from sandbox.demo.commands import (
    ToolMissing,
    command_environment,
    kubectl_is_out_of_reach,
    require_programs,
)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH and a Python environment without any program."""
    monkeypatch.setattr(module.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("MUSTER_NO_BUILD", raising=False)
    return tmp_path


def program(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def test_a_missing_program_is_named_before_anything_starts(bare: Path) -> None:
    with pytest.raises(ToolMissing) as caught:
        require_programs(with_kubectl=True)
    assert str(caught.value) == (
        "kubectl is not on PATH: install it, or run `make demo` (for real controllers "
        "`make demo-controllers`), which builds it, or set MUSTER_NO_BUILD=1 to play without it"
    )
    with pytest.raises(ToolMissing, match=r"^kubectl-elasticquota is not on PATH: install Muster"):
        require_programs(with_kubectl=False)
    program(bare, "kubectl-elasticquota")
    require_programs(with_kubectl=False)


@pytest.mark.parametrize(
    ("present", "forbidden", "without"),
    [(False, "1", True), (True, "1", False), (False, "", False)],
    ids=["neither there nor to be built", "there", "to be built"],
)
def test_the_demo_does_without_kubectl_only_where_it_must(
    bare: Path, monkeypatch: pytest.MonkeyPatch, present: bool, forbidden: str, without: bool
) -> None:
    monkeypatch.setenv("MUSTER_NO_BUILD", forbidden)
    if present:
        program(bare, "kubectl")
    assert kubectl_is_out_of_reach() is without


def test_an_older_discovery_cache_is_left_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECACHEDIR", "/older")
    environment = command_environment(tmp_path, tmp_path / "config", tmp_path / "cache")
    assert environment.variables["KUBECACHEDIR"] == str(tmp_path / "cache")
    assert environment.variables["KUBECONFIG"] == str(tmp_path / "config")
