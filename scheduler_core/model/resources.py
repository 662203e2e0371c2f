"""Resource lists: maps from resource name to exact integer (CPU in milli, all others in whole units)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import (
    INT64_MAX,
    Rounding,
    format_resource,
    is_counted,
    is_whole,
    parse_resource,
)

ResourceList = Mapping[str, int]

V = TypeVar("V")

MAX_RESOURCES: Final = 64
# Of a pod: a cluster counts 31 resources.
MOST_READ: Final = 256
# A domain, a slash and a name.
LONGEST_KEY: Final = 253 + 1 + 63

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*")
_NATIVE: Final = frozenset({"cpu", "memory", "ephemeral-storage", "pods", "storage"})


def parse_resource_list(
    raw: Mapping[str, Any] | None, path: str, *, rounding: Rounding = "up"
) -> dict[str, int]:
    """Exact integers of a resource list; ModelError names `path[resource]` if malformed or negative."""
    out: dict[str, int] = {}
    for name, value in (raw or {}).items():
        try:
            number = parse_resource(name, value, rounding=rounding)
        except ModelError as error:
            raise ModelError(f"{path}[{name}]", error.problem) from None
        if number < 0:
            raise ModelError(f"{path}[{name}]", f"{value} is negative; must be 0 or more")
        out[name] = number
    return out


def first_resources(raw: Mapping[str, V]) -> dict[str, V]:
    """MOST_READ of too many resources: those of Kubernetes, then the first by name."""
    order = sorted(raw, key=lambda name: ("/" in name, name))
    return {name: raw[name] for name in order[:MOST_READ]}


def fractions(raw: Mapping[str, Any] | None, path: str) -> tuple[tuple[str, str], ...]:
    """The fields of a valid resource list with fractions of what is counted, each with its text, by name."""
    return tuple(
        (f"{path}[{name}]", str(value))
        for name, value in sorted((raw or {}).items())
        if is_counted(name) and not is_whole(value)
    )


def check_count(raw: Mapping[str, Any] | None, path: str, most: int = MAX_RESOURCES) -> None:
    """Raises ModelError for a resource list of more than `most` resources."""
    if raw is not None and len(raw) > most:
        raise ModelError(path, f"{len(raw)} resources are too many (at most {most})")


def quota_amounts(raw: Mapping[str, Any] | None, path: str) -> dict[str, int]:
    """The amounts of a quota: valid, not negative, of qualified resources; ModelError names `path[resource]`.

    Rounded down: a quota never gives more than it says.
    """
    check_count(raw, path)
    values = parse_resource_list(raw, path, rounding="down")
    for name in values:
        problem = name_problem(name)
        if problem:
            raise ModelError(f"{path}[{name}]", f"{name!r} {problem}")
    return values


def name_problem(name: str) -> str | None:
    """The reason why a resource name is not acceptable in a quota, or None.

    Kubernetes: a bare name must be a standard resource; everything else is `domain/name`.
    """
    domain, slash, bare = name.rpartition("/")
    if not slash:
        known = name in _NATIVE or name.startswith("hugepages-")
        if known and _NAME.fullmatch(name):
            return None
        return "is neither a standard resource nor a qualified name like nvidia.com/gpu"
    if not _NAME.fullmatch(bare) or len(domain) > 253 or not _DOMAIN.fullmatch(domain):
        return "is not a qualified resource name (DNS domain, '/', name of at most 63 characters)"
    return None


def add(left: ResourceList, right: ResourceList) -> dict[str, int]:
    """Sum per resource, saturating at int64."""
    out = dict(left)
    add_to(out, right)
    return out


def add_to(total: dict[str, int], values: ResourceList) -> None:
    """Add to a sum in its place, saturating at int64."""
    for name, value in values.items():
        total[name] = min(INT64_MAX, total.get(name, 0) + value)


def maximum(left: ResourceList, right: ResourceList) -> dict[str, int]:
    """The larger value per resource."""
    out = dict(left)
    for name, value in right.items():
        if value > out.get(name, 0):
            out[name] = value
        else:
            out.setdefault(name, value)
    return out


def to_strings(values: ResourceList) -> dict[str, str]:
    """Canonical quantities in name order: the form that is written to the API."""
    return {name: format_resource(name, values[name]) for name in sorted(values)}
