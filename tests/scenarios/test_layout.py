"""Scenario files are laid out for readers: no line is so long that it must be scrolled."""

from __future__ import annotations

from pathlib import Path

import pytest

COLUMNS = 110
FILES = sorted(Path(__file__).parent.glob("*/*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_lines_are_short_enough_to_read(path: Path) -> None:
    # A single long word, such as the path of a field, cannot be broken.
    long = [
        number
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > COLUMNS and " " in line.strip(" #")
    ]
    assert long == []
