"""Checks the form of a step's expectations, with the path of every problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduler_core.errors import ConfigError
from scheduler_core.simulate.format import (
    Expectations,
    ExpectedCondition,
    ExpectedEvent,
    check_keys,
    keys_of,
    nearest,
)
from scheduler_core.simulate.groups import RESULTS

# The fields of a status that a simulation reports, of all dialects; a test compares them with the CRDs.
_STATUS_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "ElasticQuota": ("observedGeneration", "used", "summary", "lastReclaim", "history", "conditions"),
    "PodGroup": (
        *("observedGeneration", "phase", "admitted", "running", "succeeded", "failed", "conditions"),
        *("occupiedBy", "scheduled", "scheduleStartTime", "resourceClaimStatuses"),
    ),
    "ConfigMap": RESULTS,
}


def check_expectation(expect: Any, path: str) -> None:
    """Check the form of expectations. Raises ConfigError with the path of what is not allowed."""
    if not isinstance(expect, Mapping):
        raise ConfigError(path, f"must be a mapping, not {type(expect).__name__}")
    check_keys(expect, keys_of(Expectations), path)
    for key, value in expect.items():
        if value is not None:
            _CHECKS[key](value, f"{path}.{key}")


def _is_names(value: Any, path: str) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(path, "must be a list of pods, each as namespace/name")


def _is_choice(value: Any, path: str) -> None:
    if not isinstance(value, Mapping) or value.keys() != {"count", "from"}:
        raise ConfigError(path, "must have count and from")
    if not isinstance(value["count"], int) or isinstance(value["count"], bool) or value["count"] < 0:
        raise ConfigError(f"{path}.count", f"{value['count']!r} must be a whole number, 0 or more")
    _is_names(value["from"], f"{path}.from")


def _is_map(value: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise ConfigError(path, f"must be a mapping, not {type(value).__name__}")


def _is_statuses(value: Any, path: str) -> None:
    _is_map(value, path)
    for name, status in value.items():
        place = f"{path}[{name}]"
        _is_map(status, place)
        check_keys(status, status_fields(name, path), place)


def status_fields(name: str, path: str) -> tuple[str, ...]:
    """The fields that the status of an object, as `ElasticQuota ns/name`, may have. Raises ConfigError."""
    kind = str(name).partition(" ")[0].partition(".")[0]
    if kind not in _STATUS_FIELDS:
        hint = nearest(kind, _STATUS_FIELDS)
        problem = f"must begin with one of {', '.join(_STATUS_FIELDS)}, as in PodGroup team-a/train{hint}"
        raise ConfigError(f"{path}[{name}]", problem)
    return _STATUS_FIELDS[kind]


def _is_conditions(value: Any, path: str) -> None:
    _is_map(value, path)
    for name, wanted in value.items():
        if wanted is None:
            continue
        several = isinstance(wanted, list)
        for i, item in enumerate(wanted if several else [wanted]):
            place = f"{path}[{name}]" + (f"[{i}]" if several else "")
            _is_map(item, place)
            check_keys(item, keys_of(ExpectedCondition), place)
            if "type" not in item:
                raise ConfigError(f"{place}.type", "is required")


def _is_events(value: Any, path: str) -> None:
    if not isinstance(value, list):
        raise ConfigError(path, "must be a list")
    for i, event in enumerate(value):
        _is_map(event, f"{path}[{i}]")
        check_keys(event, keys_of(ExpectedEvent), f"{path}[{i}]")


_CHECKS: Final[Mapping[str, Callable[[Any, str], None]]] = {
    "bound": _is_names,
    "boundAny": _is_choice,
    "boundOn": _is_map,
    "pending": _is_names,
    "awake": _is_names,
    "asleep": _is_names,
    "evicted": _is_names,
    "evictedAny": _is_choice,
    "status": _is_statuses,
    "conditions": _is_conditions,
    "budgets": _is_map,
    "events": _is_events,
}
