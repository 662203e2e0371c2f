"""Nominated pods: those that preempted and wait for their node (capacity reference, rules 4 and 13)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.model.names import PODS
from scheduler_core.model.pod import Pod


class Nomination(msgspec.Struct, frozen=True):
    """A waiting pod, the node kept for it, and the victims (uids) whose end it waits for.

    `vector` is the pod's requests, int64 [R] at the time.
    """

    pod: Pod
    node: str
    vector: Int64
    victims: frozenset[str] = frozenset()


class Nominations:
    """Who waits for which node, by the pod's uid.

    A nominated pod that holds a node meanwhile (assumed, or placed in a trial) is out of all sums and lists
    until it is taken off again.
    """

    def __init__(self) -> None:
        self._by_uid: dict[str, Nomination] = {}
        self._by_node: dict[str, set[str]] = {}
        self._held: set[str] = set()
        # What the waiting pods of a namespace and priority will charge to a quota.
        self.sums: dict[tuple[str, int], dict[str, int]] = {}

    def put(self, pod: Pod, node: str, vector: Int64, victims: frozenset[str] = frozenset()) -> None:
        """Nominate a node for a pod, replacing an earlier nomination."""
        self.remove(pod.uid)
        item = self._by_uid[pod.uid] = Nomination(pod, node, vector, victims)
        self._by_node.setdefault(node, set()).add(pod.uid)
        self._count(item, 1)

    def remove(self, uid: str) -> None:
        """The pod was placed, is gone, or no longer waits for its node."""
        item = self._by_uid.pop(uid, None)
        if item is None:
            return
        on_node = self._by_node[item.node]
        on_node.discard(uid)
        if not on_node:
            del self._by_node[item.node]
        if uid in self._held:
            self._held.discard(uid)
        else:
            self._count(item, -1)

    def hold(self, uid: str) -> None:
        """The pod was given a node: it counts there."""
        item = self._by_uid.get(uid)
        if item is not None and uid not in self._held:
            self._held.add(uid)
            self._count(item, -1)

    def release(self, uid: str) -> None:
        """Undo `hold`."""
        if uid in self._held:
            self._held.discard(uid)
            self._count(self._by_uid[uid], 1)

    def _count(self, item: Nomination, sign: int) -> None:
        key = (item.pod.namespace, item.pod.priority)
        sums = self.sums.setdefault(key, {})
        for name, value in (*item.pod.requests.items(), (PODS, 1)):
            sums[name] = sums.get(name, 0) + sign * value
        if not sums[PODS]:
            del self.sums[key]

    def get(self, uid: str) -> Nomination | None:
        """The pod's nomination, if it has one."""
        return self._by_uid.get(uid)

    def counts(self, uid: str) -> bool:
        """Whether the pod's nomination is in the sums."""
        return uid in self._by_uid and uid not in self._held

    def others(self, pod: Pod) -> Iterator[Nomination]:
        """Nominations of all other pods that wait."""
        held = self._held
        return (item for uid, item in self._by_uid.items() if uid != pod.uid and uid not in held)

    def on_node(self, node: str, pod: Pod) -> list[Nomination]:
        """Nominations of other waiting pods for one node."""
        uids = sorted(self._by_node.get(node, ()))
        return [self._by_uid[uid] for uid in uids if uid != pod.uid and uid not in self._held]

    def __len__(self) -> int:
        return len(self._by_uid)
