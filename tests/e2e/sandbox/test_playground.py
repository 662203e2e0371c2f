"""A cluster that lasts: it starts from a file, lives under load, is killed, and goes on as it was."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.clusters.stack import started
from tests.support.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.long]

SEED = """
name: two teams at work
now: 2026-01-01T00:00:00Z
objects:
- {kind: Node, metadata: {name: big}, status: {capacity: {cpu: 64, memory: 256Gi, pods: 110}}}
- {kind: ElasticQuota, metadata: {name: q, namespace: team-a}, spec: {min: {cpu: 2}, max: {cpu: 4}}}
- kind: Pod
  metadata: {name: runs, namespace: team-a}
  spec:
    nodeName: big
    schedulerName: muster-scheduler
    containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]
  status: {phase: Running, startTime: 2025-12-31T12:00:00Z}
steps:
- advance: 10s
"""


class Shell:
    """kubectl and muster-sandbox on one cluster."""

    def __init__(self, kubectl: Path, kubeconfig: Path) -> None:
        self._kubectl = str(kubectl)
        self._environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, capture_output=True, text=True, timeout=120, env=self._environment)

    def kubectl(self, *args: str) -> str:
        done = self.run(self._kubectl, *args)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def load(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run(sys.executable, "-m", "sandbox", "load", *args)

    def pods(self) -> dict[str, dict[str, Any]]:
        found = json.loads(self.kubectl("get", "pods", "-A", "-o", "json"))["items"]
        return {f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod for pod in found}


def test_a_cluster_lasts(tmp_path: Path, kubectl: Path) -> None:
    seed = tmp_path / "seed.yaml"
    seed.write_text(SEED)
    options = ("--keep", str(tmp_path / "kept"), "--seed-cluster", str(seed), "--speed", "20")
    with started(tmp_path, "sandbox", *options, nodes=None) as (process, kubeconfig, lines):
        shell = Shell(kubectl, kubeconfig)
        said = "".join(lines)
        assert f"{seed}: 3 objects." in said
        assert f"{seed}: its steps (1) are not played." in said
        check_seed_and_default_scheduler(shell)
        check_load(shell)
        shell.kubectl("create", "configmap", "answered")
        before = shell.pods()
        ca = shell.kubectl("config", "view", "--raw")
        process.send_signal(signal.SIGKILL)
        process.wait()
    with started(tmp_path, "sandbox", *options, nodes=None) as (_, kubeconfig, lines):
        assert "has objects already" in "".join(lines)
        assert shell.kubectl("config", "view", "--raw") == ca
        check_same(shell, before)


def check_seed_and_default_scheduler(shell: Shell) -> None:
    """The pod of the file runs on, and a pod of a namespace without a quota starts."""
    runs = eventually(lambda: running(shell, "team-a/runs"))
    assert runs["spec"]["nodeName"] == "big"
    assert runs["status"]["startTime"] < runs["metadata"]["creationTimestamp"]
    shell.kubectl("run", "plain", "--image=busybox")
    shell.kubectl("wait", "--for=condition=Ready", "pod/plain", "--timeout=90s")
    assert shell.pods()["default/plain"]["spec"]["schedulerName"] == "default-scheduler"
    used = ("get", "elasticquota", "q", "-n", "team-a", "-o", "jsonpath={.status.used.cpu}")
    assert eventually(lambda: shell.kubectl(*used) == "1")
    shell.kubectl("run", "quota", "--image=busybox", "-n", "team-a")
    assert shell.pods()["team-a/quota"]["spec"]["schedulerName"] == "muster-scheduler"
    # What is compared after the restart must not change before it.
    shell.kubectl("wait", "--for=condition=Ready", "pod/quota", "-n", "team-a", "--timeout=90s")


def running(shell: Shell, name: str) -> dict[str, Any] | None:
    pod = shell.pods().get(name)
    return pod if pod and pod["status"]["phase"] == "Running" else None


def check_load(shell: Shell) -> None:
    """Pods come, and go at twenty times the speed; the rest is removed."""
    done = shell.load("--pods", "40", "--rate", "200", "--seed", "3")
    assert done.returncode == 0, done.stderr
    # Where it takes seconds, lines of progress come first.
    assert "\ncreated 40 pods; bound " in f"\n{done.stdout}"
    assert "wait for a node: p50 " in done.stdout
    assert "refused" not in done.stdout
    assert eventually(lambda: all(pod["status"]["phase"] != "Running" for pod in loaded(shell)))
    done = shell.load("--clean")
    assert done.returncode == 0, done.stderr
    assert eventually(lambda: "load-" not in shell.kubectl("get", "namespaces"))


def loaded(shell: Shell) -> list[dict[str, Any]]:
    return [pod for name, pod in shell.pods().items() if name.startswith("load-")]


def check_same(shell: Shell, before: dict[str, dict[str, Any]]) -> None:
    """All objects are there as they were, and new ones get newer versions."""
    shell.kubectl("get", "configmap", "answered")
    after = shell.pods()
    assert after.keys() == before.keys()
    for name, pod in before.items():
        for field in ("uid", "creationTimestamp", "generation", "resourceVersion", "managedFields"):
            assert after[name]["metadata"].get(field) == pod["metadata"].get(field), name
        assert after[name]["status"] == pod["status"], name
    shell.kubectl("run", "later", "--image=busybox")
    shell.kubectl("wait", "--for=condition=Ready", "pod/later", "--timeout=90s")
    newest = max(int(pod["metadata"]["resourceVersion"]) for pod in before.values())
    later = shell.pods()["default/later"]
    assert int(later["metadata"]["resourceVersion"]) > newest
    addresses = [pod["status"]["podIP"] for pod in shell.pods().values()]
    assert len(addresses) == len(set(addresses))


def test_a_load_refuses_what_is_no_sandbox(server: Any, kubectl: Path) -> None:
    done = Shell(kubectl, server.kubeconfig).load("--pods", "1")
    assert done.returncode == 1
    assert done.stderr == (
        f"Error: {server.url} is no cluster of `muster-sandbox up`; --any-cluster loads it all the same\n"
    )
