"""The topology ConfigMap and the group ConfigMap of the topology seed, read from `data` to frozen structs.

Values are JSON inside strings. Reading is strict: a fault raises ModelError with the path of the field
(`data.tree.rack-0.node-1`) and the rule it breaks. Two things may be left out: `constraints` (pack at
every level) and `priority` (then the pods' counts). The results that a scheduler writes back are not read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from scheduler_core.errors import ModelError

DEFAULT_RESOURCES = ("cpu", "memory")
CONSTRAINT_FIELDS = ("type", "partitions", "min", "max", "factor", "hard")
_LOWEST = {"partitions": 1, "min": 0, "max": 1, "factor": 1}
LARGEST_SIZE = 10_000
_LARGEST_COUNT = 1_000_000

ConstraintType = Literal["pack", "spread"]


class LevelConstraint(msgspec.Struct, frozen=True):
    """What a group asks for at one level of the tree; None means that the field was not given."""

    level: str
    type: ConstraintType = "pack"
    partitions: int | None = None
    min: int | None = None
    max: int | None = None
    factor: int | None = None
    hard: bool = False


class TopologySpec(msgspec.Struct, frozen=True):
    """A cluster tree: `levels` from top to bottom, `paths` one per node with a unit name for each level."""

    name: str
    resources: tuple[str, ...]
    levels: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]


class GroupSpec(msgspec.Struct, frozen=True):
    """A placement group: how many pods, its priority (None: that of its pods), constraints by level."""

    name: str
    size: int
    priority: int | None = None
    constraints: tuple[LevelConstraint, ...] = ()


class _Pairs(tuple):
    """The members of a JSON object in order, repeated keys included."""


def parse_topology(data: Mapping[str, str], path: str = "data") -> TopologySpec:
    """Read the `data` of a ConfigMap labelled `sakkara.topology`. Raises ModelError."""
    levels = _names(_required(data, "level-names", path), f"{path}.level-names")
    resources: tuple[str, ...] = DEFAULT_RESOURCES
    if data.get("resource-names", "").strip():
        resources = _names(data["resource-names"], f"{path}.resource-names")
    tree = _decode(_required(data, "tree", path), f"{path}.tree")
    paths = tuple(_walk(tree, levels, (), f"{path}.tree"))
    seen: dict[str, tuple[str, ...]] = {}
    for units in paths:
        first = seen.setdefault(units[-1], units)
        if first is not units:
            raise ModelError(
                ".".join((f"{path}.tree", *units)),
                f"node {units[-1]} is already at {'.'.join(first)}; a node has one place in the tree",
            )
    return TopologySpec(data.get("name", ""), resources, levels, paths)


def parse_group(data: Mapping[str, str], path: str = "data") -> GroupSpec:
    """Read the `data` of a ConfigMap labelled `sakkara.group`. Raises ModelError."""
    name = data.get("name", "").strip()
    if not name:
        raise ModelError(f"{path}.name", "is required: pods refer to the group by this name")
    size = _whole(_required(data, "size", path), f"{path}.size")
    if not 1 <= size <= LARGEST_SIZE:
        raise ModelError(f"{path}.size", f"is {size}, must be between 1 and {LARGEST_SIZE}")
    priority = _whole(data["priority"], f"{path}.priority") if data.get("priority", "").strip() else None
    constraints = parse_constraints(data.get("constraints", ""), f"{path}.constraints")
    return GroupSpec(name, size, priority, constraints)


def parse_constraints(text: str, path: str = "constraints") -> tuple[LevelConstraint, ...]:
    """Read the constraints JSON, `{level: {"type": "pack", ...}}`; blank text means none.

    Level names are not checked here, as the tree is not known. Raises ModelError.
    """
    if not text.strip():
        return ()
    decoded = _decode(text, path)
    if not isinstance(decoded, _Pairs):
        raise ModelError(path, f"is {_kind(decoded)}, must be an object of constraints by level name")
    return tuple(_level(level, value, f"{path}.{level}") for level, value in _unique(decoded, path))


def _level(level: str, value: Any, path: str) -> LevelConstraint:
    if not isinstance(value, _Pairs):
        raise ModelError(path, f'is {_kind(value)}, must be an object such as {{"type": "pack"}}')
    fields: dict[str, Any] = {}
    for field, given in _unique(value, path):
        fields[field] = _field(field, given, f"{path}.{field}")
    return LevelConstraint(level=level, **fields)


def _field(field: str, given: Any, path: str) -> Any:
    if field not in CONSTRAINT_FIELDS:
        raise ModelError(path, f"is not a known field; known are {', '.join(CONSTRAINT_FIELDS)}")
    if field == "type":
        if given not in ("pack", "spread"):
            raise ModelError(path, f'is {_show(given)}, must be "pack" or "spread"')
        return given
    if field == "hard":
        if not isinstance(given, bool):
            raise ModelError(path, f"is {_show(given)}, must be true or false")
        return given
    if isinstance(given, bool) or not isinstance(given, int):
        raise ModelError(path, f"is {_show(given)}, must be a whole number")
    if not _LOWEST[field] <= given <= _LARGEST_COUNT:
        raise ModelError(path, f"is {given}, must be between {_LOWEST[field]} and {_LARGEST_COUNT}")
    return given


def _walk(tree: Any, levels: tuple[str, ...], above: tuple[str, ...], path: str) -> Iterator[tuple[str, ...]]:
    if not isinstance(tree, _Pairs):
        raise ModelError(path, f"is {_kind(tree)}, must be an object of {levels[len(above)]} names")
    if not tree:
        raise ModelError(path, f"has no {levels[len(above)]}; every branch must reach level {levels[-1]}")
    for name, below in _unique(tree, path):
        if not name:
            raise ModelError(path, f"holds a {levels[len(above)]} with an empty name")
        units = (*above, name)
        if len(units) < len(levels):
            yield from _walk(below, levels, units, f"{path}.{name}")
        elif isinstance(below, _Pairs) and not below:
            yield units
        else:
            problem = f"must be {{}}: level {levels[-1]} is the lowest of level-names"
            raise ModelError(f"{path}.{name}", problem)


def _names(text: str, path: str) -> tuple[str, ...]:
    decoded = _decode(text, path)
    if not isinstance(decoded, list) or not decoded:
        raise ModelError(path, "must be a JSON list of at least one name")
    for index, name in enumerate(decoded):
        if not isinstance(name, str) or not name:
            raise ModelError(f"{path}[{index}]", f"is {_show(name)}, must be a non-empty string")
        if name in decoded[:index]:
            raise ModelError(f"{path}[{index}]", f"{_show(name)} is given twice")
    return tuple(decoded)


def _unique(pairs: _Pairs, path: str) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for key, value in pairs:
        if key in seen:
            raise ModelError(f"{path}.{key}", "is given twice")
        seen.add(key)
        yield key, value


def _required(data: Mapping[str, str], field: str, path: str) -> str:
    text = data.get(field, "")
    if not text.strip():
        raise ModelError(f"{path}.{field}", "is required")
    return text


def _whole(text: str, path: str) -> int:
    stripped = text.strip()
    digits = stripped.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 10):
        raise ModelError(path, f"is {_show(text)}, must be a whole number")
    return int(stripped)


def _decode(text: str, path: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_Pairs)
    except RecursionError:
        raise ModelError(path, "is nested too deeply") from None
    except ValueError as error:
        raise ModelError(path, f"is not JSON: {error}") from error


def _kind(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "an object"
    return "a list" if isinstance(value, list) else _show(value)


def _show(value: Any) -> str:
    return _kind(value) if isinstance(value, _Pairs | list) else json.dumps(value)[:80]
