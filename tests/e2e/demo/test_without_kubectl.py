"""Without kubectl, the demo plays with a client of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.demo.chapters import CHAPTERS
from tests.support.demo_tour import LEFT_OUT, TOUR_SECONDS

pytestmark = pytest.mark.e2e
WITHOUT_KUBECTL = (1, 2, 7, 8, 11, 12, 13)
"""Chapters that together use every verb of the client, and those of LEFT_OUT."""


def _python_without_kubectl(folder: Path) -> Path:
    """This Python environment under another name, with Muster's plugins and no kubectl beside it."""
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").symlink_to(Path(sys.prefix) / "lib")
    (folder / "pyvenv.cfg").symlink_to(Path(sys.prefix) / "pyvenv.cfg")
    programs = Path(sys.executable).parent
    env = shutil.which("env")
    assert env is not None
    for path in (
        Path(sys.executable),
        programs / "kubectl-elasticquota",
        programs / "kubectl-podgroup",
        Path(env),
    ):
        (folder / "bin" / path.name).symlink_to(path)
    return folder / "bin" / Path(sys.executable).name


@pytest.mark.long
@pytest.mark.timeout(TOUR_SECONDS + 30)
def test_without_kubectl_the_tour_plays_with_the_client(environment: dict[str, str], tmp_path: Path) -> None:
    python = _python_without_kubectl(tmp_path / "kept")
    done = subprocess.run(
        [python, "-m", "sandbox", "demo", *(f"--chapter={number}" for number in WITHOUT_KUBECTL)],
        env={**environment, "PATH": str(python.parent), "MUSTER_NO_BUILD": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TOUR_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-3000:] + done.stderr
    lines = done.stdout.splitlines()
    assert "client: apply examples/two-teams/quotas.yaml" in lines
    refused = next(line for line in lines if "denied the request" in line)
    assert refused.startswith("Error from server (Forbidden): admission webhook ")
    assert [line for line in lines if line.startswith("$ kubectl ")] == []
    assert [line for line in lines if line.startswith("===")] == [
        f"=== {number}. {CHAPTERS[number].title} ===" for number in WITHOUT_KUBECTL
    ]
    told = lines[lines.index(f"Left out, because they need kubectl (commands: {len(LEFT_OUT)}):") + 1 :]
    for line, (number, command) in zip(told, LEFT_OUT.items(), strict=True):
        assert line.startswith(f"  chapter {number}: {command}")
