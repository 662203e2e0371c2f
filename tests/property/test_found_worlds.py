"""Small worlds, each of which once had a finding: nothing is excused in them.

What is checked is what `test_restart_equivalence.py` checks in random worlds.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.searches import sampled
from tests.support.worlds.files import world_of
from tests.support.worlds.player import play

FOUND = sorted((Path(__file__).parent / "worlds").glob("*.yaml"))


@pytest.mark.parametrize("path", sampled((path.stem, path) for path in FOUND))
def test_worlds_that_found_a_fault(path: Path) -> None:
    findings = play(world_of(path)).findings
    assert not findings, f"step {findings[0].step}, {findings[0].check}: {findings[0].text}"
