"""Elements of SVG as escaped text. Colours and lines come from the style sheet, by class."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from markupsafe import Markup, escape

from scheduler_core.model.printable import visible

Number = int | float
# Letters of a value that is likely to come again: a class, a place.
_SHORT: Final = 24


def element(tag: str, *children: Markup | str, **attributes: str | Number) -> Markup:
    """An element. `class_` and `stroke_width` become `class` and `stroke-width`; a text child is escaped."""
    told = "".join(
        [f' {_spelled(name)}="{_value(value)}"' for name, value in attributes.items() if value != ""]
    )
    inside = "".join([child if isinstance(child, Markup) else text(child) for child in children])
    return Markup(f"<{tag}{told}>{inside}</{tag}>" if inside else f"<{tag}{told}/>")


def text(value: str) -> Markup:
    """A text that may hold anything: XML cannot hold control characters, not even as entities."""
    return escape(visible(value))


def drawing(children: Iterable[Markup], height: Number, label: str, **attributes: str) -> Markup:
    """A drawing as wide as its place. `label` says to those who cannot see it what it shows.

    Its unit is the pixel, so that text has one size on all screens; places across are a `share` of the width.
    """
    return element(
        "svg",
        *children,
        width="100%",
        height=height,
        role="img",
        aria_label=visible(label),
        **attributes,
    )


def stretched(children: Iterable[Markup], width: Number, height: Number) -> Markup:
    """A part of a drawing with units of its own across: it fills the width. It must hold no text."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {number(width)} {number(height)}",
        preserveAspectRatio="none",
        width="100%",
        height=height,
    )


def share(part: float) -> str:
    """A part of the width of a drawing, from 0 to 1, as a place across."""
    return f"{part * 100:.2f}".rstrip("0").rstrip(".") + "%"


def number(value: Number) -> str:
    """`12`, `12.5`: one decimal is enough for a drawing."""
    return f"{value:.1f}".removesuffix(".0")


@lru_cache(maxsize=256)
def _spelled(name: str) -> str:
    return name.rstrip("_").replace("_", "-")


def _value(value: str | Number) -> str:
    if not isinstance(value, str):
        return number(value)
    return _escaped(value) if len(value) <= _SHORT else str(escape(value))


@lru_cache(maxsize=8192)
def _escaped(value: str) -> str:
    """A page has thousands of attributes, and few different short values."""
    return str(escape(value))


def hint(words: str) -> Markup:
    """What appears when the pointer rests on the element that contains it."""
    return element("title", words)
