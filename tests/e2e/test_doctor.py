"""Who uses a quota, what was taken back, and whether all is well, on a whole installation and without one."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.clusters.cluster import Cluster
from tests.support.clusters.stack import started
from tests.support.eventually import eventually

pytestmark = [pytest.mark.e2e, pytest.mark.told_by("tests/e2e/test_kubectl_plugin.py")]
BIN = Path(sys.executable).parent
SECONDS = 60
WAIT = 60.0
# Each question is a kubectl and a plugin, which cost more than what they ask for.
PATIENCE = 1.0
Run = Callable[..., subprocess.CompletedProcess[str]]


def runner(kubectl: Path, kubeconfig: Path) -> Run:
    """Runs kubectl with the plugins, as a person does; `objects` go to its standard input."""
    path = os.pathsep.join([str(BIN), str(kubectl.parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "KUBECONFIG": str(kubeconfig), "NO_COLOR": "1"}

    def run(*argv: str, objects: list[dict] | None = None) -> subprocess.CompletedProcess[str]:
        text = yaml.safe_dump_all(objects) if objects is not None else None
        command = [str(kubectl), *argv]
        return subprocess.run(
            command, env=environment, input=text, capture_output=True, text=True, timeout=SECONDS
        )

    return run


def quota(namespace: str, low: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": low}, "max": {"cpu": "16"}},
    }


def pod(namespace: str, name: str, node: str = "") -> dict[str, Any]:
    """A pod of four CPUs."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"username": "ann"}},
        "spec": {
            "schedulerName": "muster-scheduler",
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            **({"nodeName": node} if node else {}),
            "containers": [{"name": "main", "image": "none", "resources": {"requests": {"cpu": "4"}}}],
        },
    }


def test_a_loan_and_its_reclaim_in_a_healthy_installation(
    tmp_path: Path, served_by: str, kubectl: Path
) -> None:
    """Two nodes of 8 CPUs, 4 guaranteed to the borrower and 12 to the lender, who takes them back."""
    with started(tmp_path, served_by) as (_, kubeconfig, _lines):
        run = runner(kubectl, kubeconfig)
        for name, low in (("borrows", "4"), ("lends", "12")):
            assert run("create", "namespace", name).returncode == 0
            made = run("create", "-f", "-", objects=[quota(name, low)])
            assert made.returncode == 0, made.stderr
        names = ["first", "second", "third"]
        assert run("create", "-f", "-", objects=[pod("borrows", name) for name in names]).returncode == 0
        waited = run("wait", "-n", "borrows", "--for=condition=Ready", "pod", "--all", "--timeout=90s")
        assert waited.returncode == 0, waited.stderr

        (row,) = json.loads(run("elasticquota", "usage", "-A", "--by", "user", "-o", "json").stdout)["usage"]
        assert (row["namespace"], row["user"], row["used"], row["borrowed"]) == ("borrows", "ann", "12", "8")
        used = run("elasticquota", "usage", "-n", "borrows", "--borrowed")
        assert used.stdout.count(" lends=8 ") == 2, used.stdout

        own = ["mine", "also-mine"]
        assert run("create", "-f", "-", objects=[pod("lends", name) for name in own]).returncode == 0
        waited = run("wait", "-n", "lends", "--for=condition=Ready", "pod", "--all", "--timeout=90s")
        assert waited.returncode == 0, waited.stderr

        def told() -> list[dict[str, Any]]:
            done = run("elasticquota", "history", "-A", "-o", "json")
            found: list[dict[str, Any]] = json.loads(done.stdout)["history"]
            return found

        eventually(lambda: any(item["pods"] for item in told()), WAIT, interval=PATIENCE)
        (record,) = told()
        assert (record["namespace"], record["byQuota"], record["count"]) == ("borrows", "lends/quota", 1)
        assert record["by"] in ("Pod lends/mine", "Pod lends/also-mine")
        assert set(record["pods"]) < set(names)

        def healthy() -> dict[str, Any]:
            # The status of a quota is written at most once a second, after its pods.
            done = run("elasticquota", "doctor", "-A", "-o", "json")
            found: dict[str, Any] = {item["check"]: item for item in json.loads(done.stdout)["checks"]}
            assert {item["severity"] for item in found.values()} == {"ok"}, done.stdout
            assert (done.returncode, done.stderr) == (0, "")
            return found

        checks = eventually(healthy, WAIT, interval=PATIENCE)
        assert checks["answer"]["summary"] == "the webhook refused an illegal ElasticQuota in a dry run"


def test_what_is_derived_is_repaired_and_nothing_else(cluster: Cluster, kubectl: Path) -> None:
    """A server without scheduler and webhook, whose quota says what nobody uses."""
    run = runner(kubectl, cluster.kubeconfig)
    namespace = cluster.namespace("ill")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    allocatable = {"status": {"allocatable": {"cpu": "16", "memory": "64Gi", "pods": "110"}}}
    cluster.kubectl(
        "create",
        "-f",
        "-",
        input=yaml.safe_dump_all([node | allocatable, quota(namespace, "4"), pod(namespace, "p", "n1")]),
    )
    cluster.kubectl(
        "patch",
        "elasticquota",
        "quota",
        "-n",
        namespace,
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps({"status": {"used": {"cpu": "6"}, "summary": {"used": "cpu 6/16", "borrowed": "cpu 2"}}}),
    )

    def stored() -> dict[str, Any]:
        got = cluster.kubectl("get", "elasticquota", "quota", "-n", namespace, "-o", "json")
        found: dict[str, Any] = json.loads(got.stdout)
        return found

    before = stored()
    scope = ["elasticquota", "doctor", "-n", namespace]
    asked = run(*scope)
    said = (
        f"error:   quota-use: ElasticQuota {namespace}/quota: status.used[cpu]=6 instead of 4 (1 pod counts)"
    )
    assert said in asked.stdout
    assert "error:   webhook: MutatingWebhookConfiguration muster-webhook: does not exist" in asked.stdout
    # A scheduler of an earlier test on this server may have left its Lease, which counts until it expires.
    leaderless = re.compile(r"^(warning|error): +leader: ", re.MULTILINE)
    eventually(lambda: leaderless.search(run(*scope).stdout), interval=PATIENCE)
    assert "error:   answer: webhook: was not asked: a dry run of an illegal ElasticQuota" in asked.stdout
    assert "quota repaired (server dry run)" in run(*scope, "--fix", "--dry-run=server").stdout
    assert stored() == before

    done = run(*scope, "--fix")
    assert "elasticquota.scheduling.x-k8s.io/quota repaired" in done.stdout.splitlines(), done.stderr
    assert done.returncode == 1, "the webhook is missing still"
    after = stored()
    assert after["status"] == {"used": {"cpu": "4"}, "summary": {"used": "cpu 4/16", "borrowed": ""}}
    assert after["spec"] == before["spec"]
    assert "ok:      quota-use: " in run(*scope).stdout
