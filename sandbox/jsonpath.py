"""The JSONPath that printer columns use: fields, `['keys']`, indexes, `[*]` and equality filters."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

_STEP = re.compile(
    r"""\.?\[\?\(@\.(?P<filter>[\w.-]+)\s*==\s*(?P<quote>["'])(?P<value>.*?)(?P=quote)\)\]"""
    r"""|\.?\[(?P<q2>["'])(?P<key>.*?)(?P=q2)\]|\.?\[(?P<index>-?\d+)\]|\.?(?P<all>\[\*\]|\*)"""
    r"""|\.(?P<field>(?:\\.|[^.\[\\])+)"""
)
Step = tuple[str, str, str]


@lru_cache(maxsize=1024)
def _steps(path: str) -> tuple[Step, ...]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    if text and text[0] not in ".[":
        text = f".{text}"
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if not match:
            return (("never", "", ""),)
        position = match.end()
        if match["filter"]:
            steps.append(("filter", match["filter"], match["value"]))
        elif match["index"] is not None:
            steps.append(("index", match["index"], ""))
        elif match["all"]:
            steps.append(("all", "", ""))
        else:
            key = match["key"] if match["key"] is not None else re.sub(r"\\(.)", r"\1", match["field"])
            steps.append(("field", key, ""))
    return tuple(steps)


def find(path: str, obj: Any) -> list[Any]:
    """Every value at the path, in order; an unreadable path finds nothing."""
    found = [obj]
    for step in _steps(path):
        found = [inner for value in found for inner in _take(step, value)]
    return found


def _take(step: Step, value: Any) -> Iterator[Any]:
    kind, argument, expected = step
    if kind == "field" and isinstance(value, dict):
        if argument in value:
            yield value[argument]
    elif kind == "all" and isinstance(value, dict | list):
        yield from value.values() if isinstance(value, dict) else value
    elif kind == "index" and isinstance(value, list):
        index = int(argument)
        if -len(value) <= index < len(value):
            yield value[index]
    elif kind == "filter" and isinstance(value, list):
        for item in value:
            inner = find(f".{argument}", item)
            if inner and str(inner[0]) == expected:
                yield item
