"""What HTTP extenders have answered, while attempts may use it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from scheduler_core.model.extending import NodesAnswer
from scheduler_core.model.pod import Pod


class Proposal(msgspec.Struct, frozen=True):
    """An attempt would evict these pods on a node, if the extenders agree."""

    pod: Pod
    node: str
    victims: tuple[Pod, ...]


def _nobody(pod: Pod) -> bool:
    return False


class ExtenderAnswers:
    """By the uid of the pod. Nodes that no answer names are closed to it, but while `open` says otherwise.

    `forms`: the pods as they were when the answers came.

    `spared`: names of nodes on which extenders let nobody go for it. `agreed`, by node: the uids that they
    were asked about, and those who may go. `proposed`: what an attempt would do and may not yet. `guards`
    says for which pods they have a say in evictions.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodesAnswer] = {}
        self.forms: dict[str, Pod] = {}
        self.spared: dict[str, set[str]] = {}
        self.agreed: dict[str, dict[str, tuple[frozenset[str], frozenset[str]]]] = {}
        self.proposed: dict[str, tuple[Proposal, ...]] = {}
        self.guards: Callable[[Pod], bool] = _nobody
        self.open = False

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """Meanwhile attempts see the nodes as if there were no extenders."""
        self.open = True
        try:
            yield
        finally:
            self.open = False

    def let(self, uid: str) -> frozenset[str] | None:
        """Names of the nodes that extenders let a pod onto; None where none was asked."""
        answer = self.nodes.get(uid)
        return answer.asked.difference(answer.refused) if answer is not None else None

    def forget(self, uid: str) -> None:
        """What was answered about a pod was used, or is of no use any more."""
        for kept in (self.nodes, self.forms, self.spared, self.agreed, self.proposed):
            kept.pop(uid, None)
