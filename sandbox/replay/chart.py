"""A replay as SVG: per policy the GPUs in use and the GPUs that waiting jobs ask for, over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from xml.sax.saxutils import escape

from sandbox.replay.report import PolicyFigures

_WIDTH: Final = 900
_PLOT: Final = 110
_LEFT: Final = 60
_ROW: Final = _PLOT + 50
_USED: Final = "#2166ac"
_WAITING: Final = "#b35806"
_DAY: Final = 86_400.0


def svg(found: Sequence[PolicyFigures], gpus: int) -> str:
    """The chart. One scale for all policies; waiting jobs may ask for more than there is."""
    most = max([float(gpus), *(value for item in found for value in item.timeline.waiting)])
    height = _ROW * len(found) + 30
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        f"<title>GPUs in use and asked for, of {gpus}</title>",
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
    ]
    for number, item in enumerate(found):
        lines += _plot(item, gpus, most, number * _ROW + 30)
    lines += _legend(height - 12)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _plot(item: PolicyFigures, gpus: int, most: float, top: int) -> Iterable[str]:
    timeline = item.timeline
    days = timeline.end / _DAY
    bottom = top + _PLOT

    def at(value: float) -> float:
        return bottom - value / most * _PLOT

    def across(index: float) -> float:
        return _LEFT + index / timeline.spans * (_WIDTH - _LEFT - 20)

    used = " ".join(f"{across(i):.1f},{at(value):.1f}" for i, value in enumerate(timeline.used))
    waiting = " ".join(f"{across(i):.1f},{at(value):.1f}" for i, value in enumerate(timeline.waiting))
    title = f"{item.policy}: mean wait {item.whole.waits.mean:.2f} h, {item.used:.1f}% in use"
    yield f'<text x="{_LEFT}" y="{top - 8}" font-weight="bold">{escape(title)}</text>'
    corners = f"{across(0):.1f},{bottom} {used} {across(timeline.spans - 1):.1f},{bottom}"
    yield f'<polygon points="{corners}" fill="{_USED}" fill-opacity="0.35"/>'
    yield f'<polyline points="{used}" fill="none" stroke="{_USED}"/>'
    yield f'<polyline points="{waiting}" fill="none" stroke="{_WAITING}" stroke-dasharray="4 2"/>'
    level = f'y1="{at(gpus):.1f}" y2="{at(gpus):.1f}"'
    yield f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" {level} stroke="#777" stroke-dasharray="1 3"/>'
    yield f'<text x="{_LEFT - 6}" y="{at(gpus) + 4:.1f}" text-anchor="end">{gpus}</text>'
    yield f'<line x1="{_LEFT}" x2="{_WIDTH - 20}" y1="{bottom}" y2="{bottom}" stroke="#333"/>'
    yield f'<text x="{_WIDTH - 20}" y="{bottom + 14}" text-anchor="end">{days:.1f} days</text>'


def _legend(y: int) -> Iterable[str]:
    yield f'<text x="{_LEFT}" y="{y}" fill="{_USED}">in use</text>'
    yield f'<text x="{_LEFT + 60}" y="{y}" fill="{_WAITING}">asked for by waiting jobs (dashed)</text>'
