"""What an interrupted set-up leaves."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.tools import environment
from tests.tools.environment import Environment, set_up
from tests.tools.progress import Line


def interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_second_ctrl_c_while_it_removes_leaves_no_half_of_an_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".unfinished").touch()
    monkeypatch.setattr(shutil, "rmtree", interrupted)
    monkeypatch.setattr(environment, "create", interrupted)
    with pytest.raises(KeyboardInterrupt):
        set_up(Environment(tmp_path, "dev"), Line())
    assert not (tmp_path / ".venv").exists()
