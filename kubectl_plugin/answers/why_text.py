"""The text of `kubectl elasticquota why`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from scheduler_core.printing.age import human_duration
from scheduler_core.printing.counts import names_text

if TYPE_CHECKING:
    from scheduler_core.answers.fixes.answer import WhyAnswer
    from scheduler_core.answers.fixes.fix import Fix
    from scheduler_core.answers.why.answer import Waits

_MOST_NAMES: Final = 5


def ladder_lines(waits: Waits, tried: int | None, now: float) -> Iterator[str]:
    """The state of the work, its place in the queue, and its checks."""
    yield _head(waits, tried, now)
    place = waits.examined.place
    if waits.verdict == "waits" and place.ahead:
        more = place.position - 1 - min(len(place.ahead), _MOST_NAMES)
        rest = f" and {more} more" if more > 0 else ""
        yield f"  before it: {', '.join(place.ahead[:_MOST_NAMES])}{rest}"
    if waits.verdict in ("waits", "starts"):
        for rung in waits.examined.rungs:
            yield f"  {rung.state:<8} {rung.name:<11} {rung.text}"
    if waits.verdict == "starts":
        return
    for keeper in waits.examined.keepers:
        yield f"  {'kept':<8} {'nodes':<11} {', '.join(keeper.nodes)} for {keeper.text}"
    if waits.message and waits.verdict == "waits":
        yield f"The scheduler says: {waits.message}"


def _head(waits: Waits, tried: int | None, now: float) -> str:
    subject, place = waits.subject, waits.examined.place
    if waits.verdict == "runs":
        return f"{subject.text} does not wait: {len(subject.placed)} of its pods have a node"
    if waits.verdict == "ended":
        return f"{subject.text} does not wait: its pods have ended, or are about to"
    if waits.verdict == "starts":
        evicted = waits.examined.trial.victims
        how = f"and evicts {names_text(evicted)}" if evicted else "nothing is in its way"
        return f"{subject.text} starts with the next run of the scheduler, {how}"
    parts = []
    if place.since:
        parts.append(f"for {human_duration(now - place.since)}")
    if place.position and not waits.unread:
        parts.append(f"number {place.position} of {place.length} in the queue (priority {place.priority})")
    if tried:
        parts.append(f"tried {tried} times or more" if tried > 1 else "tried once or more")
    return f"{subject.text} waits" + (f" {', '.join(parts)}" if parts else "")


def fix_lines(answer: WhyAnswer) -> Iterator[str]:
    """What would start the work."""
    waits = answer.waits
    if waits.verdict != "waits":
        return
    if waits.unread:
        yield "No change was tried, as not all of the cluster was read."
        return
    if answer.never:
        why = "" if answer.never == waits.message else f": {answer.never}"
        yield f"As the cluster is, it can never start, even without all other pods{why}"
    if not answer.fixes:
        if answer.complete:
            yield "No single change starts it: more than one check is in the way."
        else:
            yield "No change that starts it was found in the time that there was."
        return
    yield "Each of these starts it (tried on a copy of the cluster):"
    for number, fix in enumerate(answer.fixes, 1):
        yield f"  {number}. {fix.text}"
        yield from (f"     {line}" for line in _consequences(fix))
    if not answer.complete:
        yield "The time for the search is over; there may be other changes."


def _consequences(fix: Fix) -> Iterator[str]:
    if fix.evicts:
        yield f"then evicted: {names_text(fix.evicts)}"
    if fix.delays:
        yield f"then waits: {names_text(fix.delays)}"
    if fix.what_if:
        yield f"try it: kubectl elasticquota what-if {fix.what_if}"
