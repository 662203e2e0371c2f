"""Extenders: the answers of HTTP extenders about nodes, as a filter and a score of every profile.

The plugin sends no requests: the answers are in the state before an attempt uses them
(engine.extenders.asking). Profiles get this plugin where the configuration has extenders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.config.schema import Extender
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import Scope
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.status import Bits, Reason
from scheduler_core.framework.view import NodeView
from scheduler_core.model.extending import NodesAnswer
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Bind, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import EventKind

EXTENDERS: Final = "Extenders"
_UNASKED: Final = Reason("node(s) that no extender was asked about")
# If there are more reasons than bits, the rest share the last bit.
_MOST_REASONS: Final = 63
_OTHERS: Final = "node(s) refused by an extender"
# The weight of an extender must not overflow a sum of scores.
_MOST_POINTS: Final = 1 << 40


def is_interested(extender: Extender, pod: Pod) -> bool:
    """Whether the pod asks for a resource that the extender manages; one that manages none takes all."""
    managed = extender.managed_resources
    return not managed or any(item.name in pod.requests or item.name in pod.limits for item in managed)


class _Verdicts(NamedTuple):
    """bits: uint64 [N]; reasons: what they mean."""

    bits: Bits
    reasons: list[Reason]


class Extenders:
    """`extenders` are those of the configuration, in their order."""

    name = EXTENDERS
    scope = Scope.CLUSTER

    def __init__(self, extenders: Sequence[Extender]) -> None:
        self.extenders = tuple(extenders)
        self._asked = tuple(item for item in extenders if item.filter_verb or item.prioritize_verb)
        self._preempting = tuple(item for item in extenders if item.preempt_verb)
        self._binding = tuple(item for item in extenders if item.bind_verb)

    @property
    def accounted_for(self) -> frozenset[str]:
        """Resources that extenders account for; the scheduler treats them as unlimited on every node."""
        managed = (item for extender in self.extenders for item in extender.managed_resources)
        return frozenset(item.name for item in managed if item.ignored_by_scheduler)

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Whether an extender filters or scores nodes for the pod."""
        return any(is_interested(extender, pod) for extender in self._asked)

    def guards(self, pod: Pod) -> bool:
        """Whether an extender takes part in the preemption for the pod."""
        return any(is_interested(extender, pod) for extender in self._preempting)

    def interest(self, pod: Pod) -> tuple[str, ...]:
        """The extenders that are interested in a pod, by URL."""
        return tuple(item.url_prefix for item in self.extenders if is_interested(item, pod))

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]."""
        answers = cycle.state.extending
        if answers.open or not self.concerns(cycle.state, cycle.pod):
            return np.zeros(len(nodes), dtype=np.uint64)
        found: _Verdicts | None = cycle.slots.get(self.name)
        if found is None or len(found.bits) != cycle.state.nodes.size:
            found = cycle.slots[self.name] = _verdicts(cycle, answers.nodes.get(cycle.pod.uid))
        return found.bits[nodes.slots]

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The messages of the extenders."""
        found: _Verdicts | None = cycle.slots.get(self.name)
        return found.reasons if found is not None else [_UNASKED]

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M]: what the extenders add to the weighted scores."""
        points = np.zeros(cycle.state.nodes.size, dtype=np.int64)  # [N]
        answer = cycle.state.extending.nodes.get(cycle.pod.uid)
        for name, value in answer.scores.items() if answer is not None else ():
            slot = cycle.state.nodes.slot(name)
            if slot is not None:
                points[slot] = min(value, _MOST_POINTS)
        return points[nodes.slots]

    def bind(self, cycle: Cycle, slot: int) -> Write | None:
        """The binding, if an extender binds such pods."""
        pod = cycle.pod
        for extender in self._binding:
            if is_interested(extender, pod):
                node = cycle.state.nodes.names[slot]
                return Bind(pod.namespace, pod.name, pod.uid, node, by=extender.url_prefix)
        return None

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Any event: only the extender knows what its answer depends on."""
        return {EventKind.anything(): None}


def _verdicts(cycle: Cycle, answer: NodesAnswer | None) -> _Verdicts:
    """The verdict of an answer about all nodes. During preemption, nodes without an answer pass.

    Refused nodes do not pass: they had enough room, so evictions are not known to help.
    """
    state, hypothetical = cycle.state, cycle.after_leaving
    bits = np.full(state.nodes.size, 0 if hypothetical else 1, dtype=np.uint64)  # [N]
    reasons = [_UNASKED]
    if answer is None:
        return _Verdicts(bits, reasons)
    numbers: dict[tuple[str, bool], int] = {}
    for name in answer.asked:
        slot = state.nodes.slot(name)
        why = answer.refused.get(name)
        if slot is None:
            continue
        if why is None:
            bits[slot] = 0
            continue
        number = numbers.get((why.text, why.resolvable))
        if number is None:
            text = why.text if len(reasons) < _MOST_REASONS - 2 else _OTHERS
            number = numbers.setdefault((text, why.resolvable), len(reasons))
            if number == len(reasons):
                reasons.append(Reason(text, why.resolvable))
            numbers[why.text, why.resolvable] = number
        bits[slot] = 1 << number
    return _Verdicts(bits, reasons)
