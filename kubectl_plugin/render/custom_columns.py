"""The output form `-o custom-columns=HEADER:PATH,...`: one row per object, `<none>` for a missing field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.render.jsonpath_template import text_of
from kubectl_plugin.render.table import Cell, TablePrinter
from scheduler_core.printing.jsonpath import find, parse_path


def column_lines(template: str, objects: Sequence[Any], *, show_headers: bool) -> list[str]:
    """The lines of the table. Raises CommandFailed for a column without header or path, BadJSONPath."""
    headers, paths = [], []
    for column in template.split(","):
        header, colon, path = column.partition(":")
        if not (header and colon and path):
            raise CommandFailed(f"custom-columns {column!r} is not HEADER:PATH")
        headers.append(header)
        paths.append(parse_path(path))
    rows = [
        [Cell(",".join(text_of(value) for value in find(item, path)) or "<none>") for path in paths]
        for item in objects
    ]
    return TablePrinter(headers, show_headers=show_headers).lines(rows)
