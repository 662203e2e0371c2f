"""The bar of a quota and a resource: used, borrowed, reserved and pending, with marks for min and max."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from markupsafe import Markup

from kubectl_plugin.console.drawing.svg import drawing, element, share

_HEIGHT = 20
# No part is narrower: what is there is seen.
_LEAST = 0.002
# The room beyond the largest amount.
_BEYOND = 1.04
# Stripes that the layout defines: what is borrowed differs without colour, too.
HATCH = "url(#hatch)"


class Bar(msgspec.Struct, frozen=True):
    """Amounts of one resource, in one unit. None: there is no max, or no min to mark.

    `used` contains `borrowed`; `reserved` and `pending` come on top of it.
    """

    used: int
    borrowed: int = 0
    reserved: int = 0
    pending: int = 0
    min: int | None = None
    max: int | None = None


def bar(amounts: Bar, color: str, label: str) -> Markup:
    """The bar, as wide as its place. `color` is a class of `colors`."""
    largest = max(amounts.used + amounts.reserved + amounts.pending, amounts.min or 0, amounts.max or 0, 1)
    scale = 1 / (largest * _BEYOND)
    return drawing(_parts(amounts, scale, color), _HEIGHT, label, class_="bar")


def _parts(amounts: Bar, scale: float, color: str) -> Iterator[Markup]:
    if amounts.max is not None:
        yield _box(0, amounts.max * scale, "room")
    own = amounts.used - amounts.borrowed
    at = own * scale
    if own:
        yield _box(0, at, f"use {color}")
    for amount, kind in (
        (amounts.borrowed, f"borrowed {color}"),
        (amounts.reserved, f"reserved {color}"),
        (amounts.pending, "pending"),
    ):
        if amount:
            yield _box(at, amount * scale, kind)
            if kind.startswith("borrowed"):
                yield _box(at, amount * scale, "", fill=HATCH)
            at += amount * scale
    if amounts.min is not None:
        yield _mark(amounts.min * scale, "min")
    if amounts.max is not None:
        yield _mark(amounts.max * scale, "max")


def _box(x: float, width: float, kind: str, fill: str = "") -> Markup:
    across = {"x": share(x), "width": share(max(width, _LEAST))}
    return element("rect", **across, y="15%", height="70%", class_=kind, fill=fill)


def _mark(x: float, kind: str) -> Markup:
    return element("line", x1=share(x), x2=share(x), y1=0, y2="100%", class_=kind)
