"""The chapter of the tour that has real controllers comes out as its story says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.demo.chapters import CHAPTERS
from sandbox.real.control_plane import NAMES
from sandbox.real.controllers import JOBSET, JOBSET_CRD, MANAGER
from tests.support.demo_tour import TOUR_SECONDS, played, titles
from tests.tools.build import have
from tests.tools.owner_crds import released


def programs(folder: Path) -> Path:
    """A directory as `make demo-controllers` fills it."""
    for name in (*NAMES, MANAGER, JOBSET):
        (folder / name).symlink_to(have(name).path)
    (folder / JOBSET_CRD).write_bytes(released("JobSet"))
    return folder


@pytest.mark.timeout(TOUR_SECONDS + 30)
def test_chapters_with_real_controllers_come_out_as_the_story_says(kubectl: Path, tmp_path: Path) -> None:
    folder = programs(tmp_path)
    path = f"{kubectl.parent}{os.pathsep}{os.environ['PATH']}"
    shown = played({**os.environ, "PATH": path}, "--controllers", str(folder))
    assert titles(shown) == [
        f"=== {number}. {chapter.title} ===" for number, chapter in CHAPTERS.items() if chapter.real
    ]
