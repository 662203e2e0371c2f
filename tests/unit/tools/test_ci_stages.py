"""The stages of CI: every failure stands in the exit code, and a check that is ended leaves nothing."""

from __future__ import annotations

import os
import re
import shutil
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


def test_a_stage_says_what_its_command_says(tmp_path: Path) -> None:
    words = """bash -c 'echo "$0"; echo "$1" >&2' 'a b' c"""
    code, output = check(tmp_path, f"stage first 1 {words}\nstage second 1 true")
    assert (code, verdicts(output)) == (0, {"first": "ok", "second": "ok"})
    assert "=== first\na b\nc\n" in output


def test_what_a_stage_says_stands_before_the_next_stage(tmp_path: Path) -> None:
    """Also where what writes it is slow to start."""
    programs = tmp_path.with_suffix(".programs")
    programs.mkdir()
    (programs / "tee").write_text(f'#!/bin/sh\nsleep 0.5\nexec {shutil.which("tee")} "$@"\n')
    (programs / "tee").chmod(0o755)
    stages = "stage first 1 bash -c 'echo said'\nstage second 1 true\nstage third 1 bash -c 'exit 1'"
    code, output = check(tmp_path, f"PATH={programs}:$PATH\n{stages}")
    assert (code, list(verdicts(output))) == (1, ["first", "second", "third"])
    assert "=== first\nsaid\n\n=== second\n" in output


def test_the_first_failure_is_the_code_of_the_check_and_ends_no_other_stage(tmp_path: Path) -> None:
    stages = "stage bad 1 bash -c 'exit 7'\nstage worse 1 bash -c 'exit 8'\nstage good 1 true"
    code, output = check(tmp_path, stages)
    assert (code, verdicts(output)) == (7, {"bad": "FAILED (7)", "worse": "FAILED (8)", "good": "ok"})


def test_a_stage_that_takes_too_long_fails(tmp_path: Path) -> None:
    code, output = check(tmp_path, "stage slow 0.002 sleep 60\nstage good 1 true")
    assert code == 124
    assert verdicts(output) == {"slow": "FAILED (over 0.002 min)", "good": "ok"}


def test_stages_that_wait_run_beside_the_next_one_and_are_shown_after_it(tmp_path: Path) -> None:
    """The first one ends only after the second has begun, and the second only after the first has ended."""
    pipe = tmp_path.with_suffix(".pipe")
    os.mkfifo(pipe)
    stages = f"beside first 1 bash -c 'echo waits; read -r <{pipe}; exit 7'\n"
    stages += f"stage second 1 bash -c 'echo works; echo >{pipe}'\nstage third 1 true"
    code, output = check(tmp_path, stages)
    assert (code, verdicts(output)) == (7, {"second": "ok", "first": "FAILED (7)", "third": "ok"})
    assert "=== second\nworks\n\n=== first\nwaits\n\n=== third\n" in output


def test_a_stage_beside_another_one_that_takes_too_long_fails(tmp_path: Path) -> None:
    code, output = check(tmp_path, "beside slow 0.002 sleep 60\nstage good 1 true")
    assert code == 124
    assert verdicts(output) == {"good": "ok", "slow": "FAILED (over 0.002 min)"}


@pytest.mark.parametrize("kind", ["stage", "beside other 1 true\nstage", "stage short 1 true\nbeside"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["a time limit", "Ctrl-C"])
def test_a_check_that_is_ended_ends_its_stages(tmp_path: Path, number: signal.Signals, kind: str) -> None:
    pid = tmp_path.with_suffix(".pid")
    long = f"echo begun; echo $$ >{pid}; sleep 60; touch {pid}"
    process = start(tmp_path, f"{kind} long 1 bash -c '{long}'\nstage last 1 sleep 60\nstage later 1 true")
    try:
        eventually(lambda: pid.exists() and pid.read_text().strip())
        process.send_signal(number)
        output = process.communicate(timeout=60)[0]
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert ("=== long\nbegun\n" in output) == (kind.split()[-1] == "stage")
    assert "=== later" not in output
    eventually(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists())
    assert list(tmp_path.iterdir()) == []
