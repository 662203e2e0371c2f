"""The demo plays all its chapters to the end, notices what goes wrong, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sandbox.demo.chapters import CHAPTERS
from sandbox.demo.client_commands import ClientCommands
from sandbox.demo.commands import NeedsKubectl
from sandbox.demo.recording import lasting, story
from sandbox.demo.tour import ROOT
from tests.support.documents import blocks
from tests.support.eventually import eventually
from tests.support.pasting import first_missing

pytestmark = pytest.mark.e2e
TOUR_SECONDS = 300
PICTURE = ROOT / "docs" / "images" / "reclaim.svg"
CHAPTER_OF_PICTURE = 3


@pytest.fixture
def environment(kubectl: Path, tmp_path: Path) -> dict[str, str]:
    """kubectl on PATH, and a folder of our own for what is temporary."""
    path = f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}


@pytest.fixture(autouse=True)
def nothing_is_left(tmp_path: Path) -> Iterator[None]:
    """After each test: no file in the temporary folder, no process that was started with one from it."""
    yield
    assert eventually(lambda: not [line for line in _command_lines() if str(tmp_path) in line])
    assert [path.name for path in tmp_path.iterdir() if path.name != "kept"] == []


def _command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_text(errors="replace")
        except OSError:
            continue  # it has ended


def _demo(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "sandbox", "demo", *arguments]


@pytest.mark.timeout(TOUR_SECONDS + 30)
def test_every_chapter_comes_out_as_the_story_says(environment: dict[str, str]) -> None:
    done = subprocess.run(
        _demo(),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TOUR_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout[-3000:] + done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("===")] == [
        f"=== {number}. {chapter.title} ===" for number, chapter in CHAPTERS.items() if not chapter.real
    ]
    assert done.stdout.startswith("Left out: chapter 15, which needs real controllers; ")
    assert "\x1b" not in done.stdout
    told = _without_waits(done.stdout)
    words = lasting(_chapter(told)).split()
    # Word by word, so that a difference is seen. `make docs` makes the picture anew.
    assert words == story(PICTURE.read_text(encoding="utf-8")).split()[-len(words) :]
    lines = told.splitlines()
    assert [first_missing(excerpt, told) for excerpt in blocks("README.md", "console")] == ["", ""]
    needing = _needing_kubectl(lines)
    assert len(needing) == len(LEFT_OUT)
    assert all(map(str.startswith, needing, LEFT_OUT.values()))
    last = max(number for number, line in enumerate(lines) if line.startswith("$ "))
    assert lines[last] == "$ kubectl elasticquota get -A"
    # The story ends with the command that shows such a cluster in a browser.
    *rows, empty, browser = lines[last + 2 :]
    assert (empty, browser.split()[-2:]) == ("", ["demo", "--ui"])
    assert [line.split()[:8] for line in rows] == [
        ["astro", "quota", "example.com/card", "4", "3", "10", "-", "1"],
        ["bio", "quota", "example.com/card", "2", "2", "10", "-", "0"],
        ["shop", "quota", "example.com/card", "4", "4", "10", "-", "0"],
    ]


def _without_waits(tour: str) -> str:
    """The tour without the lines that a slow machine adds: what the demo waits for."""
    return re.sub(r"^\.\.\. \d+ s: .*\n", "", tour, flags=re.MULTILINE)


@pytest.mark.smoke
def test_lines_about_waits_are_no_part_of_the_story() -> None:
    assert _without_waits("$ a\n... 4 s: waiting for the end of a\nb\n... c\n") == "$ a\nb\n... c\n"


def _chapter(tour: str) -> str:
    """What the tour printed of the chapter in the picture, without the step to the next example."""
    begin = tour.index(f"=== {CHAPTER_OF_PICTURE}. ")
    return tour[begin : tour.index("# This example is over.", begin)]


def _needing_kubectl(lines: Iterable[str]) -> list[str]:
    """The commands of the tour that the client does not understand, in order."""
    found = []
    for line in lines:
        try:
            if line.startswith("$ "):
                ClientCommands.line(line.removeprefix("$ "))
        except NeedsKubectl as error:
            found.append(error.command)
    return found


LEFT_OUT = {
    2: "kubectl describe pod train-4 -n team-a | sed -n '/^Events/,$p'",
    11: "kubectl annotate --local ",
    13: 'sed "s/NOW/$(date -u +%FT%TZ)/" ',
}
"""The chapters in which something needs kubectl, and how the command begins."""
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
        _demo("--chapter", "1"), env=environment, capture_output=True, text=True, timeout=TOUR_SECONDS
    )
    assert done.returncode == 1
    assert done.stderr == (
        "Error: chapter 1: kubectl replace -f examples/two-teams/wrong-max-over-hard.yaml: "
        "ended with exit code 0: replaced\n"
    )


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 1), (signal.SIGTERM, 143)])
def test_an_interrupted_tour_cleans_up(environment: dict[str, str], number: int, code: int) -> None:
    process = subprocess.Popen(
        _demo(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
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
