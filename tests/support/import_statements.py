"""The import statements of a source. They alone are parsed: a whole tree costs thirty times as much."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from textwrap import dedent

# On one line, or in parentheses. Ruff's format writes one statement on each line.
_STATEMENT = re.compile(
    r"^[ \t]*(?:from[ \t]+[\w.]+[ \t]+import[ \t]*(?:\([^)]*\)|[^\n(]+)|import[ \t]+[^\n]+)$", re.MULTILINE
)


def import_statements(text: str) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import, at any depth, those of functions and for type checking included."""
    for statement in _STATEMENT.findall(text):
        try:
            body = ast.parse(dedent(statement)).body
        except SyntaxError:
            # Words of a docstring.
            continue
        yield from (node for node in body if isinstance(node, ast.Import | ast.ImportFrom))
