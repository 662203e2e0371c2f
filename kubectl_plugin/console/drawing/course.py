"""Amounts over time as lines and areas, with axes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import groupby
from typing import Final

import msgspec
from markupsafe import Markup

from kubectl_plugin.console.drawing.svg import drawing, element, hint, number, share, stretched
from scheduler_core.answers.showback import decimal_text

# Of the plot, which is stretched to its place.
_WIDTH: Final = 1000
_HEIGHT: Final = 240
# Amounts stand on their lines.
_TOP: Final = 20
_BOTTOM: Final = 28
_TICKS: Final = 4
_HOUR: Final = 3600.0
# As in the tables beside the drawing.
_DECIMALS: Final = 2


class Course(msgspec.Struct, frozen=True):
    """A series of hourly averages, None where nothing was measured. `style`: line, area or step."""

    name: str
    values: tuple[float | None, ...]
    style: str
    kind: str


def course(series: Sequence[Course], begin: float, unit: str, label: str, step: float = _HOUR) -> Markup:
    """Series that begin at a moment (seconds since the epoch), one value per `step` seconds."""
    length = max((len(item.values) for item in series), default=0)
    top = max((value for item in series for value in item.values if value is not None), default=0.0)
    ceiling = _ceiling(top)
    parts = [part for item in series for part in _drawn(item, length, ceiling)]
    parts += _hover(series, begin, step, length)
    plot = stretched(parts, _WIDTH, _HEIGHT)
    words = _axes(begin, step, length, ceiling, unit)
    return drawing([*_lines(), plot, *words], _HEIGHT, label, class_="course")


def _ceiling(top: float) -> float:
    """A round number that is no less."""
    if top <= 0:
        return 1.0
    size = 10.0 ** len(str(int(top))) / 10 if top >= 1 else 0.1
    return next(size * factor for factor in (1, 2, 2.5, 5, 10, 20, 25, 50, 100) if size * factor >= top)


def _x(position: float, length: int) -> float:
    return position * _WIDTH / max(length, 1)


def _y(value: float, ceiling: float) -> float:
    return _HEIGHT - _BOTTOM - value / ceiling * (_HEIGHT - _TOP - _BOTTOM)


def _lines() -> Iterator[Markup]:
    for tick in range(_TICKS + 1):
        y = _y(tick, _TICKS)
        yield element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid")


def _axes(begin: float, step: float, length: int, ceiling: float, unit: str) -> Iterator[Markup]:
    for tick in range(_TICKS + 1):
        value = ceiling * tick / _TICKS
        words = f"{value:g}{' ' + unit if unit and tick == _TICKS else ''}"
        yield element("text", words, x=0, y=_y(value, ceiling) - 4, class_="axis")
    every = max(1, -(-length // 8))
    for position in range(0, length, every):
        moment = time.gmtime(begin + position * step)
        form = "%m-%d" if step * length > 3 * 86_400 else "%H:%M"
        x = share(position / length)
        yield element("text", time.strftime(form, moment), x=x, y=_HEIGHT - 10, class_="axis")


def _runs(values: Sequence[float | None]) -> Iterator[list[tuple[int, float]]]:
    """The parts without gaps."""
    run: list[tuple[int, float]] = []
    for position, value in enumerate(values):
        if value is None:
            if run:
                yield run
            run = []
        else:
            run.append((position, value))
    if run:
        yield run


def _drawn(item: Course, length: int, ceiling: float) -> Iterator[Markup]:
    for run in _runs(item.values):
        corners = []
        for position, value in run:
            y = _y(value, ceiling)
            corners += [
                f"{number(_x(position, length))} {number(y)}",
                f"{number(_x(position + 1, length))} {number(y)}",
            ]
        path = "M" + " L".join(corners)
        if item.style == "area":
            base = number(_y(0, ceiling))
            first, last = number(_x(run[0][0], length)), number(_x(run[-1][0] + 1, length))
            path += f" L{last} {base} L{first} {base} Z"
        yield element("path", d=path, class_=f"{item.style} {item.kind}")


def _hover(series: Sequence[Course], begin: float, step: float, length: int) -> Iterator[Markup]:
    """A column per value that tells all its numbers, and one for each gap."""
    form = "%Y-%m-%d %H:%M" if step < 86_400 else "%Y-%m-%d"

    def moment(position: int) -> str:
        return time.strftime(form, time.gmtime(begin + position * step))

    told = [_told(series, position) for position in range(length)]
    # Hours in which nothing was measured are one: a young cluster has a week of them.
    for _, run in groupby(range(length), key=lambda position: position if told[position] else -1):
        hours = list(run)
        first, last = hours[0], hours[-1]
        span = moment(first) if first == last else f"{moment(first)} to {moment(last)}"
        x = _x(first, length)
        yield element(
            "rect",
            hint(f"{span} UTC: {told[first] or 'not measured'}"),
            x=x,
            y=_TOP,
            width=_x(last + 1, length) - x,
            height=_HEIGHT - _TOP - _BOTTOM,
            class_="hover",
        )


def _told(series: Sequence[Course], position: int) -> str:
    """The numbers at a position; empty in a gap."""
    return ", ".join(
        f"{item.name} {decimal_text(Fraction(value), _DECIMALS)}"
        for item in series
        if position < len(item.values) and (value := item.values[position]) is not None
    )
