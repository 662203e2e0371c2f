"""Loans as a flow from those who lend, on the left, to those who borrow, on the right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec
from markupsafe import Markup

from kubectl_plugin.console.drawing.svg import drawing, element, hint

_WIDTH: Final = 900
_BLOCK: Final = 14
_LABELS: Final = 190
_TOP: Final = 12
_GAP: Final = 10
_BODY: Final = 300
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
    total = sum(lenders.values())
    scale = _BODY / max(total, 1)
    height = _TOP * 2 + _BODY + _GAP * max(len(lenders), len(borrowers), 1)
    left, right = _places(lenders, scale), _places(borrowers, scale)
    parts = [
        *_ribbons(merged, left, right, scale, amount_text, color_of),
        *_blocks(lenders, left, scale, amount_text, color_of, x=_LABELS, anchor="end"),
        *_blocks(borrowers, right, scale, amount_text, color_of, x=_WIDTH - _LABELS - _BLOCK, anchor="start"),
    ]
    return drawing(parts, _WIDTH, height, label, class_="flow")


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
    """The upper end of each block."""
    places, at = {}, float(_TOP)
    for name, amount in sums.items():
        places[name] = at
        at += amount * scale + _GAP
    return places


def _kind(name: str, color_of: Callable[[str], str]) -> str:
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
    x0, x1 = _LABELS + _BLOCK, _WIDTH - _LABELS - _BLOCK
    middle = (x0 + x1) / 2
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
            class_=f"ribbon {_kind(item.lender, color_of)}",
        )


def _blocks(
    sums: dict[str, int],
    places: dict[str, float],
    scale: float,
    amount_text: Callable[[int], str],
    color_of: Callable[[str], str],
    *,
    x: float,
    anchor: str,
) -> Iterator[Markup]:
    for name, amount in sums.items():
        size = max(amount * scale, 1.0)
        yield element(
            "rect", x=x, y=places[name], width=_BLOCK, height=size, class_=f"use {_kind(name, color_of)}"
        )
        words = x - 8 if anchor == "end" else x + _BLOCK + 8
        shown = name if len(name) <= 22 else name[:21] + "…"
        label = f"{shown}  {amount_text(amount)}"
        yield element(
            "text",
            hint(name),
            label,
            x=words,
            y=places[name] + size / 2 + 4,
            text_anchor=anchor,
        )
