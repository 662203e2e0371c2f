"""Comparing a step's report with what its scenario expects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_core.errors import ModelError
from scheduler_core.model.quantity import parse_quantity


def mismatches(expect: Mapping[str, Any], report: Mapping[str, Any]) -> list[str]:
    """Every way in which the report differs from the expectation, in words; empty if it does not."""
    bound, pending = report["bound"], report["pending"]
    evicted = {item["pod"] for item in report["evicted"]}
    found = [_not_bound(pod, report) for pod in expect.get("bound", ()) if pod not in bound]
    found += [_not_pending(pod, bound) for pod in expect.get("pending", ()) if pod not in pending]
    for pod, node in (expect.get("boundOn") or {}).items():
        if bound.get(pod) != node:
            found.append(f"{pod} should be on {node}, is on {bound.get(pod) or 'no node'}")
    if "boundAny" in expect:
        found += _count("bound", expect["boundAny"], set(bound))
    if "evicted" in expect and set(expect["evicted"] or ()) != evicted:
        found.append(f"evicted should be {sorted(expect['evicted'] or ())}, is {sorted(evicted)}")
    if "evictedAny" in expect:
        found += _count("evicted", expect["evictedAny"], evicted)
    for name, status in (expect.get("status") or {}).items():
        found += _status(name, status, report["status"].get(name) or {})
    found += _events(expect.get("events") or (), report["events"])
    return found


def _not_bound(pod: str, report: Mapping[str, Any]) -> str:
    why = report["pending"].get(pod)
    return f"{pod} should be bound, is " + (f"pending: {why['message']}" if why else "not there")


def _not_pending(pod: str, bound: Mapping[str, str]) -> str:
    return f"{pod} should be pending, is " + (f"on {bound[pod]}" if pod in bound else "not there")


def _count(what: str, expected: Mapping[str, Any], actual: set[str]) -> list[str]:
    hit = sorted(actual & set(expected.get("from", ())))
    if len(hit) == expected.get("count"):
        return []
    return [f"{what}: {expected.get('count')} of {expected.get('from')} expected, got {hit}"]


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


def _status(name: str, expected: Mapping[str, Any], actual: Mapping[str, Any]) -> list[str]:
    return [
        f"status of {name}: {field} should be {value}, is {actual.get(field)}"
        for field, value in expected.items()
        if not _same(value, actual.get(field))
    ]


def _events(expected: Sequence[Mapping[str, Any]], actual: Sequence[Mapping[str, str]]) -> list[str]:
    found = []
    for want in expected:
        hit = any(
            event["object"] == want.get("object", event["object"])
            and event["reason"] == want.get("reason", event["reason"])
            and str(want.get("contains", "")) in event["message"]
            for event in actual
        )
        if not hit:
            found.append(f"no event like {dict(want)}")
    return found
