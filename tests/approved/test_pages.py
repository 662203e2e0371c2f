"""What the web view answers, whole: each transcript is played anew and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.approved.pages import played
from tests.approved.transcript import Transcript
from tests.support.approved import compare

FILES = sorted((Path(__file__).parent / "console").glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_answers_are_the_approved_ones(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(file, played(Transcript.read(file), monkeypatch))
