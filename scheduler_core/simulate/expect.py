"""Compares the report of a scenario step with its expectations, and describes the differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from scheduler_core.errors import ConfigError, ModelError
from scheduler_core.model.quantity import parse_quantity

_EVENT_KEYS: Final = ("object", "reason", "contains")
_CONDITION_KEYS: Final = ("type", "status", "reason", "contains", "observedGeneration", "kind", "apiVersion")


def check_expectation(expect: Any, path: str) -> None:
    """Check the form of expectations. Raises ConfigError with the path of what is not allowed."""
    if not isinstance(expect, Mapping):
        raise ConfigError(path, f"must be a mapping, not {type(expect).__name__}")
    for key, value in expect.items():
        check = _CHECKS.get(key)
        if check is None:
            known = ", ".join(sorted(_CHECKS))
            raise ConfigError(f"{path}.{key}", f"unknown key; known are {known}")
        if value is not None:
            check(value, f"{path}.{key}")


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
        _is_map(status, f"{path}[{name}]")


def _is_conditions(value: Any, path: str) -> None:
    _is_map(value, path)
    for name, wanted in value.items():
        if wanted is None:
            continue
        several = isinstance(wanted, list)
        for i, item in enumerate(wanted if several else [wanted]):
            place = f"{path}[{name}]" + (f"[{i}]" if several else "")
            _is_map(item, place)
            for key in item:
                if key not in _CONDITION_KEYS:
                    problem = f"unknown key; known are {', '.join(_CONDITION_KEYS)}"
                    raise ConfigError(f"{place}.{key}", problem)
            if "type" not in item:
                raise ConfigError(f"{place}.type", "is required")


def _is_events(value: Any, path: str) -> None:
    if not isinstance(value, list):
        raise ConfigError(path, "must be a list")
    for i, event in enumerate(value):
        _is_map(event, f"{path}[{i}]")
        for key in event:
            if key not in _EVENT_KEYS:
                problem = f"unknown key; known are {', '.join(_EVENT_KEYS)}"
                raise ConfigError(f"{path}[{i}].{key}", problem)


_CHECKS: Final[Mapping[str, Callable[[Any, str], None]]] = {
    "bound": _is_names,
    "boundAny": _is_choice,
    "boundOn": _is_map,
    "pending": _is_names,
    "evicted": _is_names,
    "evictedAny": _is_choice,
    "status": _is_statuses,
    "conditions": _is_conditions,
    "budgets": _is_map,
    "events": _is_events,
}


def mismatches(expect: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    """One text per difference between the report and the expectation; empty if they agree."""
    bound, pending = report["bound"], report["pending"]
    evicted = {item["pod"] for item in report["evicted"]}
    found = [_misplaced(pod, "bound", report) for pod in expect.get("bound") or () if pod not in bound]
    found += [_misplaced(pod, "pending", report) for pod in expect.get("pending") or () if pod not in pending]
    placed = (expect.get("boundOn") or {}).items()
    found += [_misplaced(pod, f"on {node}", report) for pod, node in placed if bound.get(pod) != node]
    if expect.get("boundAny") is not None:
        found += _count("bound", expect["boundAny"], set(bound))
    if "evicted" in expect and set(expect["evicted"] or ()) != evicted:
        found.append(f"evicted: expected {listed(expect['evicted'] or ())}, got {listed(evicted)}")
    if expect.get("evictedAny") is not None:
        found += _count("evicted", expect["evictedAny"], evicted)
    for name, status in (expect.get("status") or {}).items():
        found += _status(name, status, report["status"].get(name) or {})
    for group, wanted in (expect.get("conditions") or {}).items():
        found += _conditions(group, wanted, report["conditions"])
    if "budgets" in expect:
        found += _budgets(expect["budgets"] or {}, report["budgets"])
    found += _events(expect.get("events") or (), report["events"])
    return found


def listed(names: Iterable[str]) -> str:
    """`a/x, a/y and a/z` in order of the names; `none` without any."""
    *first, last = sorted(names) or ["none"]
    return f"{', '.join(first)} and {last}" if first else last


def _place(pod: str, report: Mapping[str, Any]) -> str:
    """The node of a pod, or why it has none."""
    node, why = report["bound"].get(pod), report["pending"].get(pod)
    if node:
        return f"on {node}"
    if why:
        return f"pending ({why['message']})"
    return "no such pod"


def _misplaced(pod: str, expected: str, report: Mapping[str, Any]) -> str:
    return f"{pod}: expected {expected}, got {_place(pod, report)}"


def _count(what: str, expected: Mapping[str, Any], actual: set[str]) -> list[str]:
    hit = actual & set(expected["from"])
    if len(hit) == expected["count"]:
        return []
    return [f"{what}: expected {expected['count']} of {listed(expected['from'])}, got {listed(hit)}"]


def _same(expected: Any, actual: Any) -> bool:
    """Equal values; quantities compare by value, an absent counter is 0."""
    if isinstance(expected, Mapping):
        return isinstance(actual, Mapping) and all(_same(v, actual.get(k)) for k, v in expected.items())
    if expected == actual:
        return True
    try:
        left = parse_quantity(expected, scale=3)
        return left == parse_quantity(0 if actual is None else actual, scale=3)
    except ModelError:
        return False


def _budgets(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    return [] if expected == actual else [f"budgets: expected {_words(expected)}, got {_words(actual)}"]


def _status(name: str, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    return [
        f"status of {name}: {field}: expected {_words(value)}, got {_words(_asked(value, actual.get(field)))}"
        for field, value in expected.items()
        if not _same(value, actual.get(field))
    ]


def _conditions(group: str, wanted: Any, told: Sequence[Mapping[str, Any]]) -> list[str]:
    """Differences of a group's conditions; `wanted` is one condition, several, or None for no condition."""
    mine = [item for item in told if item["group"] == group]
    if not mine:
        return [f"conditions of {group}: there is no PodGroup of this name; the key is namespace/name"]
    if wanted is None:
        types = {str(condition.get("type")) for item in mine for condition in item["conditions"]}
        return [f"conditions of {group}: expected none, got {listed(types)}"] if types else []
    found = []
    for want in wanted if isinstance(wanted, list) else [wanted]:
        objects = [
            item
            for item in mine
            if all(item[key] == want.get(key, item[key]) for key in ("kind", "apiVersion"))
        ]
        had = [
            condition
            for item in objects
            for condition in item["conditions"]
            if condition.get("type") == want["type"]
        ]
        if not any(_is_told(want, condition) for condition in had):
            text = "; ".join(_condition(condition) for condition in had) or f"no condition {want['type']}"
            found.append(f"conditions of {group}: expected {_condition(want)}, got {text}")
    return found


def _is_told(want: Mapping[str, Any], condition: Mapping[str, Any]) -> bool:
    if str(want.get("contains", "")) not in str(condition.get("message", "")):
        return False
    fields = ("status", "reason", "observedGeneration")
    return all(str(want[field]) == str(condition.get(field)) for field in fields if field in want)


def _condition(condition: Mapping[str, Any]) -> str:
    """`PodGroupInitiallyScheduled=False, reason Unschedulable, "text"`."""
    status = f"={condition['status']}" if "status" in condition else ""
    reason = f", reason {condition['reason']}" if condition.get("reason") else ""
    seen = condition.get("observedGeneration")
    of = f", observedGeneration {seen}" if seen else ""
    text = condition.get("message") or ""
    text = f', "{text}"' if text else ""
    part = f', with "{condition["contains"]}"' if "contains" in condition else ""
    return f"{condition['type']}{status}{reason}{of}{text}{part}"


def _asked(expected: Any, actual: Any) -> Any:
    """The actual map without entries that the expected one does not have."""
    if isinstance(expected, Mapping) and isinstance(actual, Mapping):
        return {key: _asked(value, actual.get(key)) for key, value in expected.items()}
    return actual


def _words(value: Any) -> str:
    """A value as a person would write it down: `cpu=4, memory=1Gi`, `Running`, `nothing`."""
    if isinstance(value, Mapping):
        parts = (f"{key}={_words(item)}" for key, item in value.items())
        return ", ".join(parts) or "nothing"
    if isinstance(value, list | tuple):
        return "; ".join(_words(item) for item in value) or "nothing"
    return "nothing" if value is None else str(value)


def _events(expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, str]]) -> list[str]:
    found = []
    for want in expected:
        told = [event for event in actual if event["object"] == want.get("object", event["object"])]
        hit = any(
            event["reason"] == want.get("reason", event["reason"])
            and str(want.get("contains", "")) in event["message"]
            for event in told
        )
        if not hit:
            had = {f"{event['reason']} ({event['message']})" for event in told} if "object" in want else ()
            found.append(f"events: expected {_event(want)}, got {listed(had)}")
    return found


def _event(want: Mapping[str, Any]) -> str:
    """`FailedScheduling of Pod a/p with "exceeds max"`."""
    of = f" of {want['object']}" if "object" in want else ""
    text = f' with "{want["contains"]}"' if "contains" in want else ""
    return f"{want.get('reason', 'an event')}{of}{text}"
