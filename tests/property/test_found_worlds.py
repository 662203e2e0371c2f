"""Small worlds, each of which once had a finding: nothing is excused in them.

What is checked is what `test_restart_equivalence.py` checks in random worlds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.worlds.files import world_of
from tests.support.worlds.player import play

# Together they take many seconds: `make test` plays each third, `make test-searches` all.
THIRD = 3
FOUND = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.long] if number % THIRD else [])
    for number, path in enumerate(sorted((Path(__file__).parent / "worlds").glob("*.yaml")))
]


@pytest.mark.parametrize("path", FOUND)
def test_worlds_that_found_a_fault(path: Path) -> None:
    findings = play(world_of(path)).findings
    assert not findings, f"step {findings[0].step}, {findings[0].check}: {findings[0].text}"
