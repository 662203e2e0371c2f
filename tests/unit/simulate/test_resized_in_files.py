"""Pods in files that are being resized count as in the version of Kubernetes that the file names."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from scheduler_core.simulate import load_scenarios, run_scenario
from tests.support.resized_pods import RESIZES, quota, resized_pod

NEWEST = (
    "kubernetesVersion: {} being resized and counts as in Kubernetes 1.37, as the file names no version; "
    '"1.36" counts otherwise'
)
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "64", "pods": "99"}},
}


def played(version: str, *names: str) -> tuple[str, list[str]]:
    """The CPUs that the quota uses, and what is said of the file."""
    pods = [resized_pod(f"default/{name}", RESIZES[name]) for name in names]
    document: dict[str, Any] = {"objects": [NODE, quota(), *pods], "steps": [{}]}
    if version:
        document["kubernetesVersion"] = version
    (scenario,) = load_scenarios(yaml.safe_dump(document))
    report = run_scenario(scenario)
    (step,) = report["steps"]
    used = step["status"]["ElasticQuota default/quota"]["used"]["cpu"]
    return str(used), report["warnings"]


VERSIONS: dict[str, tuple[str, tuple[str, ...], str, list[str]]] = {
    "the version before": ("1.36", ("moved",), "6", []),
    "a version as a server says it": ("v1.36.3", ("moved",), "6", []),
    "the newest version": ("1.37", ("moved",), "4", []),
    "a version that is not there yet": ("1.45", ("moved",), "4", []),
    "no version": ("", ("moved",), "4", [NEWEST.format("default/moved is")]),
    "no version, and several pods": (
        "",
        ("moved", "half-done", "grows"),
        "13",
        [NEWEST.format("2 pods are").replace("counts as in", "count as in")],
    ),
    "no version, and all versions agree": ("", ("grows", "at-rest"), "8", []),
}


@pytest.mark.parametrize(("version", "pods", "used", "said"), VERSIONS.values(), ids=VERSIONS)
def test_a_file_says_as_in_which_version_its_pods_count(
    version: str, pods: tuple[str, ...], used: str, said: list[str]
) -> None:
    assert played(version, *pods) == (used, said)
