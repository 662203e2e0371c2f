"""What the kubectl plugins print, whole: each transcript is played anew and compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.approved.plugins import played
from tests.approved.transcript import Transcript
from tests.support.approved import compare

FOLDER = Path(__file__).parent / "transcripts"
FILES = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_output_is_the_approved_one(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(file, played(Transcript.read(file), tmp_path, monkeypatch))
