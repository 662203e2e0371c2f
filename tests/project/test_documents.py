"""Documents name files that exist, link to pages that exist, and draw the layers as they are enforced."""

from __future__ import annotations

import re
from pathlib import Path

from tests.project.test_layers import LAYERS
from tests.support.every import every_case

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")])
TOPS = "|".join(
    ("scheduler_core", "webhook", "kubectl_plugin", "sandbox", "charts", "tests", "docs", "examples")
)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@every_case("document", DOCUMENTS, named)
def test_files_that_a_document_names_exist(document: Path) -> None:
    found = set(re.findall(rf"`((?:{TOPS})/[\w./-]*)`", document.read_text(encoding="utf-8")))
    assert sorted(name for name in found if not (ROOT / name).exists()) == []


@every_case("document", DOCUMENTS, named)
def test_links_within_the_repository_lead_somewhere(document: Path) -> None:
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        page = document.parent / path if path else document
        if not page.exists() or (anchor and anchor not in headings(page)):
            broken.append(target)
    assert broken == []


def headings(page: Path) -> set[str]:
    """Anchors of a page's headings, as code hosts make them."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_architecture_draws_the_layers_that_are_enforced() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert "\n".join(" | ".join(line) for line in LAYERS) in text


@every_case("document", DOCUMENTS, named)
def test_waits_for_an_object_that_is_not_there_yet_name_it(document: Path) -> None:
    # Up to kubectl 1.32, `wait --for=create` with a selector ends with an error where nothing matches yet.
    waits = re.findall(r"^.*kubectl .*\bwait .*--for=create.*$", document.read_text(encoding="utf-8"), re.M)
    assert [line for line in waits if re.search(r" (?:--all|--(?:field-)?selector|-l)\b", line)] == []
