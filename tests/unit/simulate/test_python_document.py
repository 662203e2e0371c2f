"""The page on the Python class is a program: its blocks run one after another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from scheduler_core import simulate

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/python.md").read_text()


def test_the_blocks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 5
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)


def test_every_public_method_is_in_the_table() -> None:
    rows = " ".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    public = {name for name in vars(simulate.Simulation) if not name.startswith("_")}
    assert {name for name in public if f"`{name}(" not in rows} == {"carry_out", "observe"}


@pytest.mark.parametrize("name", simulate.__all__)
def test_every_public_name_is_on_the_page(name: str) -> None:
    assert name in PAGE
