"""Units that wait for answers of HTTP extenders, and those that wait until fewer questions are under way."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import msgspec

from scheduler_core.engine.queue import SchedulingQueue
from scheduler_core.engine.signature import schedules_differently
from scheduler_core.engine.unit import Part, QueuedUnit
from scheduler_core.model.extending import Question
from scheduler_core.model.pod import Pod

# Questions under way for pods that the same extenders are interested in.
MOST_QUESTIONS: Final = 256
# So much may be held of what is gone.
FEW: Final = 64

# A question, and the pods that its answer is true of, as they were when it was asked.
About = tuple[Question, tuple[Pod, ...]]


class Wait(msgspec.Struct):
    """A unit that is parked: its `asked` have no answer yet; `problems` say, by uid, what failed.

    `line` is who is interested in its pods, `attempts` how often it had been tried, `rounds` how often with
    answers for the decision that is being made.
    """

    unit: QueuedUnit
    attempts: int
    line: Hashable
    rounds: int
    asked: dict[int, About]
    problems: dict[str, str] = msgspec.field(default_factory=dict)


class Parked:
    """For the scheduler alone. Units of `queue` by key, in a line in this `order`; questions by number."""

    def __init__(self, queue: SchedulingQueue, order: Callable[[QueuedUnit], Any]) -> None:
        self._queue = queue
        self._order = order
        self._waits: dict[str, Wait] = {}
        self._keys: dict[int, str] = {}
        # Of every question under way, those that nobody waits for any more among them.
        self._line_of: dict[int, Hashable] = {}
        self._under_way: Counter[Hashable] = Counter()
        # Who stands there, in the order of the queue: (sort key, number, key of the unit).
        self._lines: dict[Hashable, list[tuple[Any, int, str]]] = {}
        self._stood = 0
        # Units whose turn in their line came, until they are tried.
        self._called: dict[str, Wait] = {}

    def __len__(self) -> int:
        return len(self._waits)

    def is_full(self, line: Hashable) -> bool:
        """Whether no more may be asked now."""
        return self._under_way[line] >= MOST_QUESTIONS

    def stand_in_line(self, unit: QueuedUnit, line: Hashable, rounds: int, now: float) -> None:
        """Park a unit until more may be asked."""
        self._park(Wait(unit, unit.attempts, line, rounds, {}), now)
        self._stood += 1
        waiting = self._lines.setdefault(line, [])
        heapq.heappush(waiting, (self._order(unit), self._stood, unit.key))
        if len(waiting) > 2 * len(self._queue.units) + FEW:
            # Of those who stood here more than once, each once.
            waiting[:] = {key: (place, number, key) for place, number, key in waiting}.values()
            heapq.heapify(waiting)

    def ask(
        self, unit: QueuedUnit, line: Hashable, rounds: int, asked: Mapping[int, About], now: float
    ) -> None:
        """Park a unit until these have been answered."""
        self._park(Wait(unit, unit.attempts, line, rounds, dict(asked)), now)
        self._under_way[line] += len(asked)
        self._keys.update(dict.fromkeys(asked, unit.key))
        self._line_of.update(dict.fromkeys(asked, line))

    def _park(self, wait: Wait, now: float) -> None:
        self._waits[wait.unit.key] = wait
        self._queue.park(wait.unit, now)
        units = self._queue.units
        if len(self._waits) > 2 * len(units) + FEW:
            # Units that went between their answer and their turn.
            for key in [key for key, item in self._waits.items() if units.get(key) is not item.unit]:
                self._drop(key)

    def waits_on(self, unit: QueuedUnit, now: float) -> bool:
        """Park a unit again whose questions are still what is to be asked; False if there are none."""
        wait = self._waits.get(unit.key)
        if wait is None or wait.unit is not unit or not wait.asked:
            return False
        if any(_is_stale(unit, item) for item, _ in wait.asked.values()):
            return False
        self._park(wait, now)
        return True

    def take(self, unit: QueuedUnit) -> Wait | None:
        """A unit is tried: what is still asked for it, or one of its key before it, is of no use any more.

        Gives what it was parked for.
        """
        self._called.pop(unit.key, None)
        wait = self._drop(unit.key)
        return wait if wait is not None and wait.unit is unit else None

    def _drop(self, key: str) -> Wait | None:
        wait = self._waits.pop(key, None)
        for number in wait.asked if wait is not None else ():
            self._keys.pop(number, None)
        return wait

    def ended(self, number: int) -> tuple[bool, Hashable]:
        """Whether a question was under way, and whose line has a place now."""
        if number not in self._line_of:
            return False, None
        line = self._line_of.pop(number)
        self._under_way[line] -= 1
        return True, line

    def answered(self, number: int) -> tuple[Wait, About] | None:
        """Whom an answer is for, and the question; None where nobody waits for it any more."""
        key = self._keys.pop(number, None)
        wait = self._waits.get(key) if key is not None else None
        return None if wait is None else (wait, wait.asked.pop(number))

    def resume(self, wait: Wait, now: float) -> bool:
        """Let a unit be tried at once, as it has not failed; False where it is gone, or no longer parked."""
        unit = wait.unit
        if self._queue.units.get(unit.key) is not unit or unit.part is not Part.ASKED:
            if self._waits.get(unit.key) is wait and self._queue.units.get(unit.key) is not unit:
                self._drop(unit.key)
            return False
        unit.attempts = 0
        self._queue.activate(unit, now, "Answered")
        # The attempt that is over once it was tried again is counted then.
        unit.attempts = wait.attempts - 1
        return True

    def next_in(self, line: Hashable, now: float) -> None:
        """Let as many go on as may ask now, in the order of the queue."""
        waiting = self._lines.get(line)
        free = MOST_QUESTIONS - self._under_way[line]
        if waiting and free > 0:
            free -= self._number_called(line)
        while waiting and free > 0:
            wait = self._waits.get(heapq.heappop(waiting)[2])
            if wait is not None and not wait.asked and self.resume(wait, now):
                self._called[wait.unit.key] = wait
                free -= 1
        if waiting is not None and not waiting:
            del self._lines[line]
        if not self._under_way[line]:
            del self._under_way[line]

    def _number_called(self, line: Hashable) -> int:
        """How many of a line were called and are still to be tried."""
        units, soon = self._queue.units, (Part.ACTIVE, Part.BACKOFF)
        for key, wait in list(self._called.items()):
            if units.get(key) is not wait.unit or wait.unit.part not in soon:
                del self._called[key]
        return sum(1 for wait in self._called.values() if wait.line == line)


def _is_stale(unit: QueuedUnit, question: Question) -> bool:
    """Whether the pod that a question is about has gone, or is another by now."""
    pod = unit.pods.get(question.pod.uid)
    return pod is None or schedules_differently(question.pod, pod)
