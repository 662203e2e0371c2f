"""The demo as a program: its environment, and what must be left after it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.eventually import eventually


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
