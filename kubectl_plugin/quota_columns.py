"""The columns of `kubectl elasticquota get`: headers, texts and colours of one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kubectl_plugin.age import age
from kubectl_plugin.figures import Figures
from kubectl_plugin.kept_nodes import amount_of, kept_text
from kubectl_plugin.quantity_text import human
from kubectl_plugin.table import Cell, Style

ABSENT: Final = "-"
UNKNOWN: Final = "?"


def _amount(row: Figures, value: int | None, style: Style = "") -> Cell:
    if value is None or not row.resource:
        return Cell(ABSENT)
    return Cell(human(row.resource, value), style)


def _used(row: Figures) -> Cell:
    at_max = row.max is not None and row.used >= row.max > 0
    return _amount(row, row.used, "red" if at_max else "")


def _borrowed(row: Figures) -> Cell:
    return _amount(row, row.borrowed, "yellow" if row.borrowed else "")


def _shared(row: Figures, value: int | None) -> Cell:
    """A figure that needs the whole cluster: unknown if that could not be read."""
    return Cell(UNKNOWN) if value is None and row.binding and row.resource else _amount(row, value)


def _kept(row: Figures) -> Cell:
    """What is kept for groups of the namespace, and for whom."""
    amount = amount_of(row.resource, row.keepers)
    if not row.resource or not amount:
        return Cell(ABSENT)
    keepers = [item for item in row.keepers if item.requests.get(row.resource)]
    return Cell(kept_text(human(row.resource, amount), keepers))


COLUMNS: Final[Mapping[str, Callable[[Figures], Cell]]] = {
    "NAME": lambda row: Cell(row.name),
    "RESOURCE": lambda row: Cell(row.resource or ABSENT),
    "USED": _used,
    "MIN": lambda row: _amount(row, row.min),
    "MAX": lambda row: _amount(row, row.max),
    "HARD": lambda row: _amount(row, row.hard) if row.hard_known else Cell(UNKNOWN),
    "BORROWED": _borrowed,
    "LENT": lambda row: _shared(row, row.lent),
}
WIDE_COLUMNS: Final[Mapping[str, Callable[[Figures], Cell]]] = {
    "RESERVED": lambda row: Cell(UNKNOWN) if row.reserved is None else _amount(row, row.reserved),
    "RECLAIMABLE": lambda row: _shared(row, row.reclaimable),
    "PENDING": lambda row: _amount(row, row.pending),
    "ABOVEMAX": lambda row: _amount(row, row.above_max, "red" if row.above_max else ""),
    "KEPT": _kept,
}


def headers(*, namespaces: bool, wide: bool, labels: bool) -> list[str]:
    """The header of each column."""
    return [
        *(["NAMESPACE"] if namespaces else []),
        *COLUMNS,
        *(WIDE_COLUMNS if wide else []),
        "AGE",
        *(["LABELS"] if labels else []),
    ]


def cells(row: Figures, now: float, *, namespaces: bool, wide: bool, labels: str | None) -> list[Cell]:
    """One row of the table; `labels` is the text of the LABELS column, None where it is not shown."""
    columns = [*COLUMNS.values(), *(WIDE_COLUMNS.values() if wide else [])]
    return [
        *([Cell(row.namespace)] if namespaces else []),
        *(column(row) for column in columns),
        Cell(age(row.created, now)),
        *([Cell(labels)] if labels is not None else []),
    ]


def label_text(labels: Mapping[str, str]) -> str:
    """`a=b,c=d`, or `<none>`, as kubectl's --show-labels prints it."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"
