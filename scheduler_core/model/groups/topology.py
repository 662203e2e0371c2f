"""Reads the topology ConfigMap and the group ConfigMap (docs/topology.md) from `data` to frozen structs.

Values are JSON inside strings. Reading is strict: a fault raises ModelError with the path of the field
(`data.tree.rack-0.node-1`) and the rule it breaks. Two things may be left out: `constraints` (pack at
every level) and `priority` (then the pods' counts). The results that a scheduler writes back are not read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from scheduler_core import decoding
from scheduler_core.errors import ModelError

# The fields of a group's data: those of users, and the results of the scheduler.
GROUP_FIELDS = (
    *("name", "size", "priority", "constraints"),
    *("status", "reason", "placement", "rank", "hopCost", "bestHopCost", "optimal"),
    *("schedBeginTime", "schedEndTime", "schedSolverTimeMilli", "schedTotalTimeMilli"),
)
CONSTRAINT_FIELDS = ("type", "partitions", "min", "max", "factor", "hard")
_LOWEST = {"partitions": 1, "min": 0, "max": 1, "factor": 1}
LARGEST_SIZE = 10_000
LARGEST_TREE = 20_000
MOST_LEVELS = 16
MOST_RESOURCES = 64
# In characters. A ConfigMap cannot be larger; constraints are a few lines of a ConfigMap or an annotation.
LONGEST_TEXT = 1 << 20
LONGEST_CONSTRAINTS = 1 << 16
LONGEST_NAME = 253
_LARGEST_COUNT = 1_000_000

ConstraintType = Literal["pack", "spread"]


class LevelConstraint(msgspec.Struct, frozen=True):
    """The constraint of a group at one level of the tree; None means that the field was not given."""

    level: str
    type: ConstraintType = "pack"
    partitions: int | None = None
    min: int | None = None
    max: int | None = None
    factor: int | None = None
    hard: bool = False


class TopologySpec(msgspec.Struct, frozen=True):
    """A cluster tree: `levels` from top to bottom, `paths` one per node with a unit name for each level.

    `resources` are those to show; empty where the ConfigMap names none.
    """

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
    levels = _names(_required(data, "level-names", path), f"{path}.level-names", MOST_LEVELS)
    resources: tuple[str, ...] = ()
    if data.get("resource-names", "").strip():
        resources = _names(data["resource-names"], f"{path}.resource-names", MOST_RESOURCES)
    text = _required(data, "tree", path)
    # Every unit is an object, and the tree itself is one more.
    count = text.count("{") - 1
    if count > LARGEST_TREE:
        problem = f"holds {count} units on all levels together, at most {LARGEST_TREE} are read"
        raise ModelError(f"{path}.tree", problem)
    tree = _decode(text, f"{path}.tree")
    paths: list[tuple[str, ...]] = []
    _walk(tree, levels, (), f"{path}.tree", paths)
    seen: dict[str, tuple[str, ...]] = {}
    for units in paths:
        first = seen.setdefault(units[-1], units)
        if first is not units:
            raise ModelError(
                ".".join((f"{path}.tree", *units)),
                f"node {units[-1]} is already at {'.'.join(first)}; a node has one place in the tree",
            )
    return TopologySpec(data.get("name", ""), resources, levels, tuple(paths))


def parse_group(data: Mapping[str, str], path: str = "data") -> GroupSpec:
    """Read the `data` of a ConfigMap labelled `sakkara.group`. Raises ModelError."""
    name = data.get("name", "").strip()
    if not name:
        raise ModelError(f"{path}.name", "is required: pods refer to the group by this name")
    if len(name) > LONGEST_NAME:
        raise ModelError(f"{path}.name", f"has {len(name)} characters, at most {LONGEST_NAME} are read")
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
    if len(text) > LONGEST_CONSTRAINTS:
        raise ModelError(path, f"has more than the {LONGEST_CONSTRAINTS} characters that are read")
    if not text.strip():
        return ()
    decoded = _decode(text, path)
    if not isinstance(decoded, _Pairs):
        raise ModelError(path, f"is {_kind(decoded)}, must be an object of constraints by level name")
    if len(decoded) > MOST_LEVELS:
        raise ModelError(path, f"names {len(decoded)} levels, at most {MOST_LEVELS} are possible")
    return tuple(_level(level, value, f"{path}.{level}") for level, value in _unique(decoded, path))


def takes_much(text: str) -> bool:
    """Whether it takes four bytes per character and is long, as no text of Muster or of a serious user is."""
    return len(text) > LONGEST_CONSTRAINTS and not text.isascii() and max(text) > "\uffff"


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


def _walk(
    tree: Any, levels: tuple[str, ...], above: tuple[str, ...], root: str, found: list[tuple[str, ...]]
) -> None:
    """Append the path of every leaf to `found`."""
    depth = len(above)
    if not isinstance(tree, _Pairs):
        raise ModelError(_at(root, above), f"is {_kind(tree)}, must be an object of {levels[depth]} names")
    if not tree:
        problem = f"has no {levels[depth]}; every branch must reach level {levels[-1]}"
        raise ModelError(_at(root, above), problem)
    if len(tree) > 1:
        _unique(tree, _at(root, above))
    for name, below in tree:
        if not 0 < len(name) <= LONGEST_NAME:
            name_is = (
                f"a name of {len(name)} characters (at most {LONGEST_NAME})" if name else "an empty name"
            )
            raise ModelError(_at(root, above), f"holds a {levels[depth]} with {name_is}")
        if depth + 1 < len(levels):
            _walk(below, levels, (*above, name), root, found)
        elif isinstance(below, _Pairs) and not below:
            found.append((*above, name))
        else:
            problem = f"must be {{}}: level {levels[-1]} is the lowest of level-names"
            raise ModelError(_at(root, (*above, name)), problem)


def _at(root: str, units: tuple[str, ...]) -> str:
    return ".".join((root, *units))


def _names(text: str, path: str, most: int) -> tuple[str, ...]:
    decoded = _decode(text, path)
    if not isinstance(decoded, list) or not decoded:
        raise ModelError(path, "must be a JSON list of at least one name")
    if len(decoded) > most:
        raise ModelError(path, f"holds {len(decoded)} names, at most {most} are possible")
    for index, name in enumerate(decoded):
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            problem = f"must be a string of 1 to {LONGEST_NAME} characters"
            raise ModelError(f"{path}[{index}]", f"is {_show(name)}, {problem}")
        if name in decoded[:index]:
            raise ModelError(f"{path}[{index}]", f"{_show(name)} is given twice")
    return tuple(decoded)


def _unique(pairs: _Pairs, path: str) -> _Pairs:
    """The same, where no key is repeated."""
    if len(dict(pairs)) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise ModelError(f"{path}.{key}", "is given twice")
            seen.add(key)
    return pairs


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
    if len(text) > LONGEST_TEXT:
        raise ModelError(path, f"is {len(text)} characters long, at most {LONGEST_TEXT} are read")
    if decoding.is_deep(text.encode(errors="replace")):
        problem = f"is nested too deeply, at most {decoding.MOST_LEVELS} levels are read"
        raise ModelError(path, problem)
    try:
        return json.loads(text, object_pairs_hook=_Pairs)
    except ValueError as error:
        raise ModelError(path, f"is not JSON: {error}") from error


def _kind(value: Any) -> str:
    if isinstance(value, _Pairs):
        return "an object"
    return "a list" if isinstance(value, list) else _show(value)


def _show(value: Any) -> str:
    return _kind(value) if isinstance(value, _Pairs | list) else json.dumps(value)[:80]
