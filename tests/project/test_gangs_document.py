"""The tables of docs/gangs.md name scenarios and tests that exist, so that nothing is claimed unseen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "gangs.md").read_text(encoding="utf-8")
SCENARIOS = {path.stem for path in (ROOT / "tests" / "scenarios" / "coscheduling").glob("*.yaml")}
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def rows(title: str) -> list[tuple[str, str]]:
    """First and last cell of each row of the table under a heading."""
    section = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [(line.split(" | ")[0].strip("| "), line.split(" | ")[-1]) for line in lines]


CLAIMS = [*rows("Wrong input"), *rows("The proposal, point by point")]


@pytest.mark.parametrize(("point", "proofs"), CLAIMS, ids=[point for point, _ in CLAIMS])
def test_every_claim_names_a_proof_that_exists(point: str, proofs: str) -> None:
    named = re.findall(r"`([\w-]+)`", proofs)
    assert named or proofs.startswith("the same")
    assert [name for name in named if name not in SCENARIOS | TESTS] == []


def test_there_are_claims() -> None:
    assert len(CLAIMS) > 35
