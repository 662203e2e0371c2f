"""Nominated pods: those that preempted and wait for their node (capacity reference, rules 4 and 13).

A node may also be kept for a member of a gang that has waited long: nobody was evicted for that, so it has
fewer rights (`Nomination.kept`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.model.names import PODS
from scheduler_core.model.pod import Pod
from scheduler_core.state.affinity_index import wide_repelling
from scheduler_core.state.nodes import NodeTable


class Nomination(msgspec.Struct, frozen=True):
    """A waiting pod, the node kept for it, and the victims (uids) whose end it waits for.

    `vector` is the pod's requests, int64 [R] at the time. `kept`: the node is kept for a gang because time
    passed, not because anybody was evicted for it. `group` is the key of the gang for whose start as a whole
    the node was found; its members do not stand in each other's way. `priority` is that of the pod, or of the
    most important of those members: none of them starts without the others.
    """

    pod: Pod
    node: str
    vector: Int64
    victims: frozenset[str] = frozenset()
    kept: bool = False
    group: str = ""
    priority: int = 0

    @property
    def rank(self) -> tuple[int, float, str]:
        """The order of nominated pods of which neither has a better right: the same after a restart."""
        return -self.priority, self.pod.created, self.pod.key

    @property
    def standing(self) -> Standing:
        """What decides whether it goes before another pod."""
        return Standing(self.pod.namespace, self.priority, self.kept, self.group)


class Standing(NamedTuple):
    """Nominated pods that have the same rights towards others."""

    namespace: str
    priority: int
    kept: bool
    group: str


class Nominations:
    """Who waits for which node, by the pod's uid.

    A nominated pod that holds a node meanwhile (assumed, or placed in a trial) is out of all sums and lists
    until it is taken off again. `freed` says that room was given up, `added` which nodes were nominated since
    somebody last looked, `touched` for which gangs as a whole something is nominated, or not any more.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._by_uid: dict[str, Nomination] = {}
        self._by_node: dict[str, set[str]] = {}
        self._held: set[str] = set()
        self.freed = False
        self.added: dict[str, Nomination] = {}
        self.touched: set[str] = set()
        # The same as long as the same nodes are nominated with the same rights.
        self.digest = 0
        # What was found out about the sums while they, and the ledger, were those of a version.
        self.version = 0
        self.known: tuple[tuple[int, int], dict[Any, Any]] = ((-1, -1), {})
        self._ours: set[str] = set()
        # Those that wait, by standing, and what they will charge to a quota.
        self._by_standing: dict[Standing, dict[str, Nomination]] = {}
        self._first: dict[Standing, Nomination] = {}
        self.sums: dict[Standing, dict[str, int]] = {}
        # Those that wait and reject pods on other nodes, too; by uid.
        self.repelling: dict[str, Nomination] = {}
        # What they will take of every node [R, N], valid for one layout of the node table.
        self._room: Int64 = np.zeros((0, 0), dtype=np.int64)
        self._layout = -1

    @property
    def uids(self) -> Iterable[str]:
        """Uids of the nominated pods."""
        return self._by_uid.keys()

    def put(
        self,
        pod: Pod,
        node: str,
        vector: Int64,
        victims: frozenset[str] = frozenset(),
        *,
        kept: bool = False,
        group: str = "",
        priority: int | None = None,
        ours: bool = True,
    ) -> None:
        """Nominate a node for a pod, replacing an earlier nomination; not `ours`: another process did.

        `priority` is the pod's unless given.
        """
        right = pod.priority if priority is None else priority
        before, freed = self._by_uid.get(pod.uid), self.freed
        self.remove(pod.uid)
        if before is not None and (before.node, before.kept) == (node, kept):
            self.freed = freed or not np.array_equal(before.vector, vector)
        item = self._by_uid[pod.uid] = Nomination(pod, node, vector, victims, kept, group, right)
        self.digest ^= hash((pod.uid, node, item.standing))
        if before is None or before.node != node:
            self.added[pod.uid] = item
        if ours:
            self._ours.add(pod.uid)
        self._by_node.setdefault(node, set()).add(pod.uid)
        self._count(item, 1)

    def put_gang(
        self,
        group: str,
        seats: Collection[tuple[Pod, str, Int64]],
        victims: frozenset[str] = frozenset(),
        *,
        kept: bool,
    ) -> None:
        """Nominate the nodes that were found for a gang as a whole: members, node names, int64 [R] each.

        What was found before for other members is given up.
        """
        seated = {pod.uid for pod, _, _ in seats}
        found_before = {item.pod.uid for item in self.waiting(lambda standing: standing.group == group)}
        for uid in found_before - seated:
            self.remove(uid)
        top = max((pod.priority for pod, _, _ in seats), default=0)
        for pod, node, vector in seats:
            self.put(pod, node, vector, victims, kept=kept, group=group, priority=top)

    def remove(self, uid: str) -> None:
        """The pod was placed, is gone, or no longer waits for its node."""
        item = self._by_uid.pop(uid, None)
        if item is None:
            return
        self.digest ^= hash((uid, item.node, item.standing))
        self.added.pop(uid, None)
        on_node = self._by_node[item.node]
        on_node.discard(uid)
        if not on_node:
            del self._by_node[item.node]
        if uid in self._held:
            self._held.discard(uid)
        else:
            self._count(item, -1)
            self.freed = True

    def remove_group(self, group: str) -> None:
        """The nodes that were found for a gang as a whole are not waited for any more."""
        for uid in [uid for uid, item in self._by_uid.items() if item.group == group]:
            self.remove(uid)

    def was_ours(self, uid: str) -> bool:
        """Whether the pod was ever nominated here, since it is known."""
        return uid in self._ours

    def forget(self, uid: str) -> None:
        """The pod is gone, or it holds its node for good."""
        item = self._by_uid.get(uid)
        self.remove(uid)
        self._ours.discard(uid)
        if item is not None and item.group and item.pod.priority == item.priority:
            self._rank_anew(item.standing)

    def _rank_anew(self, standing: Standing) -> None:
        """The most important of some members that wait may be gone: the others have no right of its own."""
        left = self._by_standing.get(standing, {})
        if not left or any(item.pod.priority == standing.priority for item in left.values()):
            return
        top = max(item.pod.priority for item in left.values())
        for item in list(left.values()):
            self.put(
                item.pod,
                item.node,
                item.vector,
                item.victims,
                kept=item.kept,
                group=item.group,
                priority=top,
                ours=self.was_ours(item.pod.uid),
            )
        self.freed = True

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
        key = item.standing
        self.version += 1
        if key.group:
            self.touched.add(key.group)
        self._first.pop(key, None)
        sums = self.sums.setdefault(key, {})
        for name, value in (*item.pod.requests.items(), (PODS, 1)):
            sums[name] = sums.get(name, 0) + sign * value
        waiting = self._by_standing.setdefault(key, {})
        if sign > 0:
            waiting[item.pod.uid] = item
        else:
            del waiting[item.pod.uid]
        if item.pod.pod_anti_affinity.required and wide_repelling(item.pod):
            if sign > 0:
                self.repelling[item.pod.uid] = item
            else:
                del self.repelling[item.pod.uid]
        if not waiting:
            del self.sums[key], self._by_standing[key]
        if self._layout == self._nodes.layout and len(item.vector) <= len(self._room):
            self._reserve(self._room, item, sign)
        else:
            self._layout = -1

    def _reserve(self, room: Int64, item: Nomination, sign: int) -> None:
        slot = self._nodes.slot(item.node)
        if slot is not None:
            room[: len(item.vector), slot] += sign * item.vector

    def room(self, without: Iterable[Nomination]) -> Int64:
        """int64 [R, N]: what nominated pods that wait will take of every node, some left out. Read only."""
        room, left_out = self._all_room(), {item.pod.uid: item for item in without}
        if not left_out:
            return room
        if 2 * len(left_out) <= len(self._by_uid) - len(self._held):
            room = room.copy()
            for item in left_out.values():
                self._reserve(room, item, -1)
            return room
        # Most are left out: the others are fewer.
        room = np.zeros_like(room)
        for uid in self._by_uid.keys() - self._held - left_out.keys():
            self._reserve(room, self._by_uid[uid], 1)
        return room

    def waiting(self, chosen: Callable[[Standing], bool]) -> Iterator[Nomination]:
        """Nominations that count, of the standings for which `chosen` holds."""
        return (item for key, items in self._by_standing.items() if chosen(key) for item in items.values())

    def first(self, standing: Standing) -> Nomination:
        """The first by rank of those that count and have this standing; there must be one."""
        found = self._first.get(standing)
        if found is None:
            items = self._by_standing[standing].values()
            found = self._first[standing] = min(items, key=lambda item: item.rank)
        return found

    def of_group(self, group: str) -> tuple[Nomination, ...]:
        """What counts of the nominations for a gang as a whole, by the pods' uids."""
        found = self.waiting(lambda standing: standing.group == group)
        return tuple(sorted(found, key=lambda item: item.pod.uid))

    def _all_room(self) -> Int64:
        nodes = self._nodes
        shape = (len(nodes.index), nodes.size)
        if self._layout != nodes.layout or self._room.shape != shape:
            self._room = np.zeros(shape, dtype=np.int64)  # [R, N]
            self._layout = nodes.layout
            for items in self._by_standing.values():
                for item in items.values():
                    self._reserve(self._room, item, 1)
        return self._room

    def check(self) -> list[str]:
        """Whether what is kept of every node is the sum over those that wait, in words."""
        known = self._all_room().copy()
        self._layout = -1
        fresh = self._all_room()
        return [] if np.array_equal(known, fresh) else [f"nominated pods take {fresh}, known is {known}"]

    def get(self, uid: str) -> Nomination | None:
        """The pod's nomination, if it has one."""
        return self._by_uid.get(uid)

    def node_of(self, uid: str) -> str:
        """The node that is kept for the pod, empty for none."""
        item = self._by_uid.get(uid)
        return item.node if item is not None else ""

    def counts(self, uid: str) -> bool:
        """Whether the pod's nomination is in the sums."""
        return uid in self._by_uid and uid not in self._held

    def others(self, pod: Pod) -> Iterator[Nomination]:
        """Nominations of all other pods that wait."""
        held = self._held
        return (item for uid, item in self._by_uid.items() if uid != pod.uid and uid not in held)

    def on_node(self, node: str, besides: Pod | None = None) -> list[Nomination]:
        """Nominations of waiting pods for one node, without the pod that is asked for."""
        uids = sorted(self._by_node.get(node, ()))
        own = besides.uid if besides is not None else ""
        return [self._by_uid[uid] for uid in uids if uid != own and uid not in self._held]

    def __len__(self) -> int:
        return len(self._by_uid)
