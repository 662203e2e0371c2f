"""Loans as a flow from those who lend, on the left, to those who borrow, on the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from kubectl_plugin.console.drawing.svg import drawing, element, hint, stretched

# Of the ribbons, which are stretched to their place.
_WIDTH: Final = 1000
_BLOCK: Final = 14
_TOP: Final = 4
_GAP: Final = 8
# The height of all amounts: so much per block, within bounds.
_PER_BLOCK: Final = 36
_MOST_BODY: Final = 300
# A block has at least the room of its label.
_LINE: Final = 18
_MOST_CHARACTERS: Final = 20
# With more on a side, the smallest are drawn as one.
_MOST: Final = 12
# Stands for those without a name of their own. No namespace can be called so.
OTHERS: Final = "(others)"
NOBODY: Final = "(nobody)"
# In the order in which they stand below the others.
_NAMELESS: Final = (OTHERS, NOBODY)


class LoanStream(msgspec.Struct, frozen=True):
    """An amount that `lender` leaves to `borrower`."""

    lender: str
    borrower: str
    amount: int


def flow(
    streams: Sequence[LoanStream],
    amount_text: Callable[[int], str],
    color_of: Callable[[str], str],
    label: str,
) -> Markup:
    """The drawing. Each side has at most a dozen blocks; the smallest share the last one.

    `color_of` gives the class of a namespace.
    """
    merged = _merged(streams)
    lenders, borrowers = _sums(merged, "lender"), _sums(merged, "borrower")
    rows = max(len(lenders), len(borrowers), 1)
    scale = min(_MOST_BODY, rows * _PER_BLOCK) / max(sum(lenders.values()), 1)
    left, right = _places(lenders, scale), _places(borrowers, scale)
    height = max(_height(lenders, scale), _height(borrowers, scale))
    parts = [
        stretched(_ribbons(merged, left, right, scale, amount_text, color_of), _WIDTH, height),
        *_blocks(lenders, left, scale, amount_text, color_of, side="start"),
        *_blocks(borrowers, right, scale, amount_text, color_of, side="end"),
    ]
    return drawing(parts, height, label, class_="flow")


def _merged(streams: Sequence[LoanStream]) -> list[LoanStream]:
    keep = {
        side: set(
            sorted(sums, key=lambda name: (name != NOBODY, -sums[name], name))[
                : _MOST if len(sums) <= _MOST else _MOST - 1
            ]
        )
        for side in ("lender", "borrower")
        for sums in (_sums(streams, side),)
    }
    amounts: dict[tuple[str, str], int] = {}
    for item in streams:
        lender = item.lender if item.lender in keep["lender"] else OTHERS
        borrower = item.borrower if item.borrower in keep["borrower"] else OTHERS
        amounts[lender, borrower] = amounts.get((lender, borrower), 0) + item.amount
    order = sorted(amounts, key=lambda pair: (_place(pair[0]), _place(pair[1])))
    return [LoanStream(*pair, amounts[pair]) for pair in order]


def _sums(streams: Sequence[LoanStream], side: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for item in streams:
        name = getattr(item, side)
        found[name] = found.get(name, 0) + item.amount
    return dict(sorted(found.items(), key=lambda entry: _place(entry[0])))


def _place(name: str) -> tuple[int, str]:
    """By name; those without one come last."""
    return _NAMELESS.index(name) + 1 if name in _NAMELESS else 0, name


def _places(sums: dict[str, int], scale: float) -> dict[str, float]:
    """The upper end of each block, in the middle of its room."""
    places, at = {}, float(_TOP)
    for name, amount in sums.items():
        room = max(amount * scale, _LINE)
        places[name] = at + (room - amount * scale) / 2
        at += room + _GAP
    return places


def _height(sums: dict[str, int], scale: float) -> float:
    return 2 * _TOP + sum(max(amount * scale, _LINE) + _GAP for amount in sums.values()) - _GAP * bool(sums)


def kind_of(name: str, color_of: Callable[[str], str]) -> str:
    """The class of a block: those without a name are grey."""
    return "nobody" if name == NOBODY else color_of(name)


def told(stream: LoanStream, amount_text: Callable[[int], str]) -> str:
    """The stream in words."""
    amount = amount_text(stream.amount)
    if stream.lender == NOBODY:
        return f"{stream.borrower} uses {amount} that nobody lends"
    return f"{stream.lender} lends {amount} to {stream.borrower}"


def _ribbons(
    streams: Sequence[LoanStream],
    left: dict[str, float],
    right: dict[str, float],
    scale: float,
    amount_text: Callable[[int], str],
    color_of: Callable[[str], str],
) -> Iterator[Markup]:
    begins, ends = dict(left), dict(right)
    x0, x1, middle = 0, _WIDTH, _WIDTH / 2
    for item in streams:
        size = max(item.amount * scale, 0.5)
        y0, y1 = begins[item.lender], ends[item.borrower]
        begins[item.lender] += item.amount * scale
        ends[item.borrower] += item.amount * scale
        upper = f"M{x0} {y0:.1f} C{middle:.0f} {y0:.1f} {middle:.0f} {y1:.1f} {x1} {y1:.1f}"
        y2, y3 = y1 + size, y0 + size
        lower = f"L{x1} {y2:.1f} C{middle:.0f} {y2:.1f} {middle:.0f} {y3:.1f} {x0} {y3:.1f}"
        yield element(
            "path",
            hint(told(item, amount_text)),
            d=f"{upper} {lower} Z",
            class_=f"ribbon {kind_of(item.lender, color_of)}",
        )


def _blocks(
    sums: dict[str, int],
    places: dict[str, float],
    scale: float,
    amount_text: Callable[[int], str],
    color_of: Callable[[str], str],
    *,
    side: str,
) -> Iterator[Markup]:
    """Blocks at the left (`start`) or right end; each has its label beside it, over the ribbons."""
    place, back, away = (0, 0, _BLOCK + 8) if side == "start" else ("100%", -_BLOCK, -_BLOCK - 8)
    for name, amount in sums.items():
        size = max(amount * scale, 1.0)
        kind = f"use {kind_of(name, color_of)}"
        move = f"translate({back} 0)" if back else ""
        yield element("rect", x=place, y=places[name], width=_BLOCK, height=size, class_=kind, transform=move)
        shown = name if len(name) <= _MOST_CHARACTERS else name[: _MOST_CHARACTERS - 1] + "…"
        middle = places[name] + size / 2 + 5
        label = f"{shown}  {amount_text(amount)}"
        yield element("text", hint(name), label, x=place, dx=away, y=middle, text_anchor=side)
