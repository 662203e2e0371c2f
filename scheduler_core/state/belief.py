"""For how long what a ledger of charges says is believed, before its pod is seen.

A charge is written at admission, before its pod is stored. Usually the pod is seen within milliseconds. It
never is where a later check refused it, or where the review was forged. So a charge counts for a time.
Where one came to nothing, the namespace's charges are not believed for a while.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Final

from scheduler_core.model.reservation_ledger import Charge

# A pod is written within a second of its admission and seen at once; a resize likewise.
BELIEVED_SECONDS: Final = 2.0
DOUBTED_SECONDS: Final = 60.0


@dataclass
class Promise:
    """A charge that its pod does not show yet. `stands`: the ledger has it; `met`: the pod was seen."""

    charge: Charge
    deadline: float
    stands: bool = True
    met: bool = False


class Beliefs:
    """Promises by namespace and uid, and the namespaces that are not believed. Times are those of `now`."""

    def __init__(self) -> None:
        self.promises: dict[str, dict[str, Promise]] = {}
        self._deadlines: list[tuple[float, str, str]] = []
        self._doubted: dict[str, float] = {}

    def find(self, namespace: str, uid: str) -> Promise | None:
        """The promise about a pod, if there is one."""
        return self.promises.get(namespace, {}).get(uid)

    def add(self, namespace: str, charge: Charge, now: float, *, met: bool) -> None:
        """A charge is new. One that changes keeps the time that it has."""
        known = self.find(namespace, charge.uid)
        if known is not None:
            known.charge, known.stands = charge, True
            known.met |= met
        elif not now < self._doubted.get(namespace, now) <= now + DOUBTED_SECONDS:
            made = Promise(charge, now + BELIEVED_SECONDS, met=met)
            self.promises.setdefault(namespace, {})[charge.uid] = made
            heapq.heappush(self._deadlines, (made.deadline, namespace, charge.uid))

    def drop(self, namespace: str, uid: str) -> None:
        """The pod shows what was promised, or is gone."""
        of_namespace = self.promises.get(namespace, {})
        of_namespace.pop(uid, None)
        if not of_namespace:
            self.promises.pop(namespace, None)

    def overdue(self, now: float) -> list[tuple[str, str]]:
        """The promises whose time is over: namespace and uid; each is given once."""
        found = []
        while self._next() <= now:
            _, namespace, uid = heapq.heappop(self._deadlines)
            found.append((namespace, uid))
        return found

    def doubt(self, namespace: str, now: float) -> list[str]:
        """Believe nothing of a namespace for a while; the pods (uids) of which something was promised."""
        self._doubted = {name: until for name, until in self._doubted.items() if until > now}
        self._doubted[namespace] = now + DOUBTED_SECONDS
        return list(self.promises.pop(namespace, {}))

    def next_time(self) -> float | None:
        """When the next promise is overdue."""
        deadline = self._next()
        return deadline if deadline < float("inf") else None

    def _next(self) -> float:
        while self._deadlines:
            deadline, namespace, uid = self._deadlines[0]
            promise = self.find(namespace, uid)
            if promise is not None and promise.deadline == deadline:
                return deadline
            heapq.heappop(self._deadlines)
        return float("inf")
