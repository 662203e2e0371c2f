"""Nodes as cells, in the units of the topology that hold them: how full, or who is where."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from kubectl_plugin.console.drawing.svg import element, hint
from scheduler_core.model.printable import visible

_CELL: Final = 24
_GAP: Final = 3
_HEAD: Final = 18
# Letters of a mark that a cell has room for.
_MARK: Final = 2
# Room for the thick line around nodes at the edge.
_EDGE: Final = 2
# Steps of the scale: classes h0 (empty) to h5 (full).
STEPS: Final = 5


class HeatCell(msgspec.Struct, frozen=True):
    """A node: its share in use, from 0 to 1 (None: not known), what is written in it, and told of it."""

    share: float | None
    mark: str
    words: str
    own: bool = False


class HeatBlock(msgspec.Struct, frozen=True):
    """A unit that holds nodes, such as a rack."""

    name: str
    words: str
    cells: tuple[HeatCell, ...]
    own: bool = False


def heat_class(share: float | None) -> str:
    """The class of a share: h0 for nothing, h5 for all."""
    if share is None:
        return "unknown"
    return f"h{STEPS if share >= 1 else min(STEPS - 1, 1 + int(share * (STEPS - 1))) if share > 0 else 0}"


def heat_map(blocks: Sequence[HeatBlock], label: str) -> Markup:
    """The blocks side by side, as many in a row as there is room for. `label` says what they show."""
    columns = _columns(max((len(block.cells) for block in blocks), default=1))
    parts = [_sheet(block, columns) for block in blocks]
    return element("div", *parts, role="img", aria_label=visible(label), class_="heat")


def _columns(cells: int) -> int:
    """As wide as high, as far as that goes."""
    return max(4, min(16, round(cells**0.5)))


def _sheet(block: HeatBlock, columns: int) -> Markup:
    lines = -(-len(block.cells) // columns)
    width = columns * (_CELL + _GAP) - _GAP + 2 * _EDGE
    height = _HEAD + lines * (_CELL + _GAP) - _GAP + _EDGE
    size: dict[str, int] = {"width": width, "height": height}
    return element("svg", *_block(block, columns), viewBox=f"{-_EDGE} 0 {width} {height}", **size)


def _block(block: HeatBlock, columns: int) -> Iterator[Markup]:
    width = columns * (_CELL + _GAP)
    most = max(3, width // 7)
    shown = block.name if len(block.name) <= most else block.name[: most - 1] + "…"
    yield element("text", hint(block.words), shown, x=0, y=12, class_="unit own" if block.own else "unit")
    for number, cell in enumerate(block.cells):
        x = number % columns * (_CELL + _GAP)
        y = _HEAD + number // columns * (_CELL + _GAP)
        kind = heat_class(cell.share) + (" own" if cell.own else "")
        box = element("rect", hint(cell.words), x=x, y=y, width=_CELL, height=_CELL, rx=3, class_=kind)
        yield box
        if cell.mark:
            yield _mark(cell.mark, x + _CELL / 2, y + _CELL / 2 + 4)


def _mark(text: str, x: float, y: float) -> Markup:
    """What is written in a cell: so narrow that it does not touch that of the next one."""
    fit: dict[str, int | str] = (
        {"textLength": _CELL - 4, "lengthAdjust": "spacingAndGlyphs"} if len(text) > _MARK else {}
    )
    return element("text", text, x=x, y=y, text_anchor="middle", class_="mark", **fit)
