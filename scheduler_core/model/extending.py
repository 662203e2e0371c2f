"""Questions to HTTP extenders and their answers, as values."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler_core.model.pods.pod import Pod


class NodesQuestion(msgspec.Struct, frozen=True):
    """Asks which nodes can run the pod, and for their scores. The answer repeats the unique `number`."""

    number: int
    pod: Pod
    nodes: tuple[str, ...]


class VictimsQuestion(msgspec.Struct, frozen=True):
    """Asks whether these pods, all on one node, may be evicted. `violations`: of disruption budgets."""

    number: int
    pod: Pod
    node: str
    victims: tuple[Pod, ...]
    violations: int = 0


Question = NodesQuestion | VictimsQuestion


class NodeRefusal(msgspec.Struct, frozen=True):
    """The reason why an extender refuses a node. `resolvable`: evictions might help."""

    text: str
    resolvable: bool = True


class NodesAnswer(msgspec.Struct, frozen=True):
    """The answer of the extenders about the nodes in `asked`: the `refused` nodes, and scores to add.

    `scores` are already weighted, and on the scale of a profile's weighted scores. With an `error` the rest
    is empty: an extender that may not be ignored gave no answer.
    """

    number: int
    asked: frozenset[str] = frozenset()
    refused: Mapping[str, NodeRefusal] = msgspec.field(default_factory=dict)
    scores: Mapping[str, int] = msgspec.field(default_factory=dict)
    error: str = ""

    def beside(self, earlier: NodesAnswer) -> NodesAnswer:
        """Both answers: this one, and of the nodes that it does not name the earlier one."""
        return NodesAnswer(
            self.number,
            earlier.asked | self.asked,
            {name: why for name, why in earlier.refused.items() if name not in self.asked}
            | dict(self.refused),
            {name: points for name, points in earlier.scores.items() if name not in self.asked}
            | dict(self.scores),
        )


class VictimsAnswer(msgspec.Struct, frozen=True):
    """The uids of pods that may be evicted; empty: none on this node. `error` as in NodesAnswer."""

    number: int
    uids: frozenset[str] = frozenset()
    error: str = ""


Answer = NodesAnswer | VictimsAnswer
