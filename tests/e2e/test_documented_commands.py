"""The commands of the README's first ten minutes, typed into a shell as they stand there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.clusters.stack import started
from tests.support.documents import ROOT, blocks
from tests.support.eventually import eventually

pytestmark = pytest.mark.e2e
START = "muster-sandbox up --all --nodes 3"


def ten_minutes() -> list[str]:
    """The commands for the second terminal: the block after the one that starts the sandbox."""
    shells = blocks("README.md", "sh")
    (at,) = [number for number, block in enumerate(shells) if START in block]
    activate, *typed = shells[at + 1].splitlines()
    assert activate == "source .venv/bin/activate"
    return typed


def test_the_ten_minutes_of_the_readme(tmp_path: Path, served_by: str, kubectl: Path) -> None:
    with started(tmp_path, served_by, nodes=3) as (_, kubeconfig, _lines):
        folders = (str(kubectl.parent), str(Path(sys.executable).parent), os.environ["PATH"])
        environment = {**os.environ, "PATH": os.pathsep.join(folders), "KUBECONFIG": str(kubeconfig)}

        def type_in(line: str) -> str:
            done = subprocess.run(
                ["sh", "-c", line], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
            )
            assert done.returncode == 0, f"{line}: {done.stdout}{done.stderr}"
            return done.stdout

        def settled() -> bool:
            """Whether the scheduler has tried every pod that there is to be."""
            wanted = json.loads(type_in("kubectl get deployments -A -o json"))["items"]
            pods = json.loads(type_in("kubectl get pods -A -o json"))["items"]
            tried = [
                pod
                for pod in pods
                for condition in pod["status"].get("conditions") or ()
                if condition["type"] == "PodScheduled"
            ]
            return len(tried) == sum(deployment["spec"]["replicas"] for deployment in wanted)

        said = {}
        for line in ten_minutes():
            said[line] = type_in(line)
            # A reader is slower than this test: wait until the scheduler has tried every pod.
            assert eventually(settled, timeout=60)
        quotas = said["kubectl elasticquota get -A"]
        assert [row.split()[0] for row in quotas.splitlines()[1:]] == ["analytics", "urgent", "web"]
        assert "FIELDS" in said["kubectl explain elasticquota.spec"]
        evicted = next(line for line in said if "reason=Preempted" in line)
        assert eventually(lambda: "web" in type_in(evicted), timeout=60)
        waiting = next(line for line in said if line == "kubectl events -n urgent")
        assert eventually(lambda: "FailedScheduling" in type_in(waiting), timeout=60)
