"""A picture is written anew only if the session tells something else."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.demo.recording import lasting, save, story
from sandbox.demo.screen import Row


def session(output: str) -> list[Row]:
    return [Row("title", "=== 3. Pods ==="), Row("command", "$ kubectl get pods"), Row("output", output)]


@pytest.mark.parametrize(
    ("before", "now", "written"),
    [
        ("web   Running   9s", "web   Running   10s", False),
        ("web-7vq9x   5m30s", "web-bcdfg   1s", False),
        ("3s   waits", "1s (x2 over 3s)   waits", False),
        ("web   Running   9s", "web   Pending   9s", True),
        ("used 6", "used 7", True),
        ("gpu-0", "gpu-1", True),
    ],
    ids=[
        "another age",
        "another generated name",
        "an event again",
        "another phase",
        "another number",
        "another node",
    ],
)
def test_a_picture_that_tells_the_same_stays(tmp_path: Path, before: str, now: str, written: bool) -> None:
    path = tmp_path / "picture.svg"
    assert save(session(before), path)
    old = path.read_bytes()
    assert save(session(now), path) is written
    assert (path.read_bytes() != old) is written


def test_a_file_that_is_no_picture_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "picture.svg"
    path.write_text("<svg", encoding="utf-8")
    assert save(session("a"), path)
    assert story(path.read_text()) == "Pods === 3. Pods === $ kubectl get pods a"


def test_ages_repetitions_and_generated_endings_are_chance() -> None:
    text = "1s  pod/train-3  web-x7c2d  cpu=50m  500m  5m30s  (x2 over 9m)  --timeout=20s"
    assert lasting(text) == "* pod/train-3 web-* cpu=50m 500m * --timeout=20s"
