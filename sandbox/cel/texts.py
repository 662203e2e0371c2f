"""Functions of CEL on strings and lists, as in cel-go's `strings` and `lists` extensions."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, Final

from sandbox.cel.syntax import CelError

_UPPER: Final = {ord(letter): letter.lower() for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}
_LOWER: Final = {ord(letter): letter.upper() for letter in "abcdefghijklmnopqrstuvwxyz"}


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise CelError(f"index out of range: {index}")
    return text[index : index + 1]


def _index_of(of: Any, part: Any, start: int = 0) -> int:
    if isinstance(of, str):
        if not 0 <= start <= len(of):
            raise CelError(f"index out of range: {start}")
        return of.find(part, start)
    return next((index for index, item in enumerate(of) if item == part), -1)


def _last_index_of(of: Any, part: Any, start: int | None = None) -> int:
    if isinstance(of, str):
        last = len(of) if start is None else start
        if not 0 <= last <= len(of):
            raise CelError(f"index out of range: {last}")
        return of.rfind(part, 0, last + len(part))
    return next((len(of) - 1 - index for index, item in enumerate(reversed(of)) if item == part), -1)


def _substring(text: str, start: int, end: int | None = None) -> str:
    last = len(text) if end is None else end
    if not 0 <= start <= len(text) or not 0 <= last <= len(text):
        raise CelError(f"index out of range: {start if not 0 <= start <= len(text) else last}")
    if start > last:
        raise CelError(f"invalid substring range. start: {start}, end: {last}")
    return text[start:last]


def _split(text: str, separator: str, most: int = -1) -> list[str]:
    """As Go: an empty separator splits into characters; `most` parts, none for 0, all for less."""
    if most == 0:
        return []
    if separator:
        return text.split(separator, most - 1 if most > 0 else -1)
    if 0 < most < len(text):
        return [*text[: most - 1], text[most - 1 :]]
    return list(text)


def _replace(text: str, old: str, new: str, most: int = -1) -> str:
    return text.replace(old, new, most)


def _join(items: Sequence[str], separator: str = "") -> str:
    return separator.join(items)


def _find(text: str, pattern: str) -> str:
    match = re.search(pattern, text)
    return match.group() if match else ""


def _find_all(text: str, pattern: str, most: int = -1) -> list[str]:
    found = [match.group() for match in re.finditer(pattern, text)]
    return found if most < 0 else found[:most]


def _is_sorted(items: Sequence[Any]) -> bool:
    return all(not after < before for before, after in pairwise(items))


def _distinct(items: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for item in items:
        if item not in found:
            found.append(item)
    return found


def _slice(items: Sequence[Any], start: int, end: int) -> Sequence[Any]:
    if not 0 <= start <= end <= len(items):
        raise CelError(f"cannot slice({start}, {end}) a list of {len(items)}")
    return items[start:end]


def _extreme(name: str, choose: Callable[[Sequence[Any]], Any]) -> Callable[[Sequence[Any]], Any]:
    def of(items: Sequence[Any]) -> Any:
        if not items:
            raise CelError(f"{name} called on empty list")
        return choose(items)

    return of


TEXT_METHODS: Final[dict[str, Callable[..., Any]]] = {
    "startsWith": str.startswith,
    "endsWith": str.endswith,
    "contains": lambda text, part: part in text,
    "matches": lambda text, pattern: re.search(pattern, text) is not None,
    "lowerAscii": lambda text: text.translate(_UPPER),
    "upperAscii": lambda text: text.translate(_LOWER),
    "trim": str.strip,
    "reverse": lambda items: items[::-1],
    "sort": sorted,
    "distinct": _distinct,
    "slice": _slice,
    "includes": lambda items, item: item in items,
    "charAt": _char_at,
    "indexOf": _index_of,
    "lastIndexOf": _last_index_of,
    "substring": _substring,
    "split": _split,
    "replace": _replace,
    "join": _join,
    "find": _find,
    "findAll": _find_all,
    "isSorted": _is_sorted,
    "min": _extreme("min", min),
    "max": _extreme("max", max),
}
