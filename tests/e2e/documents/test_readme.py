"""The README's "Ten minutes of your own" in a sandbox, pasted block by block."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.documents.reader import Reader
from tests.support.documents import Block
from tests.support.pasted_pages import README, story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]
OWN_CLUSTER = "docker build"


def in_the_sandbox() -> list[Block]:
    """The blocks before those for a cluster of one's own, which test_install.py pastes."""
    blocks = story(README)
    (end,) = [number for number, block in enumerate(blocks) if OWN_CLUSTER in block.body]
    return blocks[:end]


def test_the_ten_minutes_of_the_readme(tmp_path: Path, served_by: str) -> None:
    with Reader(tmp_path, served_by) as reader:
        reader.follow(in_the_sandbox())
