"""When the first of the waiting work starts, and the one step that would start it now."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from scheduler_core.answers.changes import NOTHING
from scheduler_core.answers.eta.answer import EARLY, LATE, MIDDLE
from scheduler_core.answers.eta.forecast import StartTimes, start_times
from scheduler_core.answers.eta.run_times import RunTimeRange
from scheduler_core.answers.fixes.answer import answer_of
from scheduler_core.answers.queue.waiting import UnitKey, WaitingUnit
from scheduler_core.answers.why.answer import why
from scheduler_core.answers.why.subject import Subject, subject_of
from scheduler_core.answers.worlds import World
from scheduler_core.errors import ConfigError


class StartRange(msgspec.Struct, frozen=True):
    """When work is expected to start, in seconds since the epoch; None for what is not known.

    `earliest` with short run times, `median` with usual ones, `latest` with long ones.
    """

    earliest: float | None = None
    median: float | None = None
    latest: float | None = None


class Advice(msgspec.Struct, frozen=True):
    """What is known beyond the queue of one unit: when it starts, and the least change that starts it now.

    `step` is empty where no change was found or looked for; `what_if` are the arguments with which
    `kubectl elasticquota what-if` shows it. `evicts` are pods that are evicted then, `delays` are pods
    that start only without the change. `never`: why it could not start even on an empty cluster.
    """

    kind: str
    namespace: str
    name: str
    start: StartRange = StartRange()
    step: str = ""
    what_if: str = ""
    never: str = ""
    searched: bool = False
    dialect: str = ""
    evicts: tuple[str, ...] = ()
    delays: tuple[str, ...] = ()

    @property
    def key(self) -> UnitKey:
        """That of its unit."""
        return self.kind, self.namespace, self.dialect, self.name


class QueueAdvice(msgspec.Struct, frozen=True):
    """The advice for the first of the waiting units, in their order."""

    advice: tuple[Advice, ...] = ()


def advise(
    world: World,
    units: Sequence[WaitingUnit],
    times: RunTimeRange,
    *,
    estimates: Callable[[], bool],
    steps: Callable[[], bool],
) -> QueueAdvice:
    """The advice for some units. `estimates` and `steps` say when the time for each is over.

    A unit that is gone is left out.
    """
    subjects = [(unit, subject) for unit in units if (subject := _subject(world, unit)) is not None]
    ranges = _ranges(world, [subject for _, subject in subjects], times, estimates)
    return QueueAdvice(
        tuple(
            _advice(world, unit, subject, start, steps)
            for (unit, subject), start in zip(subjects, ranges, strict=True)
        )
    )


def _subject(world: World, unit: WaitingUnit) -> Subject | None:
    name = f"{unit.dialect}/{unit.name}" if unit.dialect else unit.name
    try:
        return subject_of(world.base, unit.kind, unit.namespace, name)
    except ConfigError:
        return None


def _ranges(
    world: World, subjects: Sequence[Subject], times: RunTimeRange, expired: Callable[[], bool]
) -> list[StartRange]:
    goals = [subject.goal for subject in subjects]
    courses: list[tuple[float | None, ...]] = []
    for share in (MIDDLE, EARLY, LATE):
        if not goals or expired():
            courses.append((None,) * len(goals))
            continue
        question = start_times(goals, times, share, expired)
        courses.append(world.ask(NOTHING, question, StartTimes).starts)
    middle, early, late = courses
    found = []
    for usual, short, long in zip(middle, early, late, strict=True):
        known = [moment for moment in (usual, short, long) if moment is not None]
        latest = max(known) if long is not None else None
        found.append(StartRange(min(known) if known else None, usual, latest))
    return found


def _advice(
    world: World, unit: WaitingUnit, subject: Subject, start: StartRange, expired: Callable[[], bool]
) -> Advice:
    found = Advice(unit.kind, unit.namespace, unit.name, start, dialect=unit.dialect)
    if expired():
        return found
    answer = answer_of(world, why(world, subject), expired=expired)
    first = answer.fixes[0] if answer.fixes else None
    found = msgspec.structs.replace(found, never=answer.never, searched=first is not None or answer.complete)
    if first is None:
        return found
    return msgspec.structs.replace(
        found, step=first.text, what_if=first.what_if, evicts=first.evicts, delays=first.delays
    )
