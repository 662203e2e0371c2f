"""What was said of one pod is true of its equals, as long as nothing happened.

A controller creates thousands of equal pods at once. Where the first finds no node, neither do the others; to
try each of them would cost as much as all the rest of their way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_core.engine.class_cache import ClassCache
from scheduler_core.engine.decisions import Decision, Rejected
from scheduler_core.engine.queue import SchedulingQueue
from scheduler_core.engine.reviews import Reviews
from scheduler_core.engine.signature import usage_signature
from scheduler_core.engine.unit import QueuedUnit
from scheduler_core.engine.waiting import Traits, WaitingClass
from scheduler_core.state.cluster import ClusterState

# With the clock alone answers change too: reports of load expire.
STANDS_FOR_SECONDS: Final = 1.0


class Said(NamedTuple):
    """What was decided of a pod of a class, who refused it, on which cluster, and when."""

    rejected: Rejected
    plugins: frozenset[str]
    version: int
    at: float
    traits: Traits


class KnownRefusals:
    """The last refusals of classes of waiting pods; `traits` finds the class of a pod that waits alone."""

    def __init__(
        self,
        state: ClusterState,
        scores: ClassCache,
        queue: SchedulingQueue,
        reviews: Reviews,
        traits: Callable[[QueuedUnit], Traits],
    ) -> None:
        self._state = state
        self._scores = scores
        self._queue = queue
        self._reviews = reviews
        self._traits = traits

    def of(self, unit: QueuedUnit, now: float) -> Said | None:
        """What to say of a pod that is tried for the first time, if its equals wait; None to try it."""
        if unit.gang or unit.failures or unit.stands_for is not None:
            return None
        (pod,) = unit.pods.values()
        if not self._queue.classes.waiting.of_namespace(pod.namespace):
            return None
        resting = self._queue.classes.resting(self._traits(unit).key)
        said: Said | None = resting.said if resting is not None else None
        if said is None or said.version != self._reviews.version or now >= said.at + STANDS_FOR_SECONDS:
            return None
        return said._replace(rejected=msgspec.structs.replace(said.rejected, pod=pod))

    def learn(self, unit: QueuedUnit, decisions: Sequence[Decision], plugins: frozenset[str]) -> None:
        """A pod was refused, and waits."""
        found = unit.waits_in
        if unit.gang or found is None:
            return
        found.said = None
        if len(decisions) == 1 and isinstance(decisions[0], Rejected):
            said = decisions[0]
            if not said.nominated and not said.writes:
                # Why in every detail is most of what a class of one pod would hold.
                said = msgspec.structs.replace(said, diagnosis=None)
                found.said = Said(said, plugins, self._reviews.version, unit.failed_at, found.traits)
        self._learn_nodes(unit, found)

    def _learn_nodes(self, unit: QueuedUnit, found: WaitingClass) -> None:
        """Note which nodes the class may use at all, where its filters have just been asked."""
        table = self._queue.classes.waiting.table
        row = int(table.kinds[found.row])
        if row < 0:
            return
        (pod,) = unit.pods.values()
        scores = self._scores.get(usage_signature(pod))
        if scores is not None and scores.static.is_current(self._state):
            static = scores.static
            table.nodes.learn(row, (static.serial, static.version), static.ok)
