"""The demo notices what goes wrong, and leaves nothing behind where it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from tests.support.demo_tour import TOUR_SECONDS, demo

pytestmark = pytest.mark.e2e


@pytest.mark.smoke
def test_it_fails_where_a_program_answers_differently(environment: dict[str, str], tmp_path: Path) -> None:
    """A kubectl that accepts what the webhook refuses: the demo must not go on."""
    fake = tmp_path / "kept" / "kubectl"
    fake.parent.mkdir()
    real = subprocess.run(
        ["/bin/sh", "-c", "command -v kubectl"], env=environment, capture_output=True, text=True, check=True
    ).stdout.strip()
    fake.write_text(f'#!/bin/sh\ncase "$*" in *wrong-max*) echo replaced; exit 0;; esac\nexec {real} "$@"\n')
    fake.chmod(0o755)
    environment = {**environment, "PATH": f"{fake.parent}{os.pathsep}{environment['PATH']}"}
    done = subprocess.run(
        demo("--chapter", "1"), env=environment, capture_output=True, text=True, timeout=TOUR_SECONDS
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Error: chapter 1: kubectl replace -f examples/two-teams/wrong-max-over-hard.yaml: "
        "ended with exit code 0: replaced\n"
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 143)])
def test_an_interrupted_tour_cleans_up(environment: dict[str, str], number: int, code: int) -> None:
    process = subprocess.Popen(
        demo(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    watchdog = threading.Timer(TOUR_SECONDS / 2, process.terminate)
    watchdog.start()
    try:
        while not (line := process.stdout.readline()).startswith("$ kubectl apply"):
            assert line, "ended before the first apply"
        process.send_signal(number)
        _, complaint = process.communicate(timeout=30)
    finally:
        watchdog.cancel()
    assert process.returncode == code
    assert "Traceback" not in complaint
