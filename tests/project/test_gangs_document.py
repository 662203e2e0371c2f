"""The tables of docs/gangs.md name scenarios and tests that exist, so that nothing is claimed unseen."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.documents import blocks
from tests.support.every import every_case
from webhook.owner_gangs.table import read_entries

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "gangs.md").read_text(encoding="utf-8")
FOLDERS = (
    "composite",
    "coscheduling",
    "group-quota",
    "native",
    "native-preemption",
    "native-status",
    "native-topology",
)
SCENARIOS = {path.stem for name in FOLDERS for path in (ROOT / "tests" / "scenarios" / name).glob("*.yaml")}
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def rows(title: str) -> list[tuple[str, str]]:
    """First and last cell of each row of the tables under a heading."""
    section = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    text = section.splitlines()
    heads = {number for number, line in enumerate(text, -1) if line.startswith("|--")}
    lines = [line for number, line in enumerate(text) if line.startswith("| ") and number not in heads]
    return [(line.split(" | ")[0].strip("| "), line.split(" | ")[-1]) for line in lines]


# The second table of the section is about fields.
OWNERS = [row for row in rows("Gangs from owners") if " of " in row[0] or "pods with" in row[0]]
# Its other tables are about fields, but for the versions of Kubernetes.
NATIVE = [row for row in rows("Native groups") if not re.match(r"1\.\d+$", row[0])]
CLAIMS = [
    *NATIVE,
    *rows("Wrong input"),
    *rows("The proposal, point by point"),
    *OWNERS,
]


@every_case("point, proofs", CLAIMS, lambda claim: claim[0])
def test_every_claim_names_a_proof_that_exists(point: str, proofs: str) -> None:
    named = re.findall(r"`([\w-]+)`", proofs)
    assert named or proofs.startswith("the same")
    assert [name for name in named if name not in SCENARIOS | TESTS] == []


def test_there_are_claims() -> None:
    assert len(CLAIMS) > 35


def test_the_entry_for_an_owner_of_your_own_is_understood() -> None:
    (text,) = [block for block in blocks("docs/gangs.md", "yaml") if "kind: Ship" in block]
    (entry,) = read_entries(text, "docs/gangs.md")
    decks = [{"name": "upper", "replicas": 3}, {"name": "lower"}]
    assert entry.count({"spec": {"mode": "Together", "decks": decks}}) == 3 + 1 + 1
