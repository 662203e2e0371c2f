"""The pinned tools: one Kubernetes version, every staging repository of it, and a Go that builds them all."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from tests.tools import build, toolchain

KUBERNETES = (
    "kubectl",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubernetes-packages",
    "kubemark",
    "e2e.test",
)
# The newest release beside it, which serves the native groups as beta.
NEWEST = (
    "kube-apiserver-1.37",
    "kube-controller-manager-1.37",
    "kube-scheduler-1.37",
    "kubernetes-packages-1.37",
)


def pins(name: str) -> str:
    return (build.TOOLS / name / "go.mod").read_text()


@pytest.mark.parametrize("name", build.NAMES)
def test_module_names_the_program_it_builds(name: str) -> None:
    package = re.search(r"^tool (\S+)$", pins(name), re.M)
    if package is None:
        assert list((build.TOOLS / name).glob("*.go")), "neither a tool line nor a program of its own"
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


def test_the_pinned_go_is_new_enough_for_every_module_and_has_hashes() -> None:
    pinned = [int(part) for part in toolchain.version().split(".")]
    for name in build.NAMES:
        needed = re.search(r"^go (\d+)\.(\d+)", pins(name), re.M)
        assert needed
        assert pinned[:2] >= [int(part) for part in needed.groups()], name
    # Linux and macOS, on two processors each.
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", toolchain.PINNED.read_text())) == 4


@pytest.mark.parametrize("script", [".ci/run", "tests/bare/run"])
def test_scripts_are_sound_bash(script: str) -> None:
    path = build.TOOLS.parents[1] / script
    assert os.access(path, os.X_OK)
    assert subprocess.run(["bash", "-n", path], timeout=10).returncode == 0
