"""Bursts under an API server that answers badly: one scheduler goes through all of it."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.fault_burst import Losses
from tests.support.fault_rules import Rule, is_binding, is_write, watches
from tests.support.fault_stage import Stage

pytestmark = pytest.mark.timeout(240)

Record = Callable[[str, int, Losses], None]
Fault = Callable[[], Rule]

# Sentence, the fault, and how often it must have come before the server is well again.
ANSWERS: list[tuple[str, Fault, int]] = [
    (
        "409 to every second binding",
        lambda: Rule(is_binding, every=2, status=409, reason="Conflict"),
        8,
    ),
    (
        "409 to every second write",
        lambda: Rule(is_write, every=2, status=409, reason="Conflict"),
        15,
    ),
    (
        "429 with Retry-After to every second write",
        lambda: Rule(is_write, every=2, status=429, reason="TooManyRequests", retry_after=1),
        15,
    ),
    (
        "429 without Retry-After to nine bindings of ten",
        lambda: Rule(lambda call: is_binding(call) and call.number % 10 > 0, status=429, times=12),
        12,
    ),
    (
        "500 to every second write",
        lambda: Rule(is_write, every=2, status=500, reason="InternalError"),
        15,
    ),
    ("lost answers to accepted bindings", lambda: Rule(is_binding, lose=True), 8),
    ("lost answers to accepted writes", lambda: Rule(is_write, lose=True), 15),
    ("bindings lost on their way", lambda: Rule(is_binding, drop=True, every=2), 8),
    ("slow answers to writes", lambda: Rule(is_write, delay=0.7), 15),
    ("slow answers to everything", lambda: Rule(lambda call: call.verb != "watch", delay=0.5), 25),
]


@pytest.mark.parametrize(("sentence", "fault", "hits"), ANSWERS, ids=[fault[0] for fault in ANSWERS])
def test_a_burst_that_is_answered_badly_loses_nothing(
    stage: Stage, record: Record, sentence: str, fault: Fault, hits: int
) -> None:
    rule = fault()
    losses = stage.during(rule, hits=hits)
    record(sentence, rule.hits, losses)


def error_line(code: int, reason: str) -> bytes:
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": "on demand"}
    return json.dumps({"type": "ERROR", "object": status}).encode() + b"\n"


PODS = watches("pods")
WATCHES: list[tuple[str, Fault, int]] = [
    ("watch of pods cut after every third event", lambda: Rule(PODS, cut_after=3), 4),
    ("410 in the watch of pods", lambda: Rule(PODS, times=3, lines=(error_line(410, "Expired"),)), 3),
    ("410 as the answer to every watch", lambda: Rule(is_watch, times=20, status=410, reason="Expired"), 20),
    ("500 as the answer to every watch", lambda: Rule(is_watch, times=20, status=500), 20),
    ("garbage in the watch of pods", lambda: Rule(PODS, times=3, lines=(b'{"type": "ADD\n',)), 3),
]


def is_watch(call: object) -> bool:
    return getattr(call, "verb", "") == "watch"


@pytest.mark.parametrize(("sentence", "fault", "hits"), WATCHES, ids=[fault[0] for fault in WATCHES])
def test_a_burst_whose_watches_break_loses_nothing(
    stage: Stage, record: Record, sentence: str, fault: Fault, hits: int
) -> None:
    rule = fault()
    losses = stage.amidst(rule, hits=hits)
    record(sentence, rule.hits, losses)
