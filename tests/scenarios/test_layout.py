"""Scenario files are laid out for readers: no line is so long that it must be scrolled."""

from __future__ import annotations

from pathlib import Path

from tests.support.every import assert_no_faults

COLUMNS = 110
FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*/*.yaml"))


def test_lines_are_short_enough_to_read() -> None:
    # A single long word, such as the path of a field, cannot be broken.
    assert FILES
    assert_no_faults(
        f"{path.relative_to(FOLDER)}:{number}: {len(line)} columns, at most {COLUMNS}: {line.strip()[:40]}..."
        for path in FILES
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > COLUMNS and " " in line.strip(" #")
    )
