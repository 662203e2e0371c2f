"""What the web view draws for amounts at their bounds, whole."""

from __future__ import annotations

from pathlib import Path

from tests.approved.drawings import drawings
from tests.support.approved import compare


def test_the_drawings_are_the_approved_ones() -> None:
    lines = "\n\n".join(drawings()).replace("><", ">\n<")
    compare(Path(__file__).parent / "drawings.txt", lines + "\n")
