"""Answers of HTTP extenders, kept until the attempts that use them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from scheduler_core.model.extending import NodesAnswer
from scheduler_core.model.pods.pod import Pod


class Proposal(msgspec.Struct, frozen=True):
    """A preemption of these pods on a node that extenders have not confirmed yet."""

    pod: Pod
    node: str
    victims: tuple[Pod, ...]


class ExtenderAnswers:
    """Answers of extenders by the uid of the pod. Nodes that no answer names are refused, unless `open`.

    `forms`: the pods at the time of the answers. `excluded_nodes`: nodes on which extenders refuse all
    evictions for the pod. `agreed`, by node: the uids that extenders were asked about, and those that may
    be evicted. `proposed`: preemptions that wait for the extenders. `guards` decides for which pods
    extenders take part in preemption.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodesAnswer] = {}
        self.forms: dict[str, Pod] = {}
        self.excluded_nodes: dict[str, set[str]] = {}
        self.agreed: dict[str, dict[str, tuple[frozenset[str], frozenset[str]]]] = {}
        self.proposed: dict[str, tuple[Proposal, ...]] = {}
        self.guards: Callable[[Pod], bool] = lambda pod: False
        self.open = False

    @contextmanager
    def unasked(self) -> Iterator[None]:
        """A context in which attempts see the nodes as if there were no extenders."""
        self.open = True
        try:
            yield
        finally:
            self.open = False

    def let(self, uid: str) -> frozenset[str] | None:
        """Names of the nodes that extenders accept for a pod; None if no extender was asked."""
        answer = self.nodes.get(uid)
        return answer.asked.difference(answer.refused) if answer is not None else None

    def forget(self, uid: str) -> None:
        """Drop the answers about a pod."""
        for kept in (self.nodes, self.forms, self.excluded_nodes, self.agreed, self.proposed):
            kept.pop(uid, None)
