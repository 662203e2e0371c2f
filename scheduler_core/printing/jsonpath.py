"""JSONPath as kubectl's output flags and printer columns use it: fields, keys, indexes, slices, filters.

`.items[*].metadata.name`, `['key.with/dots']`, `.key\\.with\\.dots`, negative indexes, slices `[1:3]`, and
equality filters `[?(@.type=="Ready")]`. Recursive descent `..name` and unions are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from scheduler_core.errors import MusterError

_STEP: Final = re.compile(
    r"\.?\[\?\(@\.(?P<filter>[\w.-]+)\s*==\s*(?P<mark>['\"])(?P<value>.*?)(?P=mark)\)\]"
    r"|\.?\[(?P<quote>['\"])(?P<key>.*?)(?P=quote)\]"
    r"|\.?\[(?P<all>\*)\]"
    r"|\.?\[(?P<start>-?\d{0,9})(?P<colon>:)?(?P<end>-?\d{0,9})\]"
    r"|\.(?P<name>(?:\\.|[^.\[\]\s{}\\])+)"
)


class BadJSONPath(MusterError):
    """A JSONPath or template that cannot be used."""


class Filter(NamedTuple):
    """`[?(@.path=="value")]`: the elements of a list whose first value at `path` reads as `value`."""

    path: tuple[Step, ...]
    value: str


Step = str | int | slice | Filter
_EVERY: Final = slice(None)


def parse_path(text: str, *, filters: bool = False) -> tuple[Step, ...]:
    """The steps of a path. Raises BadJSONPath for unsupported syntax; a filter is one unless `filters`."""
    path = text.strip()
    if path.startswith("{") and path.endswith("}"):
        path = path[1:-1].strip()
    path = path.removeprefix("$").removeprefix("@")
    if path and path[0] not in ".[":
        path = "." + path
    steps: list[Step] = []
    position = 0 if path != "." else 1
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None or (match["filter"] is not None and not filters):
            raise BadJSONPath(f"JSONPath {text!r}: {path[position:]!r} is not supported")
        steps.append(_step(match, text))
        position = match.end()
    return tuple(steps)


def _step(match: re.Match[str], text: str) -> Step:
    if match["name"] is not None:
        name = re.sub(r"\\(.)", r"\1", match["name"])
        return _EVERY if name == "*" else name
    if match["key"] is not None:
        return match["key"]
    if match["filter"] is not None:
        return Filter(parse_path(match["filter"]), match["value"])
    if match["all"]:
        return _EVERY
    start, end = match["start"], match["end"]
    if match["colon"]:
        return slice(int(start) if start else None, int(end) if end else None)
    if not start:
        raise BadJSONPath(f"JSONPath {text!r}: [] needs an index")
    return int(start)


def find(document: Any, path: Sequence[Step]) -> list[Any]:
    """Every value at the path, in order; a missing field or index yields no value."""
    found = [document]
    for step in path:
        found = [value for item in found for value in _descend(item, step)]
    return found


def _descend(item: Any, step: Step) -> Iterator[Any]:
    if isinstance(step, str):
        if isinstance(item, dict) and step in item:
            yield item[step]
    elif isinstance(step, slice):
        if isinstance(item, list):
            yield from item[step]
        elif isinstance(item, dict) and step == _EVERY:
            yield from (item[key] for key in sorted(item))
    elif not isinstance(item, list):
        return
    elif isinstance(step, Filter):
        yield from (inner for inner in item if [str(v) for v in find(inner, step.path)[:1]] == [step.value])
    elif -len(item) <= step < len(item):
        yield item[step]


def values_at(document: Any, path: str) -> list[Any]:
    """Every value at the path of a printer column or of `scale`; no value if the path cannot be parsed."""
    steps = _steps(path)
    return [] if steps is None else find(document, steps)


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[Step, ...] | None:
    try:
        return parse_path(path, filters=True)
    except BadJSONPath:
        return None
