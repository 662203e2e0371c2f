"""The pinned tools: one Kubernetes version, every staging repository of it, and where a tool comes from."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.tools import build

KUBERNETES = (
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubemark",
    "e2e.test",
)
# The newest release beside it, which serves the native groups as beta.
NEWEST = ("kube-apiserver-1.37", "kube-controller-manager-1.37", "kube-scheduler-1.37")


def pins(name: str) -> str:
    return (build.TOOLS / name / "go.mod").read_text()


@pytest.mark.parametrize("name", build.NAMES)
def test_module_names_the_program_it_builds(name: str) -> None:
    package = re.search(r"^tool (\S+)$", pins(name), re.M)
    if package is None:
        assert list((build.TOOLS / name).glob("*_test.go")), (
            "neither a tool line nor tests to make a program of"
        )
    else:
        assert name.removesuffix("-1.37") in package[1]
    assert (build.TOOLS / name / "go.sum").exists()


@pytest.mark.parametrize("names", [KUBERNETES, NEWEST], ids=["followed", "newest"])
def test_kubernetes_programs_share_one_version_with_its_staging_repositories(names: tuple[str, ...]) -> None:
    versions = {v for name in names for v in re.findall(r"k8s\.io/kubernetes (v\S+)", pins(name))}
    staging = {
        v for name in names for v in re.findall(r"^\s+k8s\.io/\S+ => k8s\.io/\S+ (v\S+)", pins(name), re.M)
    }
    (version,) = versions
    assert staging == {version.replace("v1.", "v0.")}


def fake(folder: Path, name: str, script: str = "exit 0") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on PATH, and an empty cache; the folder that is on PATH."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path / "bin"


def test_assets_go_before_path(bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(bare, "etcd")
    assert build.have("etcd").origin == "PATH"
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    own = fake(tmp_path, "etcd")
    assert build.have("etcd") == build.Tool("etcd", own, "KUBEBUILDER_ASSETS")


def test_without_go_the_message_says_so_in_one_line(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert build.main(["kubectl", "etcd"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "kubectl: it is not on PATH, and Go, which would build it, is not installed",
        "etcd: it is not on PATH, and Go, which would build it, is not installed",
    ]


def test_a_tool_is_built_once_and_linked(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A stand-in for Go: `go version`, and `go build ... -o FILE PACKAGE` that writes FILE.
    fake(bare, "go", 'case $1 in version) echo go1;; *) echo built >"$6"; echo "$@" >>"$0.log";; esac')
    fake(bare, "nice", 'shift 2; exec "$@"')
    (bare / "sh").symlink_to(shutil.which("sh", path=os.defpath) or "/bin/sh")
    links = bare.parent / "links"
    links.mkdir()
    for _ in range(2):
        assert build.main(["--link", str(links), "kubectl"]) == 0
    assert (links / "kubectl").read_text() == "built\n"
    assert (bare / "go.log").read_text().count("k8s.io/kubernetes/cmd/kubectl") == 1
    assert "(cache)" in capsys.readouterr().out.splitlines()[-1]


def test_changed_sources_are_built_anew(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(
        bare,
        "go",
        'case $1 in version) echo go1;; *) while [ "$1" != -o ]; do shift; done; echo >"$2";; esac',
    )
    fake(bare, "nice", 'shift 2; exec "$@"')
    (bare / "sh").symlink_to(shutil.which("sh", path=os.defpath) or "/bin/sh")
    module = bare.parent / "modules" / "e2e.test"
    module.mkdir(parents=True)
    for name in ("go.mod", "go.sum", "e2e_test.go"):
        (module / name).write_text(name)
    monkeypatch.setattr(build, "TOOLS", module.parent)
    first = build.have("e2e.test")
    assert build.have("e2e.test").path == first.path
    (module / "e2e_test.go").write_text("changed")
    assert build.have("e2e.test").path != first.path


def test_a_failed_build_ends_with_the_last_word_of_go(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fake(bare, "go", 'case $1 in version) echo go1;; *) echo "go: no such module" >&2; exit 1;; esac')
    fake(bare, "nice", 'shift 2; exec "$@"')
    assert build.main(["etcd"]) == 1
    assert "etcd: go build failed: go: no such module" in capsys.readouterr().err


def test_ci_script_is_sound_bash() -> None:
    script = build.TOOLS.parents[1] / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", script], timeout=10).returncode == 0
