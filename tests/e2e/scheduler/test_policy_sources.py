"""Configurations of the oldest version: policies come from a file, or from a ConfigMap of the cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.scheduler import bound, create_node, create_pod, scheduler
from tests.support.eventually import eventually

HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1alpha1
kind: KubeSchedulerConfiguration
schedulerName: packing
leaderElection: {leaderElect: false}
clientConnection: {kubeconfig: KUBECONFIG, qps: 1000, burst: 1000}
"""
PACKS = json.dumps(
    {
        "kind": "Policy",
        "apiVersion": "v1",
        "priorities": [{"name": "MostRequestedPriority", "weight": 1}],
    }
)
WAIT = 40.0


def create_config_map(cluster: Cluster, namespace: str, name: str, data: dict[str, str]) -> None:
    body = {"metadata": {"name": name}, "data": data}
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)


def write(cluster: Cluster, folder: Path, policy: str) -> Path:
    file = folder / "old.yaml"
    source = f"algorithmSource: {{policy: {policy}}}\n"
    file.write_text(HEAD.replace("KUBECONFIG", str(cluster.kubeconfig)) + source)
    return file


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "scheduler_core.app", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.smoke("file")
@pytest.mark.parametrize("where", ["file", "ConfigMap"])
def test_a_policy_decides_where_pods_go(where: str, cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    if where == "file":
        (tmp_path / "policy.json").write_text(PACKS)
        policy = "{file: {path: policy.json}}"
    else:
        create_config_map(cluster, namespace, "policy", {"policy.cfg": PACKS})
        policy = f"{{configMap: {{namespace: {namespace}, name: policy}}}}"
    for name in ("one", "two", "three"):
        create_node(cluster, name, "8")
    with scheduler(cluster, tmp_path, f"--config={write(cluster, tmp_path, policy)}") as running:
        for number in range(4):
            create_pod(cluster, namespace, f"p{number}", schedulerName="packing")
        eventually(lambda: len(bound(cluster, namespace)) == 4, WAIT)
        assert len(set(bound(cluster, namespace).values())) == 1
        assert running.end() == 0, running.said()


def test_the_tools_read_a_config_map_where_they_are_told_which_cluster(
    cluster: Cluster, tmp_path: Path
) -> None:
    namespace = cluster.namespace()
    create_config_map(cluster, namespace, "policy", {"policy.cfg": PACKS})
    file = str(write(cluster, tmp_path, f"{{configMap: {{namespace: {namespace}, name: policy}}}}"))
    there = f"--kubeconfig={cluster.kubeconfig}"
    alone = run("config", "validate", file)
    assert (alone.returncode, alone.stdout) == (1, "")
    assert "is in a cluster, which is not asked here (config commands: --kubeconfig)" in alone.stderr
    assert run("config", "validate", there, file).returncode == 0
    converted = run("config", "convert", there, "--to=v1", file)
    assert (converted.returncode, converted.stderr) == (0, "")
    new = tmp_path / "new.yaml"
    new.write_text(converted.stdout)
    assert run("config", "validate", str(new)).returncode == 0
    seen = run("config", "view", there, file)
    assert yaml.safe_load(seen.stdout) == yaml.safe_load(run("config", "view", str(new)).stdout)


BROKEN = {
    "missing": ("ConfigMap {}/missing does not exist", None),
    "without-key": ("ConfigMap {}/without-key has no key policy.cfg", {"policy.json": PACKS}),
    "no-policy": (
        "ConfigMap {}/no-policy: policy.cfg: priorities[0].weight: Invalid value: 0: "
        "priority ImageLocalityPriority should have a positive weight",
        {"policy.cfg": '{"priorities": [{"name": "ImageLocalityPriority"}]}'},
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_policy_that_cannot_be_had_ends_the_start(name: str, cluster: Cluster, tmp_path: Path) -> None:
    namespace = cluster.namespace()
    problem, data = BROKEN[name]
    if data is not None:
        create_config_map(cluster, namespace, name, data)
    file = write(cluster, tmp_path, f"{{configMap: {{namespace: {namespace}, name: {name}}}}}")
    ended = run(f"--config={file}", "--secure-port=0")
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert problem.format(namespace) in line
    assert line.startswith(f"{file}: algorithmSource.policy.configMap: ")
