"""The stages of CI, side by side: every output as a whole, every failure in the exit code."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.eventually import eventually

ROOT = Path(__file__).parents[3]
SCRIPT = """set -euo pipefail
export TMPDIR={folder}
source .ci/stages
{stages}
lanes
summary
"""


def start(folder: Path, stages: str) -> subprocess.Popen[str]:
    """A check with these stages, whose temporary files go to `folder`."""
    script = SCRIPT.format(folder=folder, stages=stages)
    return subprocess.Popen(
        ["bash", "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def check(folder: Path, stages: str) -> tuple[int, str]:
    process = start(folder, stages)
    output = process.communicate(timeout=60)[0]
    assert list(folder.iterdir()) == []
    return process.returncode, output


def verdicts(output: str) -> dict[str, str]:
    """From the summary: each stage, and what became of it."""
    summary = output.partition("=== summary")[2]
    return dict(re.findall(r"^(\S+) +\d+ s  (.+)$", summary, re.M))


def test_lanes_run_side_by_side(tmp_path: Path) -> None:
    """Each of the two waits for what the other one makes."""
    here, there = tmp_path / "here", tmp_path / "there"
    wait = "until test -e {}; do sleep 0.05; done; rm {}"
    stages = f"""
queue one first 1 bash -c 'touch {here}; {wait.format(there, there)}'
queue two second 1 bash -c 'touch {there}; {wait.format(here, here)}'
"""
    code, output = check(tmp_path, stages)
    assert (code, verdicts(output)) == (0, {"first": "ok", "second": "ok"})


def test_the_output_of_a_stage_is_told_as_a_whole(tmp_path: Path) -> None:
    talk = 'for n in 1 2 3; do echo "$0 $n"; sleep 0.05; done'
    stages = f"queue one first 1 bash -c '{talk}' a\nqueue two second 1 bash -c '{talk}' b"
    output = check(tmp_path, stages)[1]
    assert "=== first\na 1\na 2\na 3\n" in output
    assert "=== second\nb 1\nb 2\nb 3\n" in output


def test_a_failure_fails_the_check_and_ends_no_other_stage(tmp_path: Path) -> None:
    words = """bash -c 'test "$0" = "a b"' 'a b'"""
    stages = f"queue one bad 1 bash -c 'exit 7'\nqueue one later 1 true\nqueue two good 1 {words}"
    code, output = check(tmp_path, stages)
    assert (code, verdicts(output)) == (7, {"bad": "FAILED (7)", "later": "ok", "good": "ok"})


def test_a_stage_before_the_lanes_fails_the_check(tmp_path: Path) -> None:
    code, output = check(tmp_path, "stage bad 1 false\nqueue one good 1 true")
    assert (code, verdicts(output)) == (1, {"bad": "FAILED (1)", "good": "ok"})


def test_a_stage_that_takes_too_long_fails(tmp_path: Path) -> None:
    code, output = check(tmp_path, "stage slow 0.002 sleep 60\nqueue one good 1 true")
    assert code == 124
    assert verdicts(output)["slow"] == "FAILED (over 0.002 min)"


def test_a_lane_that_breaks_off_fails_the_check(tmp_path: Path) -> None:
    """Its last stages are missing in the summary: that alone nobody would see."""
    code, output = check(tmp_path, "queue one first 1 true\necho 'next 1 true; exit 3' >>\"$logs/one.lane\"")
    assert (code, verdicts(output)) == (1, {"first": "ok", "next": "ok"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["a time limit", "Ctrl-C"])
def test_a_check_that_is_ended_tells_what_its_stages_said_and_ends_them(
    tmp_path: Path, number: signal.Signals
) -> None:
    pid = tmp_path.with_suffix(".pid")
    long = f"echo begun; echo $$ >{pid}; sleep 60; touch {pid}"
    stages = f"queue one long 1 bash -c '{long}'\nqueue one later 1 true"
    process = start(tmp_path, stages)
    try:
        eventually(lambda: pid.exists() and pid.read_text().strip())
        process.send_signal(number)
        output = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert "=== long\nbegun\n" in output
    assert "later begins" not in output
    eventually(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
    assert list(tmp_path.iterdir()) == []
