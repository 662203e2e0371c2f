"""The fenced blocks of the documents, and the commands in them and in sentences."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
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
PROGRAMS = ("kubectl", "helm", "muster-sandbox", "muster-scheduler", "muster-webhook", "make")
_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)
_CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its page, the line of its fence, its language, its text, the paragraph before it."""

    page: str
    line: int
    language: str
    body: str
    before: str

    @property
    def file(self) -> str:
        """The file that the reader saves the block in: the last one named in the paragraph before; or ""."""
        names = [name for name in _CODE.findall(self.before) if re.fullmatch(r"[\w./-]+\.yaml", name)]
        return names[-1] if names else ""

    @property
    def where(self) -> str:
        """Page and line, as an editor takes them."""
        return f"{self.page}:{self.line}"


def fenced(page: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()]
        paragraph = before.rstrip("\n").rpartition("\n\n")[2]
        line = before.count("\n") + 1
        found.append(Block(page, line, match[2], textwrap.dedent(match[3]), paragraph))
    return found


def blocks(page: str, *languages: str) -> list[str]:
    """The texts of a page's fenced blocks in any of these languages."""
    return [block.body for block in fenced(page) if block.language in languages]


def in_sentences(page: str) -> list[str]:
    """The commands in a page's sentences: inline code that begins with a program and says what to do."""
    text = " ".join(_FENCE.sub("", (ROOT / page).read_text(encoding="utf-8")).split())
    return [code for code in _CODE.findall(text) if code.split()[0] in PROGRAMS and len(code.split()) > 1]


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
