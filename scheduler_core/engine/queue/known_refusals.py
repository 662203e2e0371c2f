"""Reuses the last rejection of a waiting pod for equivalent new pods while the cluster is unchanged.

A controller creates thousands of equal pods at once. If the first finds no node, neither do the others; one
attempt for each of them would cost more than everything else that is done for them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler_core.engine.decisions import Decision, Rejected
from scheduler_core.engine.queue.reviews import WaitingReviews
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import QueuedUnit, Traits, WaitingClass
from scheduler_core.engine.scores.class_cache import ClassCache
from scheduler_core.engine.scores.signature import usage_signature
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.held_quota import HeldAgainst, held_against

# A rejection is reused for this long: answers also change with time, as NodeMetrics expire.
STANDS_FOR_SECONDS: Final = 1.0


class KnownRefusal(NamedTuple):
    """A rejection of a class: the decision, the plugins, the cluster's version, the time and the traits.

    `held` is what the quota held for groups that went before the pod.
    """

    rejected: Rejected
    plugins: frozenset[str]
    version: int
    at: float
    traits: Traits
    held: HeldAgainst


class KnownRefusals:
    """The last rejections of classes of waiting pods; `traits` computes the class of a single pod."""

    def __init__(
        self,
        state: ClusterState,
        scores: ClassCache,
        queue: SchedulingQueue,
        reviews: WaitingReviews,
        traits: Callable[[QueuedUnit], Traits],
    ) -> None:
        self._state = state
        self._scores = scores
        self._queue = queue
        self._reviews = reviews
        self._traits = traits

    def of(self, unit: QueuedUnit, now: float) -> KnownRefusal | None:
        """The rejection of a new pod, if equivalent pods wait; None if the pod must be tried."""
        if unit.gang or unit.failures or unit.stands_for is not None:
            return None
        (pod,) = unit.pods.values()
        if not self._queue.classes.waiting.of_namespace(pod.namespace):
            return None
        resting = self._queue.classes.resting(self._traits(unit).key)
        said: KnownRefusal | None = resting.known_refusal if resting is not None else None
        if said is None or said.version != self._reviews.version or now >= said.at + STANDS_FOR_SECONDS:
            return None
        if held_against(self._state, pod) != said.held:
            return None
        return said._replace(rejected=msgspec.structs.replace(said.rejected, pod=pod))

    def learn(self, unit: QueuedUnit, decisions: Sequence[Decision], plugins: frozenset[str]) -> None:
        """Record the rejection of a pod."""
        found = unit.waits_in
        if unit.gang or found is None:
            return
        found.known_refusal = None
        if len(decisions) == 1 and isinstance(decisions[0], Rejected):
            held = held_against(self._state, decisions[0].pod)
            said = decisions[0]
            if not said.nominated and not said.writes:
                # The diagnosis would be most of the memory of a class with one pod; `refused_by` stays.
                said = msgspec.structs.replace(said, diagnosis=None)
                found.known_refusal = KnownRefusal(
                    said, plugins, self._reviews.version, unit.failed_at, found.traits, held
                )
        self._learn_nodes(unit, found)

    def _learn_nodes(self, unit: QueuedUnit, found: WaitingClass) -> None:
        """Record the nodes that pass the class's STATIC filters, if those are up to date."""
        table = self._queue.classes.waiting.table
        row = int(table.kinds[found.row])
        if row < 0:
            return
        (pod,) = unit.pods.values()
        scores = self._scores.get(usage_signature(pod))
        if scores is not None and scores.static.is_current(self._state):
            static = scores.static
            table.nodes.learn(row, (static.serial, static.version), static.ok)
