"""Nominated pods: those that preempted and wait for their node (capacity reference, rules 4 and 13)."""

from __future__ import annotations

from collections.abc import Container, Iterator

import msgspec

from scheduler_core.model.pod import Pod


class Nomination(msgspec.Struct, frozen=True):
    """A waiting pod, the node kept for it, and the victims (uids) whose end it waits for."""

    pod: Pod
    node: str
    victims: frozenset[str] = frozenset()


class Nominations:
    """Who waits for which node, by the pod's uid."""

    def __init__(self) -> None:
        self._by_uid: dict[str, Nomination] = {}
        self.version = 0

    def put(self, pod: Pod, node: str, victims: frozenset[str] = frozenset()) -> None:
        """Nominate a node for a pod, replacing an earlier nomination."""
        self._by_uid[pod.uid] = Nomination(pod, node, victims)
        self.version += 1

    def refresh(self, pod: Pod) -> None:
        """A newer form of a waiting pod: keep what we decided; believe the API about what we do not know."""
        known = self._by_uid.get(pod.uid)
        if known is not None:
            self._by_uid[pod.uid] = Nomination(pod, known.node, known.victims)
        elif pod.nominated_node:
            self.put(pod, pod.nominated_node)

    def remove(self, uid: str) -> None:
        """The pod was placed, is gone, or no longer waits for its node."""
        if self._by_uid.pop(uid, None) is not None:
            self.version += 1

    def get(self, uid: str) -> Nomination | None:
        """The pod's nomination, if it has one."""
        return self._by_uid.get(uid)

    def others(self, pod: Pod, placed: Container[str] = ()) -> Iterator[Nomination]:
        """Nominations of all other pods, without those that have been placed meanwhile."""
        return (item for uid, item in self._by_uid.items() if uid != pod.uid and uid not in placed)

    def __len__(self) -> int:
        return len(self._by_uid)
