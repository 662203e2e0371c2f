"""The names of the cases of a table: what is tried, never the number of a line.

A case without a name of its own is named after its values. What this cannot name, what is named by a number
alone, and a long table of cases that differ by numbers alone fails: such a table is a loop
(`tests.support.every`), whose failures name seed and values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import Enum
from fractions import Fraction
from typing import Any, Final

import pytest

MOST_NUMBERS: Final = 20
"""Cases of one test that differ by numbers alone."""
_LONGEST: Final = 80
_ONLY_NUMBERS: Final = re.compile(r"[\d.-]+")
_NUMBERS: Final = re.compile(r"(\w+=)?-?[\d.]+(e[+-]?\d+)?(-(\w+=)?-?[\d.]+(e[+-]?\d+)?)*")


def case_id(value: object, name: str) -> str | None:
    """The name of a case of a table by the value of one argument; None where pytest knows a better one."""
    if isinstance(value, bool | int | float):
        return f"{name}={value}"
    if isinstance(value, Enum | re.Pattern) or hasattr(value, "__name__"):
        return None
    told = _told(value)
    if told is None:
        return type(value).__name__
    if not told or _ONLY_NUMBERS.fullmatch(told):
        return f"{name}={told}"
    return None if isinstance(value, str) else _short(told)


def nameless(items: Iterable[pytest.Item]) -> dict[str, str]:
    """The tests whose names say nothing, and what is wrong."""
    found: dict[str, str] = {}
    numbered: dict[str, list[str]] = {}
    for item in items:
        callspec = getattr(item, "callspec", None)
        name = callspec.id if callspec else ""
        if not name[-1:].isdigit():
            continue
        types = "-".join(type(value).__name__ for value in callspec.params.values())
        if _ONLY_NUMBERS.fullmatch(name):
            found[item.nodeid] = f"{name} is no name of a case: give the table ids, or loop over the seeds"
        elif name.rstrip("0123456789_") == types:
            found[item.nodeid] = f"pytest made up the name {name}: give the table ids"
        elif _NUMBERS.fullmatch(name):
            numbered.setdefault(item.nodeid.partition("[")[0], []).append(item.nodeid)
    for ids in numbered.values():
        if len(ids) > MOST_NUMBERS:
            loop = f"{len(ids)} cases that differ by numbers alone: loop over them (tests/support/every.py)"
            found |= dict.fromkeys(ids, loop)
    return found


def _told(value: Any) -> str | None:
    """A value in words, the same in every process; None if it is an object that has none."""
    if value is None or isinstance(value, str | bool | int | float | Fraction):
        return str(value)
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(name := getattr(value, "name", None), str):
        return name
    parts: list[str | None]
    if isinstance(value, Mapping):
        parts = [part for key, item in value.items() for part in (f"{key}:", _told(item))]
    elif isinstance(value, AbstractSet):
        told = [_told(item) for item in value]
        parts = [None] if None in told else sorted(told)  # type: ignore[type-var]
    elif isinstance(value, list | tuple):
        parts = [_told(item) for item in value]
    else:
        return None
    return None if None in parts else " ".join(part for part in parts if part)


def _short(text: str) -> str:
    written = text.encode("unicode_escape").decode("ascii")
    return written if len(written) <= _LONGEST else f"{written[:_LONGEST]}..."
