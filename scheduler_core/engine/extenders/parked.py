"""Units parked for HTTP extenders: those that wait for answers, and those that wait to ask."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final

import msgspec

from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import Part, QueuedUnit
from scheduler_core.engine.scores.signature import schedules_differently
from scheduler_core.model.extending import Question
from scheduler_core.model.pods.pod import Pod

# Questions in flight for pods of the same extenders: in all, and of one namespace. An extender answers 16 at
# a time, so pods of others wait for four of its answers.
MOST_QUESTIONS: Final = 256
MOST_OF_A_NAMESPACE: Final = 64
# Stale entries are dropped once there are twice as many entries as units, plus this.
FEW: Final = 64

# A question, and the pods that its answer holds for, as they were when it was asked.
About = tuple[Question, tuple[Pod, ...]]
# The extenders that are asked, and the namespace of the pods.
Line = tuple[Hashable, str]


class Wait(msgspec.Struct):
    """A parked unit. `asked`: open questions by number. `problems`: errors of extenders by pod uid.

    `line`: the extenders interested in its pods. `attempts`: the unit's attempts so far. `rounds`: attempts
    with answers for the current decision.
    """

    unit: QueuedUnit
    attempts: int
    line: Hashable
    rounds: int
    asked: dict[int, About]
    problems: dict[str, str] = msgspec.field(default_factory=dict)


class Parked:
    """Parked units by key (`waits`) and open questions by number.

    Units that wait to ask stand in `lines`, by the extenders that they ask and their namespace, in `order`.
    """

    def __init__(self, queue: SchedulingQueue, order: Callable[[QueuedUnit], Any]) -> None:
        self._queue = queue
        self._order = order
        self.waits: dict[str, Wait] = {}
        self._keys: dict[int, str] = {}
        # The line of every question in flight, including questions whose unit is gone.
        self._line_of: dict[int, Line] = {}
        self._under_way: Counter[Hashable] = Counter()
        self._of_namespaces: Counter[Line] = Counter()
        # Units that wait to ask, in queue order: (sort key, number, key of the unit).
        self.lines: dict[Line, list[tuple[Any, int, str]]] = {}
        # The namespaces that have such units, by the extenders.
        self._namespaces: dict[Hashable, set[str]] = {}
        self._stood = 0
        # Units that were called from their line, until they are tried.
        self._called: dict[str, Wait] = {}

    def is_full(self, line: Hashable, namespace: str) -> bool:
        """Whether a line has the maximum of questions in flight, in all or of a namespace."""
        own = self._of_namespaces[line, namespace]
        return self._under_way[line] >= MOST_QUESTIONS or own >= MOST_OF_A_NAMESPACE

    def stand_in_line(self, unit: QueuedUnit, line: Hashable, rounds: int, now: float) -> None:
        """Park a unit until its line may ask more."""
        self._park(Wait(unit, unit.attempts, line, rounds, {}), now)
        self._stood += 1
        waiting = self.lines.setdefault((line, unit.namespace), [])
        self._namespaces.setdefault(line, set()).add(unit.namespace)
        heapq.heappush(waiting, (self._order(unit), self._stood, unit.key))
        if len(waiting) > 2 * len(self._queue.units) + FEW:
            # Keep one entry per unit.
            waiting[:] = {key: (place, number, key) for place, number, key in waiting}.values()
            heapq.heapify(waiting)

    def ask(
        self, unit: QueuedUnit, line: Hashable, rounds: int, asked: Mapping[int, About], now: float
    ) -> None:
        """Park a unit until these questions are answered."""
        self._park(Wait(unit, unit.attempts, line, rounds, dict(asked)), now)
        self._under_way[line] += len(asked)
        self._of_namespaces[line, unit.namespace] += len(asked)
        self._keys.update(dict.fromkeys(asked, unit.key))
        self._line_of.update(dict.fromkeys(asked, (line, unit.namespace)))

    def _park(self, wait: Wait, now: float) -> None:
        self.waits[wait.unit.key] = wait
        self._queue.park(wait.unit, now)
        units = self._queue.units
        if len(self.waits) > 2 * len(units) + FEW:
            # Units that were removed between their answer and their attempt.
            for key in [key for key, item in self.waits.items() if units.get(key) is not item.unit]:
                self._drop(key)

    def waits_on(self, unit: QueuedUnit, now: float) -> bool:
        """Park a unit again while its open questions still hold; False if it has none."""
        wait = self.waits.get(unit.key)
        if wait is None or wait.unit is not unit or not wait.asked:
            return False
        if any(_is_stale(unit, item) for item, _ in wait.asked.values()):
            return False
        self._park(wait, now)
        return True

    def take(self, unit: QueuedUnit) -> Wait | None:
        """Drop the open questions of a unit that is tried, and of earlier units with its key.

        Gives the unit's Wait, or None.
        """
        self._called.pop(unit.key, None)
        wait = self._drop(unit.key)
        return wait if wait is not None and wait.unit is unit else None

    def _drop(self, key: str) -> Wait | None:
        wait = self.waits.pop(key, None)
        for number in wait.asked if wait is not None else ():
            self._keys.pop(number, None)
        return wait

    def ended(self, number: int) -> tuple[bool, Hashable]:
        """(whether the question was in flight, the line that may ask again)."""
        if number not in self._line_of:
            return False, None
        line = self._line_of.pop(number)
        self._under_way[line[0]] -= 1
        self._of_namespaces[line] -= 1
        if not self._of_namespaces[line]:
            del self._of_namespaces[line]
        return True, line[0]

    def answered(self, number: int) -> tuple[Wait, About] | None:
        """The parked unit and the question of an answer; None if the unit is gone."""
        key = self._keys.pop(number, None)
        wait = self.waits.get(key) if key is not None else None
        return None if wait is None else (wait, wait.asked.pop(number))

    def resume(self, wait: Wait, now: float) -> bool:
        """Requeue a unit without backoff, as it has not failed; False if it is gone or no longer parked."""
        unit = wait.unit
        if self._queue.units.get(unit.key) is not unit or unit.part is not Part.ASKED:
            if self.waits.get(unit.key) is wait and self._queue.units.get(unit.key) is not unit:
                self._drop(unit.key)
            return False
        unit.attempts = 0
        self._queue.activate(unit, now, "Answered")
        # The attempt is counted when the unit is popped again.
        unit.attempts = wait.attempts - 1
        return True

    def next_in(self, line: Hashable, now: float) -> None:
        """Requeue as many units of a line as may ask now, in queue order."""
        free = MOST_QUESTIONS - self._under_way[line]
        if free > 0 and self._namespaces.get(line):
            called = self._called_of(line)
            free -= called.total()
            while free > 0 and (waiting := self._first_in(line, called)) is not None:
                wait = self.waits.get(heapq.heappop(waiting)[2])
                if wait is not None and not wait.asked and self.resume(wait, now):
                    self._called[wait.unit.key] = wait
                    called[wait.unit.namespace] += 1
                    free -= 1
        if not self._under_way[line]:
            del self._under_way[line]

    def _first_in(self, line: Hashable, called: Counter[str]) -> list[tuple[Any, int, str]] | None:
        """The units of the namespace whose first unit is next of those that may ask more; None for none."""
        found: list[tuple[Any, int, str]] | None = None
        for namespace in list(self._namespaces.get(line, ())):
            waiting = self.lines.get((line, namespace))
            if not waiting:
                self._namespaces[line].discard(namespace)
                self.lines.pop((line, namespace), None)
            elif self._of_namespaces[line, namespace] + called[namespace] < MOST_OF_A_NAMESPACE:
                found = waiting if found is None or waiting[0] < found[0] else found
        if not self._namespaces.get(line):
            self._namespaces.pop(line, None)
        return found

    def _called_of(self, line: Hashable) -> Counter[str]:
        """The number of called units of a line that have not been tried yet, by namespace."""
        units, soon = self._queue.units, (Part.ACTIVE, Part.BACKOFF)
        for key, wait in list(self._called.items()):
            if units.get(key) is not wait.unit or wait.unit.part not in soon:
                del self._called[key]
        return Counter(wait.unit.namespace for wait in self._called.values() if wait.line == line)


def _is_stale(unit: QueuedUnit, question: Question) -> bool:
    """Whether the pod of a question is gone, or schedules differently by now."""
    pod = unit.pods.get(question.pod.uid)
    return pod is None or schedules_differently(question.pod, pod)
