"""`muster-sandbox up --all`: server, webhook and scheduler come up, work and stop together.

The server is the sandbox's own, or with `--kube-apiserver` a real one.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.support.clusters.stack import Running, started
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory, served_by: str) -> Iterator[Running]:
    """For all tests that bring nothing of their own; the last of them stops it."""
    with started(tmp_path_factory.mktemp("stack"), served_by) as running:
        yield running


# Every line of a start and a stop. The only warning is one that a busy machine earns.
EXPECTED_LINES = [
    r"A (sandbox|real kube-apiserver) with 2 nodes serves at https://127\.0\.0\.1:\d+ \(.*\)\.",
    r"export KUBECONFIG=\S+",
    r"Ctrl-C stops it\.",
    r"The (webhook is registered|scheduler is at work|sandbox has stopped)\.",
    r"webhook \| muster-webhook: serving on https://\S+ for https://\S+; health and metrics on http://\S+",
    r"webhook \| \S+ INFO muster\.webhook: review: .*",
    r"scheduler \| \S+ INFO scheduler_core\.app\.wiring: podgroups\.scheduling\.(x-)?k8s\.io: not served .*",
    # kube-apiserver may still prepare a kind that was just defined.
    r"scheduler \| \S+ INFO scheduler_core\.app\.wiring: watching: .* 429 .*storage is \(re\)initializing",
    r"webhook \| \S+ INFO muster\.webhook: watch of .* 429 .*storage is \(re\)initializing",
    r"scheduler \| \S+ WARNING scheduler_core\.app\.loop\.progress: a slow turn of the loop: .*",
    r"scheduler \| \S+ INFO scheduler_core\.app\.process: (leading .*|shut down)",
    r"scheduler \| \S+ INFO scheduler_core\.app\.loop\.event_handlers: synced: .*",
]


def unexpected(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not any(re.fullmatch(form, line) for form in EXPECTED_LINES)]


Run = Callable[..., subprocess.CompletedProcess[str]]


def runner(kubectl: Path, kubeconfig: Path) -> Run:
    """Runs kubectl; `body` goes to its standard input as JSON."""

    def run(*args: str, body: object = None) -> subprocess.CompletedProcess[str]:
        text = None if body is None else json.dumps(body)
        command = [str(kubectl), "--kubeconfig", str(kubeconfig), *args]
        return subprocess.run(command, input=text, text=True, capture_output=True, timeout=120)

    return run


def test_workloads_run_and_go(stack: Running, kubectl: Path) -> None:
    _, target, _ = stack
    run = runner(kubectl, target)
    spec = {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "work"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
        },
    }
    short = {"metadata": {"annotations": {"sandbox.muster.dev/run-seconds": "0.1"}}}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "work"},
        "spec": {"template": {**short, "spec": {**spec, "restartPolicy": "Never"}}},
    }
    assert run("create", "namespace", "work").returncode == 0
    assert run("-n", "work", "create", "quota", "q", "--hard=pods=9").returncode == 0
    for body in (deployment, job):
        made = run("apply", "-f", "-", body=body)
        assert made.returncode == 0, made.stderr
    for what in ("--for=condition=Available deployment/d", "--for=condition=Complete job/j"):
        waited = run("-n", "work", "wait", *what.split(), "--timeout=90s")
        assert waited.returncode == 0, waited.stderr
    for what in ("configmap/kube-root-ca.crt", "serviceaccount/default"):
        assert run("-n", "work", "get", what).returncode == 0
    used = ("get", "quota", "q", "-o", "jsonpath={.status.used.pods}")
    assert eventually(lambda: run("-n", "work", *used).stdout == "3")
    gone = run("delete", "namespace", "work", "--timeout=90s")
    assert gone.returncode == 0, gone.stderr


@pytest.mark.smoke
def test_a_quota_is_judged_and_a_pod_is_bound_and_all_stop_together(stack: Running, kubectl: Path) -> None:
    process, target, lines = stack
    run = runner(kubectl, target)
    quota = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "q", "namespace": "default"},
        "spec": {"min": {"cpu": 1}, "max": {"cpu": 2}},
    }
    assert run("apply", "-f", "-", body=quota).returncode == 0
    second = {**quota, "metadata": {"name": "q2", "namespace": "default"}}
    refusal = run("apply", "-f", "-", body=second)
    assert refusal.returncode == 1
    assert "denied the request" in refusal.stderr

    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}

    # Until the webhook has seen the new quota it leaves the pod to the default scheduler.
    def injected() -> bool:
        tried = run("create", "--dry-run=server", "-o", "jsonpath={.spec.schedulerName}", "-f", "-", body=pod)
        return tried.stdout == "muster-scheduler"

    eventually(injected)
    assert run("create", "-f", "-", body=pod).returncode == 0
    ready = run("wait", "--for=condition=ready", "pod/p", "--timeout=90s")
    assert ready.returncode == 0, ready.stderr
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert said.endswith("The sandbox has stopped.\n")
    assert unexpected([*"".join(lines).splitlines(), *said.splitlines()]) == []


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: /no/such/file, qps: 100, burst: 100}
profiles:
- schedulerName: packing
  plugins:
    score:
      disabled: [{name: "*"}]
      enabled: [{name: NodeResourcesFit}]
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


def test_the_scheduler_takes_any_configuration(tmp_path: Path, served_by: str, kubectl: Path) -> None:
    config = tmp_path / "packing.yaml"
    config.write_text(CONFIG)
    with started(tmp_path, served_by, "--config", str(config)) as (_, target, _lines):
        run = runner(kubectl, target)
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        for number in range(4):
            body = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": f"p{number}"},
                "spec": {"schedulerName": "packing", "containers": [container]},
            }
            assert run("create", "-f", "-", body=body).returncode == 0
            ready = run("wait", "--for=condition=ready", f"pod/p{number}", "--timeout=90s")
            assert ready.returncode == 0, ready.stderr
        nodes = run("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}").stdout.split()
        assert len(nodes) == 4
        assert len(set(nodes)) == 1
