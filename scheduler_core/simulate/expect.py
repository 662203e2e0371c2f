"""Compares the report of a scenario step with its expectations, and describes the differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import parse_quantity


class ExpectationOutcome(msgspec.Struct, frozen=True):
    """One expectation, in words, and how the report differs from it: empty if it is met."""

    expectation: str
    mismatches: tuple[str, ...] = ()


def outcomes(expect: Mapping[str, Any], report: Mapping[str, Any]) -> list[ExpectationOutcome]:
    """One outcome per pod, object or event that is expected, in the order of the report's keys."""
    return list(_outcomes(expect, report))


def mismatches(expect: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    """One text per difference between the report and the expectation; empty if they agree."""
    return [text for outcome in outcomes(expect, report) for text in outcome.mismatches]


def _outcomes(expect: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[ExpectationOutcome]:
    bound = report["bound"]
    evicted = {item["pod"] for item in report["evicted"]}
    for pod in expect.get("bound") or ():
        yield _of_pod(pod, "bound", pod in bound, report)
    for pod in expect.get("pending") or ():
        yield _of_pod(pod, "pending", pod in report["pending"], report)
    for pod in expect.get("awake") or ():
        yield _woken(pod, report, wanted=True)
    for pod in expect.get("asleep") or ():
        yield _woken(pod, report, wanted=False)
    for pod, node in (expect.get("boundOn") or {}).items():
        yield _of_pod(pod, f"on {node}", bound.get(pod) == node, report)
    if expect.get("boundAny") is not None:
        yield _count("bound", expect["boundAny"], set(bound))
    if "evicted" in expect:
        yield _evicted(expect["evicted"] or (), evicted)
    if expect.get("evictedAny") is not None:
        yield _count("evicted", expect["evictedAny"], evicted)
    for name, status in (expect.get("status") or {}).items():
        yield ExpectationOutcome(
            f"status of {name}", tuple(_status(name, status, report["status"].get(name) or {}))
        )
    for group, wanted in (expect.get("conditions") or {}).items():
        yield ExpectationOutcome(
            f"conditions of {group}", tuple(_conditions(group, wanted, report["conditions"]))
        )
    if "budgets" in expect:
        yield ExpectationOutcome("budgets", tuple(_budgets(expect["budgets"] or {}, report["budgets"])))
    for want in expect.get("events") or ():
        yield ExpectationOutcome(f"event {_event(want)}", tuple(_events(want, report["events"])))
    for pod in report.get("overlooked", ()):
        text = f"{pod}: nothing in the step woke it, though it starts or evicts once it is looked at again"
        yield ExpectationOutcome(f"{pod} not overlooked", (text,))


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


def _of_pod(pod: str, expected: str, met: bool, report: Mapping[str, Any]) -> ExpectationOutcome:
    text = () if met else (f"{pod}: expected {expected}, got {_place(pod, report)}",)
    return ExpectationOutcome(f"{pod} {expected}", text)


def _woken(pod: str, report: Mapping[str, Any], *, wanted: bool) -> ExpectationOutcome:
    """Whether the step woke a pod; only a pod that waits is asleep."""
    awake, waits = pod in report["awake"], pod in report["pending"]
    expected = "awake" if wanted else "asleep"
    met = awake if wanted else waits and not awake
    got = "awake" if awake else "asleep" if waits else _place(pod, report)
    return ExpectationOutcome(f"{pod} {expected}", () if met else (f"{pod}: expected {expected}, got {got}",))


def _evicted(expected: Iterable[str], actual: set[str]) -> ExpectationOutcome:
    text = f"evicted: expected {listed(expected)}, got {listed(actual)}"
    return ExpectationOutcome(f"evicted {listed(expected)}", () if set(expected) == actual else (text,))


def _count(what: str, expected: Mapping[str, Any], actual: set[str]) -> ExpectationOutcome:
    hit = actual & set(expected["from"])
    some = f"{expected['count']} of {listed(expected['from'])}"
    text = f"{what}: expected {some}, got {listed(hit)}"
    return ExpectationOutcome(f"{what} {some}", () if len(hit) == expected["count"] else (text,))


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


def _events(want: Mapping[str, Any], actual: Sequence[Mapping[str, str]]) -> list[str]:
    told = [event for event in actual if event["object"] == want.get("object", event["object"])]
    hit = any(
        event["reason"] == want.get("reason", event["reason"])
        and str(want.get("contains", "")) in event["message"]
        for event in told
    )
    if hit:
        return []
    had = {f"{event['reason']} ({event['message']})" for event in told} if "object" in want else ()
    return [f"events: expected {_event(want)}, got {listed(had)}"]


def _event(want: Mapping[str, Any]) -> str:
    """`FailedScheduling of Pod a/p with "exceeds max"`."""
    of = f" of {want['object']}" if "object" in want else ""
    text = f' with "{want["contains"]}"' if "contains" in want else ""
    return f"{want.get('reason', 'an event')}{of}{text}"
