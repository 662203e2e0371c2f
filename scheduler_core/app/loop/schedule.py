"""When the parts of the loop have work next, and which of them has work for ever and does none of it.

A part says when its next work is due, and after its turn this moment has moved or is gone. A part that
leaves the same moment of the past behind, turn after turn, has a fault. So has one whose moment moves but
stays in the past, if its turns bring nothing about for a minute: one with much work is due for as long, but
does some of it in each turn. The loop must not run without a pause for a part with a fault, and nobody else
may wait: it still has its turns with all others, but none of its own sooner than a second after the last, and
it is named.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from scheduler_core.logs import fields
from scheduler_core.state.due_times import earliest

log = logging.getLogger(__name__)

# A part is stuck after so many turns in a row that left its moment where it was.
STUCK_TURNS: Final = 10
# And after so many seconds of turns that bring nothing about, each of which left it due.
RESTLESS_SECONDS: Final = 60.0
# The pause before the next turn of a part that is stuck.
FLOOR_SECONDS: Final = 1.0

NextTime = Callable[[], float | None]


class Report(Protocol):
    """Is told whether a part is stuck."""

    def __call__(self, part: str, /, *, stuck: bool) -> None: ...


def _at_any_time() -> float:
    return 0.0


class _Part:
    """One part: `turn` is the time of a turn that it had since it was last looked at, and `worked` says
    whether it brought something about.

    `still`: the turns in a row that left its moment where it was. `idle`: those that left it due and brought
    nothing about, the first of them at `idle_since`.
    """

    def __init__(self, next_time: NextTime, not_before: Callable[[], float]) -> None:
        self._next_time = next_time
        self._not_before = not_before
        self.turn: float | None = None
        self.worked = False
        self.left: float | None = None
        self.still = 0
        self.idle = 0
        self._idle_since = 0.0
        self._restless = False
        self._floor = 0.0

    def look(self) -> float | None:
        """The next time, and a count of the turns that changed nothing."""
        moment = self._next_time()
        if self.turn is not None:
            overdue = moment is not None and moment <= self.turn
            self.still = self.still + 1 if overdue and moment == self.left else 0
            self._count_idle(self.turn, idle=overdue and not self.worked)
            self._floor = self.turn + FLOOR_SECONDS
            self.left, self.turn, self.worked = moment, None, False
        if moment is None:
            return None
        return max(moment, self._not_before(), self._floor if self.is_stuck else moment)

    def _count_idle(self, turn: float, *, idle: bool) -> None:
        self.idle = self.idle + 1 if idle else 0
        if self.idle <= 1:
            self._idle_since = turn
        # Seconds alone may pass between two turns, where the machine slept.
        self._restless = self.idle > STUCK_TURNS and turn - self._idle_since >= RESTLESS_SECONDS

    @property
    def is_stuck(self) -> bool:
        return self.still >= STUCK_TURNS or self._restless


class Schedule:
    """The parts of the loop by name. For the loop's thread, but `stuck` may be read by any.

    `report` is told of each part whether it is stuck: when it is added, and when that changes.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._parts: dict[str, _Part] = {}
        self.stuck: tuple[str, ...] = ()

    def add(self, name: str, next_time: NextTime, not_before: Callable[[], float] = _at_any_time) -> None:
        """Add a part. It has work at `next_time`, and its turn comes no sooner than `not_before`; both in
        seconds. Raises ValueError for a second part of a name.
        """
        if name in self._parts:
            raise ValueError(f"the loop has two parts named {name!r}")
        self._parts[name] = _Part(next_time, not_before)
        self._report(name, stuck=False)

    def had_turn(self, names: Iterable[str], now: float) -> None:
        """Parts had their turn at a time: what was due then is done."""
        for name in names:
            self._parts[name].turn = now

    def worked(self, name: str) -> None:
        """The turn of a part brought something about: if the part is due again, it has more to do."""
        self._parts[name].worked = True

    def next_time(self) -> float | None:
        """When the next turn of any part is due, or None."""
        return earliest(*(self._look(name, part) for name, part in self._parts.items()))

    def _look(self, name: str, part: _Part) -> float | None:
        before = part.is_stuck
        moment = part.look()
        if part.is_stuck != before:
            self.stuck = tuple(name for name, part in self._parts.items() if part.is_stuck)
            self._report(name, stuck=part.is_stuck)
            if part.is_stuck:
                text = "a part of the loop is stuck: it is due, and its turns bring nothing about"
                log.warning(text, extra=fields(part=name, due=part.left, turns=max(part.still, part.idle)))
            else:
                log.info("a part of the loop goes on", extra=fields(part=name))
        return moment
