"""A terminal session as an animated SVG: a pure function of printed lines.

The picture has no script, font or link. Where animations do not run, it shows the end of the session.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby
from typing import Final

from sandbox.demo.screen import Row, Style

COLUMNS: Final = 100
LINES: Final = 25
_CELL, _LINE, _FONT = 7.5, 18, 12.5
_EDGE, _BAR = 25, 36
WIDTH: Final = round(COLUMNS * _CELL) + 2 * _EDGE
HEIGHT: Final = _BAR + LINES * _LINE + 2 * 14
_TOP: Final = _BAR + 14

# Seconds: for a typed character, after a command, to read a caption's character and an output's line.
_TYPING, _RETURN, _READING, _LOOKING, _LAST = 0.025, 0.4, 0.02, 0.35, 5.0
_MOST: Final = 2.5
_STYLE: Final = """\
text { font: %(font)spx ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: #c9d1d9; white-space: pre; }
.title { fill: #79c0ff; font-weight: bold; }
.caption { fill: #e3b341; }
.command { fill: #f0f6fc; font-weight: bold; }
.prompt { fill: #3fb950; }
.name { fill: #8b949e; text-anchor: middle; }
.block, .typing, .page { animation: %(total)ss step-end infinite; }
.typing { opacity: 0; }
@media (prefers-reduced-motion: reduce) { .block, .typing, .page { animation: none; } }
"""


@dataclass(frozen=True)
class Block:
    """Lines that appear together at `begin`; a command is typed until `end`. Seconds."""

    style: Style
    lines: tuple[str, ...]
    begin: float
    end: float


def wrapped(row: Row) -> list[Row]:
    """The row in lines of at most COLUMNS characters; lines after the first are indented."""
    if len(row.text) <= COLUMNS:
        return [row]
    lines = textwrap.wrap(
        row.text,
        COLUMNS,
        subsequent_indent="    ",
        replace_whitespace=False,
        drop_whitespace=True,
        break_on_hyphens=False,
    )
    return [Row(row.style, line) for line in lines]


def timed(rows: Sequence[Row]) -> list[Block]:
    """Rows as blocks with the times at which they appear; the pauses are long enough to read them."""
    blocks: list[Block] = []
    now = 0.5
    for style, group in groupby(rows, key=lambda row: row.style):
        lines = [row.text for row in group]
        for part in [[line] for line in lines] if style == "command" else [lines]:
            typed = len(part[0]) * _TYPING if style == "command" else 0.0
            blocks.append(Block(style, tuple(part), now, now + typed))
            now += typed + _pause(style, part)
    return blocks


def _pause(style: Style, lines: Sequence[str]) -> float:
    if style == "command":
        return _RETURN
    if style == "caption":
        return min(_MOST, sum(map(len, lines)) * _READING)
    return min(_MOST, sum(bool(line) for line in lines) * _LOOKING)


def animated(rows: Sequence[Row], title: str) -> str:
    """The picture of these rows. Only their text and order matter, so that equal sessions look equal."""
    begin = next((number for number, row in enumerate(rows) if row.text), 0)
    blocks = timed([line for row in rows[begin:] for line in wrapped(row)])
    total = (blocks[-1].end if blocks else 0.0) + _LAST
    style = _STYLE % {"font": _FONT, "total": f"{total:.2f}"}
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
            f'width="{WIDTH}" height="{HEIGHT}" xml:lang="en">',
            f"<title>{escape(title)}</title>",
            f"<desc>{escape(_description(rows))}</desc>",
            f"<style>\n{style}{''.join(_keyframes(blocks, total))}</style>",
            *_window(title),
            *_page(blocks),
            "</svg>",
            "",
        ]
    )


def _description(rows: Sequence[Row]) -> str:
    """The captions, which tell the session in words."""
    told = " ".join(row.text.removeprefix("# ") for row in rows if row.style == "caption")
    return f"A recording of a terminal. {told}"


def _window(title: str) -> Iterator[str]:
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="#0d1117"/>'
    yield f'<path d="M0 {_BAR}h{WIDTH}" stroke="#30363d"/>'
    for number, color in enumerate(("#ff5f57", "#febc2e", "#28c840")):
        yield f'<circle cx="{_EDGE + 20 * number}" cy="{_BAR // 2}" r="6" fill="{color}"/>'
    yield f'<text class="name" x="{WIDTH // 2}" y="{_BAR // 2 + 4}">{escape(title)}</text>'


def _page(blocks: Sequence[Block]) -> Iterator[str]:
    count = sum(len(block.lines) for block in blocks)
    view = f'<rect y="{_TOP}" width="{WIDTH}" height="{LINES * _LINE + 4}"/>'
    yield f'<clipPath id="view">{view}</clipPath><g clip-path="url(#view)">'
    yield f'<g class="page" style="animation-name:page" transform="{_moved(count)}">'
    row = 0
    for number, block in enumerate(blocks):
        yield f'<g class="block" style="animation-name:b{number}">'
        for line in block.lines:
            if line:
                yield _text(block.style, line, row)
            row += 1
        if block.style == "command":
            yield _typing(number, row - 1)
        yield "</g>"
    yield "</g></g>"


def _text(style: Style, line: str, row: int) -> str:
    words = escape(line, quote=False)
    if style == "command" and line.startswith("$ "):
        words = f'<tspan class="prompt">$</tspan>{words[1:]}'
    y = _TOP + row * _LINE + 13
    length = f"{len(line) * _CELL:g}"
    return (
        f'<text class="{style}" x="{_EDGE}" y="{y}" textLength="{length}" xml:space="preserve">{words}</text>'
    )


def _typing(number: int, row: int) -> str:
    """What covers a command that is not typed yet, with the cursor at its left."""
    y = _TOP + row * _LINE
    return (
        f'<g class="typing" style="animation-name:t{number}">'
        f'<rect x="{_EDGE}" y="{y - 1}" width="{WIDTH}" height="{_LINE}" fill="#0d1117"/>'
        f'<rect x="{_EDGE}" y="{y}" width="{_CELL}" height="{_LINE - 2}" fill="#c9d1d9"/></g>'
    )


def _moved(count: int) -> str:
    """The page moves up so that the last of `count` lines is the last line in view."""
    return f"translate(0 {-_LINE * max(0, count - LINES)})"


def _keyframes(blocks: Sequence[Block], total: float) -> Iterator[str]:
    pages = ["0%{transform:translate(0,0)}"]
    count = 0
    for number, block in enumerate(blocks):
        count += len(block.lines)
        begin = _percent(block.begin, total)
        yield f"@keyframes b{number}{{0%{{opacity:0}}{begin},100%{{opacity:1}}}}\n"
        if block.style == "command":
            yield _typed(number, block, total)
        if count > LINES:
            pages.append(f"{begin}{{transform:translate(0,{-_LINE * (count - LINES)}px)}}")
    if len(pages) > 1:
        last = pages[-1].partition("{")[2]
        yield f"@keyframes page{{{''.join(pages)}100%{{{last}}}\n"


def _typed(number: int, block: Block, total: float) -> str:
    size = len(block.lines[0])
    begin, end = _percent(block.begin, total), _percent(block.end, total)
    return (
        f"@keyframes t{number}{{0%{{opacity:1;transform:translate(0,0)}}"
        f"{begin}{{opacity:1;transform:translate(0,0);animation-timing-function:steps({size})}}"
        f"{end}{{opacity:1;transform:translate({size * _CELL:g}px,0)}}"
        f"{_percent(block.end + 0.3, total)},100%{{opacity:0;transform:translate({size * _CELL:g}px,0)}}}}\n"
    )


def _percent(seconds: float, total: float) -> str:
    return f"{100 * seconds / total:.3f}%"
