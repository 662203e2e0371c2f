"""The topology tree as SVG: one row per level, each unit as wide as the nodes below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape, quoteattr

from scheduler_core.model.printable import visible

if TYPE_CHECKING:
    from kubectl_plugin.cluster.topology_units import TopologyUnit

_LEAF_WIDTH: Final = 96
_ROW_HEIGHT: Final = 44
_MARGIN: Final = 8
_TITLE: Final = 28


def draw(units: Sequence[TopologyUnit], title: str) -> str:
    """An SVG document. The bar of a unit shows the used share of its fullest resource."""
    width = units[0].leaves * _LEAF_WIDTH + 2 * _MARGIN
    height = (max(unit.depth for unit in units) + 1) * _ROW_HEIGHT + _TITLE + _MARGIN
    # XML cannot hold control characters, not even escaped as entities.
    title = escape(visible(title))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11">',
        f"<title>{title}</title>",
        f'<text x="{_MARGIN}" y="18" font-size="14">{title}</text>',
    ]
    for unit in units:
        lines += _unit(unit, visible(unit.name))
    return "\n".join([*lines, "</svg>"]) + "\n"


def _unit(unit: TopologyUnit, name: str) -> list[str]:
    x, y = _MARGIN + unit.first * _LEAF_WIDTH, _TITLE + unit.depth * _ROW_HEIGHT
    width, height = unit.leaves * _LEAF_WIDTH - 4, _ROW_HEIGHT - 4
    share = max((unit.used[name] / total for name, total in unit.total.items() if total), default=0.0)
    edge = "#1f5fbf" if unit.members else "#999999"
    facts = f"{name}: {share:.0%} used" + "".join(f", {visible(member)}" for member in unit.members)
    members = f"{len(unit.members)} members" if unit.members else ""
    return [
        f"<g><title>{escape(facts)}</title>",
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="#f4f4f4" stroke="{edge}" '
        f'stroke-width="{2 if unit.members else 1}" data-unit={quoteattr(name)}/>',
        f'<rect x="{x}" y="{y + height - 6}" width="{width * min(1.0, share):.1f}" height="6" '
        'fill="#e09030"/>',
        f'<text x="{x + 6}" y="{y + 14}">{escape(name)}</text>',
        f'<text x="{x + 6}" y="{y + 28}" font-weight="bold" fill="#1f5fbf">{members}</text></g>',
    ]
