"""What the controllers write, whole, while a small cluster lives through a night."""

from __future__ import annotations

from pathlib import Path

from tests.approved.writes import Night
from tests.support.approved import compare


def test_the_writes_are_the_approved_ones() -> None:
    compare(Path(__file__).parent / "writes.txt", Night().live())
