"""`text.format(values)` of CEL, and values as texts, as in cel-go's `strings` extension."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from sandbox.cel.syntax import CelError

_CLAUSE: Final = re.compile(r"%(?:\.(\d+))?(.?)", re.S)
_DIGITS: Final = 6


def formatted(text: str, values: list[Any]) -> str:
    """The text with a value in the place of each clause, such as `%s`. Raises CelError."""
    rest = iter(values)

    def put(match: re.Match[str]) -> str:
        verb = match[2]
        if verb == "%":
            return "%"
        if verb not in _VERBS:
            raise CelError(f"could not parse formatting clause: unrecognized formatting clause {verb!r}")
        try:
            value = next(rest)
        except StopIteration:
            raise CelError(f"index {len(values)} out of range") from None
        return _VERBS[verb](value, int(match[1]) if match[1] else _DIGITS)

    result = _CLAUSE.sub(put, text)
    if more := len(list(rest)):
        expected = len(values) - more
        raise CelError(
            f"too many arguments supplied to string.format (expected {expected}, got {len(values)})"
        )
    return result


def shown(value: Any) -> str:
    """A value as text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e21 else repr(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, timedelta):
        return f"{value.total_seconds():.9f}".rstrip("0").rstrip(".") + "s"
    return "null" if value is None else str(value)


def _inner(value: Any) -> str:
    """A value within a list or a map."""
    if isinstance(value, list):
        return f"[{', '.join(map(_inner, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_inner(key)}:{_inner(item)}" for key, item in sorted(value.items())) + "}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else shown(value)


def _text(value: Any, _digits: int) -> str:
    return _inner(value) if isinstance(value, list | dict) else shown(value)


def _whole(value: Any, problem: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise CelError(f"error during formatting: {problem}, was given {type(value).__name__}")
    return value


def _decimal(value: Any, _digits: int) -> str:
    return str(_whole(value, "decimal clause can only be used on integers"))


def _fixed(value: Any, digits: int) -> str:
    return f"{_double(value, 'fixed-point'):.{digits}f}"


def _scientific(value: Any, digits: int) -> str:
    return f"{_double(value, 'scientific'):.{digits}e}"


def _double(value: Any, clause: str) -> float:
    if not isinstance(value, float):
        name = type(value).__name__
        raise CelError(
            f"error during formatting: {clause} clause can only be used on doubles, was given {name}"
        )
    return value


def _hexadecimal(value: Any, _digits: int) -> str:
    if isinstance(value, str):
        return value.encode().hex()
    return f"{_whole(value, 'only integers, byte buffers, and strings can be formatted as hex'):x}"


def _octal(value: Any, _digits: int) -> str:
    return f"{_whole(value, 'octal clause can only be used on integers'):o}"


def _binary(value: Any, _digits: int) -> str:
    if isinstance(value, bool):
        return str(int(value))
    return f"{_whole(value, 'only integers and bools can be formatted as binary'):b}"


_VERBS: Final[Mapping[str, Callable[[Any, int], str]]] = {
    "s": _text,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "x": _hexadecimal,
    "X": lambda value, digits: _hexadecimal(value, digits).upper(),
    "o": _octal,
    "b": _binary,
}
