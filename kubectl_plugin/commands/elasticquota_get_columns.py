"""The columns of `kubectl elasticquota get`: header, text and colour of each.

A separate module, so that `get --help` and completion start without the imports of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from kubectl_plugin.cluster.quota_rows import QuotaRow
from kubectl_plugin.render.quantity_text import human
from kubectl_plugin.render.table import ABSENT, UNKNOWN, Cell, Style, label_headers
from scheduler_core.printing.age import age
from scheduler_core.printing.counts import number_text

# Number of groups that one cell of the columns KEPT and HELD names.
_GROUPS_IN_CELL: Final = 2


def _amount(row: QuotaRow, value: int | None, style: Style = "") -> Cell:
    if value is None or not row.resource:
        return Cell(ABSENT)
    return Cell(human(row.resource, value), style)


def _counted(row: QuotaRow, value: int | None, style: Style = "") -> Cell:
    """An amount that comes from pods; `?` for a flavor whose nodes could not be read."""
    return _amount(row, value, style) if row.flavors_known else Cell(UNKNOWN)


def _used(row: QuotaRow) -> Cell:
    at_max = row.max is not None and row.used is not None and row.used >= row.max > 0
    return _counted(row, row.used, "red" if at_max else "")


def _borrowed(row: QuotaRow) -> Cell:
    return _counted(row, row.borrowed, "yellow" if row.borrowed else "")


def _shared(row: QuotaRow, value: int | None) -> Cell:
    """An amount that needs the whole cluster; `?` if the cluster could not be read."""
    return Cell(UNKNOWN) if value is None and row.binding and row.resource else _amount(row, value)


def _share(row: QuotaRow) -> Cell:
    """The share in one resource; `?` if the cluster could not be read."""
    if not (row.limited and row.resource):
        return Cell(ABSENT)
    return Cell(UNKNOWN if row.share is None else number_text(row.share))


def _kept(row: QuotaRow) -> Cell:
    """The amount that nodes are kept for, and the groups: `6 (train: 2 nodes since ... until ...)`."""
    amount = sum(item.requests.get(row.resource, 0) for item in row.nominated)
    if not row.resource or not amount:
        return Cell(ABSENT)
    found = [item for item in row.nominated if item.requests.get(row.resource)]
    texts = [f"{item.group}: {item.short}" for item in found[:_GROUPS_IN_CELL]]
    more = [f"{len(found) - _GROUPS_IN_CELL} more"] if len(found) > _GROUPS_IN_CELL else []
    return Cell(f"{human(row.resource, amount)} ({'; '.join([*texts, *more])})")


def _held(row: QuotaRow) -> Cell:
    """The amount that is held for waiting groups, and the groups: `6 (train until ...)`."""
    found = [item for item in row.holds if item.amounts.get(row.resource)]
    if not found:
        return Cell(ABSENT)
    texts = [f"{item.group} until {item.until}" for item in found[:_GROUPS_IN_CELL]]
    more = [f"{len(found) - _GROUPS_IN_CELL} more"] if len(found) > _GROUPS_IN_CELL else []
    amount = sum(item.amounts[row.resource] for item in found)
    return Cell(f"{human(row.resource, amount)} ({'; '.join([*texts, *more])})")


def _reclaimed(row: QuotaRow) -> Cell:
    """What was last taken back: `3 for PodGroup b/g at 2026-01-01T00:00:00Z`."""
    amount = row.reclaim.amounts.get(row.resource) if row.reclaim is not None else None
    if row.reclaim is None or not amount:
        return Cell(ABSENT)
    return Cell(f"{human(row.resource, amount)} for {row.reclaim.by} at {row.reclaim.time}")


COLUMNS: Final[Mapping[str, Callable[[QuotaRow], Cell]]] = {
    "NAME": lambda row: Cell(row.name),
    "RESOURCE": lambda row: Cell(row.resource or ABSENT),
    "USED": _used,
    "MIN": lambda row: _amount(row, row.min),
    "MAX": lambda row: _amount(row, row.max),
    "HARD": lambda row: _amount(row, row.hard) if row.hard_known else Cell(UNKNOWN),
    "BORROWED": _borrowed,
    "LENT": lambda row: _shared(row, row.lent),
}
WIDE_COLUMNS: Final[Mapping[str, Callable[[QuotaRow], Cell]]] = {
    "RESERVED": lambda row: Cell(UNKNOWN) if row.reserved is None else _amount(row, row.reserved),
    "RECLAIMABLE": lambda row: _shared(row, row.reclaimable),
    "PENDING": lambda row: _counted(row, row.pending),
    "WEIGHT": lambda row: Cell(number_text(row.weight) if row.binding else ABSENT),
    "SHARE": _share,
    "ENTITLED": lambda row: _shared(row, row.entitled) if row.limited else Cell(ABSENT),
    "ABOVEMAX": lambda row: _counted(row, row.above_max, "red" if row.above_max else ""),
    "RECLAIMED": _reclaimed,
    "HELD": _held,
    "KEPT": _kept,
}


def headers(*, namespaces: bool, wide: bool, labels: bool, keys: Sequence[str] = ()) -> list[str]:
    """The headers of the columns. `keys`: labels with a column of their own."""
    return [
        *(["NAMESPACE"] if namespaces else []),
        *COLUMNS,
        *(WIDE_COLUMNS if wide else []),
        "AGE",
        *label_headers(keys),
        *(["LABELS"] if labels else []),
    ]


def cells(
    row: QuotaRow,
    now: float,
    *,
    namespaces: bool,
    wide: bool,
    labels: str | None,
    chosen: Sequence[Cell] = (),
) -> list[Cell]:
    """One row of the table. `labels` is the text of the column LABELS; None omits the column.

    `chosen` are the labels with a column of their own.
    """
    columns = [*COLUMNS.values(), *(WIDE_COLUMNS.values() if wide else [])]
    return [
        *([Cell(row.namespace)] if namespaces else []),
        *(column(row) for column in columns),
        Cell(age(row.created, now)),
        *chosen,
        *([Cell(labels)] if labels is not None else []),
    ]
