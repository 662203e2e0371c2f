"""`muster-sandbox up --all`: server, webhook and scheduler come up, work and stop together."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e
START_SECONDS = 40.0
SIGNS = ("export KUBECONFIG=", "The webhook is registered.", "The scheduler is at work.")


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[str], Path, list[str]]]:
    """The process, its kubeconfig, and its lines up to the one that completes the start."""
    target = tmp_path / "kubeconfig"
    command = [sys.executable, "-m", "sandbox", "up", "--all", "--nodes", "2", "--kubeconfig", str(target)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    watchdog = threading.Timer(START_SECONDS, process.terminate)
    watchdog.start()
    lines: list[str] = []
    try:
        while not all(sign in "".join(lines) for sign in SIGNS):
            lines.append(process.stdout.readline())
            assert lines[-1], f"ended before it was up: {''.join(lines)}"
        watchdog.cancel()
        yield process, target, lines
    finally:
        watchdog.cancel()
        process.terminate()
        process.communicate(timeout=20)


def test_a_quota_is_judged_and_a_pod_is_bound(
    stack: tuple[subprocess.Popen[str], Path, list[str]], kubectl: Path
) -> None:
    process, target, _ = stack

    def run(*args: str, body: object = None) -> subprocess.CompletedProcess[str]:
        text = None if body is None else json.dumps(body)
        command = [str(kubectl), "--kubeconfig", str(target), *args]
        return subprocess.run(command, input=text, text=True, capture_output=True, timeout=30)

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
    def bound() -> bool:
        run("delete", "pod", "p", "--ignore-not-found", "--now")
        assert run("create", "-f", "-", body=pod).returncode == 0
        return run("wait", "--for=condition=ready", "pod/p", "--timeout=3s").returncode == 0

    assert eventually(bound, timeout=30)
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 0
    assert said.endswith("The sandbox has stopped.\n")
