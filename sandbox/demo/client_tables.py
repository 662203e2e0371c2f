"""Tables that the demo prints without kubectl, in the columns of kubectl: pure functions of objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sandbox.objects import Obj
from scheduler_core.printing.age import human_duration
from scheduler_core.printing.jsonpath import values_at

NONE = "<none>"
NOTHING = "No resources found"
_EVENTS = ("LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE")
_GAP = 3


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as lines; each column is as wide as its widest cell."""
    widths = [max(map(len, column)) + _GAP for column in zip(*rows, strict=True)]
    return ["".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def server_table(table: Obj, labels: Sequence[str], *, namespaces: bool) -> list[str]:
    """The columns that the server shows by default, with the values of these labels behind them."""
    if not table.get("rows"):
        return [NOTHING]
    shown = [number for number, column in enumerate(table["columnDefinitions"]) if not column["priority"]]
    head = [table["columnDefinitions"][number]["name"].upper() for number in shown]
    rows = [[*(["NAMESPACE"] if namespaces else []), *head, *(_label_title(name) for name in labels)]]
    for row in table["rows"]:
        meta = row["object"]["metadata"]
        cells = [_text(row["cells"][number]) for number in shown]
        values = [str((meta.get("labels") or {}).get(name, "")) for name in labels]
        rows.append([*([meta["namespace"]] if namespaces else []), *cells, *values])
    return aligned(rows)


def _label_title(label: str) -> str:
    return label.rpartition("/")[2].rpartition(".")[2].upper()


def _text(cell: object) -> str:
    return NONE if cell is None else str(cell)


def custom_columns(items: Sequence[Obj], columns: str) -> list[str]:
    """The values of `NAME:PATH,NAME:PATH` in each object."""
    pairs = [column.partition(":")[::2] for column in columns.split(",")]
    rows = [[title for title, _ in pairs]]
    for item in items:
        rows.append([",".join(map(str, values_at(item, path))) or NONE for _, path in pairs])
    return aligned(rows)


def event_table(events: Sequence[Obj], now: float) -> list[str]:
    """Events with the oldest first, and the seconds since they were last seen."""
    if not events:
        return [NOTHING]
    rows = [
        (
            human_duration(now - _seen(event)),
            event["type"],
            event["reason"],
            f"{event['involvedObject']['kind']}/{event['involvedObject']['name']}",
            event["message"],
        )
        for event in sorted(events, key=_seen)
    ]
    return aligned([_EVENTS, *rows])


def _seen(event: Obj) -> float:
    series = event.get("series") or {}
    stamp = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    stamp = stamp or event["metadata"]["creationTimestamp"]
    return datetime.fromisoformat(stamp).timestamp()
