"""The commands of the documents: what stands in their fenced blocks of sh, bash and console."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for path in [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        *(ROOT / "benchmarks").rglob("*.md"),
    ]
)
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)


def blocks(page: str, *languages: str) -> list[str]:
    """The fenced blocks of a page in any of these languages."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [textwrap.dedent(body) for _, language, body in _FENCE.findall(text) if language in languages]


def commands(page: str, *languages: str) -> list[str]:
    """The commands of these blocks, each on one line, without prompt, comment and here-document."""
    return [
        command
        for language in languages
        for body in blocks(page, language)
        for command in _of_block(body, prompt=language == "console")
    ]


def _of_block(body: str, prompt: bool) -> Iterator[str]:
    """In a console block only lines with a prompt are commands; the others are their output."""
    end = ""
    for line in body.replace("\\\n", " ").splitlines():
        if end:
            end = "" if line == end else end
            continue
        if prompt and not line.startswith("$ "):
            continue
        command = " ".join(re.sub(r"(^|\s)#.*$", "", line.removeprefix("$ ")).split())
        if match := re.search(r"<<(\w+)$", command):
            end = match[1]
        if command:
            yield command
