"""Options of `muster-sandbox demo` are judged before anything is played."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from sandbox.demo import tour
from sandbox.demo.cli import demo


def test_a_picture_that_cannot_be_written_ends_the_demo_before_it_plays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    played: list[object] = []
    monkeypatch.setattr(tour, "play", played.append)
    missing = tmp_path / "none" / "demo.svg"
    done = CliRunner().invoke(demo, ["--without-kubectl", "--record", str(missing)])
    assert (done.exit_code, done.output) == (1, f"Error: {missing}: No such file or directory\n")
    assert not played
    CliRunner().invoke(demo, ["--without-kubectl", "--record", str(tmp_path / "demo.svg")])
    assert len(played) == 1
    assert not list(tmp_path.iterdir())
