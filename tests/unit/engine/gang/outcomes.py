"""Reads outcomes of units."""

from __future__ import annotations

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.gang.outcome import MemberToPrepare, MustWait, Outcome, Prepares, Starts


def reserved(outcome: Outcome) -> list[ReservedPod]:
    return [item for _, item in outcome.reserved] if isinstance(outcome, Starts) else []


def names(outcome: Outcome) -> list[str]:
    """The members that start."""
    return [item.cycle.pod.name for item in reserved(outcome)]


def to_prepare(outcome: Outcome) -> tuple[MemberToPrepare, ...]:
    return outcome.members if isinstance(outcome, Prepares) else ()


def waiting(outcome: Outcome) -> MustWait:
    assert isinstance(outcome, MustWait)
    return outcome
