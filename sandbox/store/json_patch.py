"""JSON patch (RFC 6902) as kube-apiserver applies it, which departs from the RFC where it is lenient.

A member that is missing is null: it can be replaced and copied, and is equal to null. Indices may be negative
and have leading zeros. What stands before the first slash of a path is ignored, and so are unknown fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sandbox.objects import copy_json

Node = dict[str, Any] | list[Any]
_INDEX: Final = re.compile(r"[+-]?[0-9]+")
# kube-apiserver takes no more operations in one patch.
MOST_OPERATIONS: Final = 10_000


class PatchFailed(Exception):
    """An operation that cannot be applied; the text says which, and why."""


def apply(document: Any, operations: Sequence[Mapping[str, Any]]) -> Any:
    """The document after all operations; `document` itself stays as it is. Raises PatchFailed."""
    root = copy_json(document)
    for number, operation in enumerate(operations):
        name = operation.get("op")
        run = _OPERATIONS.get(name) if isinstance(name, str) else None
        try:
            if run is None:
                raise PatchFailed(f"unknown op {name!r}")
            root = run(root, operation)
        except PatchFailed as error:
            raise PatchFailed(f"operation {number}: {error}") from None
    return root


def _add(root: Any, operation: Mapping[str, Any]) -> Any:
    node, key = _place(root, operation, "path")
    _insert(node, key, copy_json(operation.get("value")))
    return root


def _remove(root: Any, operation: Mapping[str, Any]) -> Any:
    _take(*_place(root, operation, "path"))
    return root


def _replace(root: Any, operation: Mapping[str, Any]) -> Any:
    value = copy_json(operation.get("value"))
    if _text(operation, "path") == "":
        if not isinstance(value, dict | list):
            raise PatchFailed("the whole can be replaced by an object or a list only")
        return value
    node, key = _place(root, operation, "path")
    if isinstance(node, dict):
        node[key] = value
    else:
        node[_existing(node, key)] = value
    return root


def _move(root: Any, operation: Mapping[str, Any]) -> Any:
    value = _take(*_place(root, operation, "from"))
    _insert(*_place(root, operation, "path"), value)
    return root


def _copy(root: Any, operation: Mapping[str, Any]) -> Any:
    value = copy_json(_get(*_place(root, operation, "from")))
    _insert(*_place(root, operation, "path"), value)
    return root


def _test(root: Any, operation: Mapping[str, Any]) -> Any:
    path = _text(operation, "path")
    there = root if path == "" else _get(*_place(root, operation, "path"))
    if not _same(there, operation.get("value")):
        raise PatchFailed(f"the value at {path!r} is another one")
    return root


_OPERATIONS: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Any]]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "move": _move,
    "copy": _copy,
    "test": _test,
}


def _text(operation: Mapping[str, Any], field: str) -> str:
    path = operation.get(field)
    if not isinstance(path, str):
        raise PatchFailed(f"{field} is missing or no text")
    return path


def _place(root: Any, operation: Mapping[str, Any], field: str) -> tuple[Node, str]:
    """The object or list that a path leads into, and the last key."""
    path = _text(operation, field)
    _, *parts = path.split("/")
    if not parts:
        raise PatchFailed(f"there is no {path!r}")
    node = root
    for part in parts[:-1]:
        node = _get(node, _decoded(part))
        if not isinstance(node, dict | list):
            raise PatchFailed(f"there is no {path!r}")
    return node, _decoded(parts[-1])


def _decoded(part: str) -> str:
    # From left to right: "~01" is "~1" and no slash.
    return re.sub("~[01]", lambda found: "/" if found.group() == "~1" else "~", part)


def _get(node: Node, key: str) -> Any:
    return node.get(key) if isinstance(node, dict) else node[_existing(node, key)]


def _take(node: Node, key: str) -> Any:
    if isinstance(node, list):
        return node.pop(_existing(node, key))
    if key not in node:
        raise PatchFailed(f"there is no key {key!r} to remove")
    return node.pop(key)


def _insert(node: Node, key: str, value: Any) -> None:
    if isinstance(node, dict):
        node[key] = value
    elif key == "-":
        node.append(value)
    else:
        node.insert(_index(key, len(node) + 1), value)


def _existing(node: list[Any], key: str) -> int:
    return _index(key, len(node))


def _index(key: str, size: int) -> int:
    """The place in a list of `size` cells; negative numbers count from its end."""
    number = int(key) if _INDEX.fullmatch(key) and len(key) < 20 else None
    if number is None or not -size <= number < size:
        raise PatchFailed(f"{key!r} is no place in a list of {size}")
    return number + size if number < 0 else number


def _same(one: Any, other: Any) -> bool:
    """Equality of JSON: unlike in Python, true is not 1, nor 1.0."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)
