"""Tries a change on the engine: does the work start then, and who loses by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler_core.answers.changes import NOTHING, Changes
from scheduler_core.answers.why.subject import Subject, reached
from scheduler_core.answers.worlds import World
from scheduler_core.errors import MusterError
from scheduler_core.simulate.world import Simulation


class RunTrial(msgspec.Struct, frozen=True):
    """What a run did: whether the work started, the message of what still waits, and all that happened.

    Pods are `namespace/name`. `victims` are those of the evicted pods that were evicted for the work.
    """

    starts: bool
    message: str = ""
    started: tuple[str, ...] = ()
    evicted: tuple[str, ...] = ()
    victims: tuple[str, ...] = ()


def try_subject(subject: Subject, *, messages: bool = False) -> Callable[[Simulation], RunTrial]:
    """The question whether a subject starts in a simulation; `messages` as for `Simulation.run`."""
    own = set(subject.waiting)

    def question(simulation: Simulation) -> RunTrial:
        simulation.run(messages=messages)
        told = (simulation.rejected.get(key) for key in subject.waiting)
        return RunTrial(
            reached(simulation, subject.goal),
            next((item.message for item in told if item is not None), ""),
            tuple(sorted({item.pod.key for item in simulation.placed})),
            tuple(sorted({item.pod.key for item in simulation.evicted})),
            tuple(sorted({item.pod.key for item in simulation.evicted if item.preemptor.key in own})),
        )

    return question


class Prover:
    """Asks a world whether a subject starts with some changes. `most` bounds the number of runs.

    `before` is the run without changes. A run beyond the bound, and one that cannot be made, count as not
    starting: then a change is not named. `beside` are changes that are made in every run. `expired` says
    when the time for runs is over.
    """

    def __init__(
        self,
        world: World,
        subject: Subject,
        before: RunTrial,
        *,
        most: int = 150,
        beside: Changes = NOTHING,
        expired: Callable[[], bool] = lambda: False,
    ) -> None:
        self.world = world
        self.subject = subject
        self.before = before
        self.left = most
        self.beside = beside
        self.expired = expired

    @property
    def is_cut(self) -> bool:
        """Whether runs were left out."""
        return self.left <= 0 or self.expired()

    def with_also(self, beside: Changes, most: int) -> Prover:
        """The same questions where some more changes are made, with a bound of their own."""
        beside = self.beside + beside
        return Prover(self.world, self.subject, self.before, most=most, beside=beside, expired=self.expired)

    @property
    def base(self) -> Simulation:
        """The cluster as it is. To be read only."""
        return self.world.base

    def run(self, changes: Changes) -> RunTrial:
        """The run with some changes."""
        if self.is_cut:
            return RunTrial(False, "too many runs")
        self.left -= 1
        try:
            return self.world.ask(self.beside + changes, try_subject(self.subject), RunTrial)
        except MusterError as error:
            return RunTrial(False, str(error))

    def starts(self, changes: Changes) -> bool:
        """Whether the work starts with some changes."""
        return self.run(changes).starts


# Below so small a result every number is tried: sometimes less starts what a little more does not.
_FEW: Final = 4


def least(low: int, high: int, guess: int, starts: Callable[[int], bool]) -> int | None:
    """As `_least`; where the result is small, no number below it starts either."""
    found = _least(low, high, guess, starts)
    if found is None or found - low > _FEW:
        return found
    return next((number for number in range(low + 1, found - 1) if starts(number)), found)


def _least(low: int, high: int, guess: int, starts: Callable[[int], bool]) -> int | None:
    """The smallest number above `low`, at most `high`, that starts; None if `high` does not.

    `low` does not start. What comes out starts, and one less does not: both were tried. `guess` is tried
    first; where it is right, two trials are enough.
    """
    if high <= low:
        return None
    known = False
    if low < guess <= high:
        if starts(guess):
            high, known = guess, True
            if guess - 1 > low:
                if not starts(guess - 1):
                    return guess
                high = guess - 1
        else:
            low = guess
    if high <= low or not (known or starts(high)):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if starts(middle):
            high = middle
        else:
            low = middle
    return high
