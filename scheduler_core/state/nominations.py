"""Nominated pods: pods that preempted and wait for their node, as in `status.nominatedNodeName`.

See docs/gangs.md#kept-nodes-and-guarantees for nodes that are kept for gangs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import msgspec
import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.model.names import PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.state.neighbours.affinity_index import wide_repelling
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.nominated_neighbours import NominatedNeighbours
from scheduler_core.state.nomination import Nomination, NominationRights


class Nominations:
    """Nominations by the pod's uid.

    A nominated pod that holds a node (assumed, or placed in a trial) is in no sum or list until it is removed
    from the node. `freed`: room was given up. `added`: nominations since this was last cleared. `touched`:
    gangs whose nominations as a whole changed.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._by_uid: dict[str, Nomination] = {}
        self._by_node: dict[str, set[str]] = {}
        self._held: set[str] = set()
        self.freed = False
        self.added: dict[str, Nomination] = {}
        self.touched: set[str] = set()
        # Equal while the same nodes are nominated with the same rights.
        self.digest = 0
        self.version = 0
        # See `cache`.
        self._cached: tuple[tuple[int, int, int], dict[Any, Any]] = ((-1, -1, -1), {})
        # Results about nominations that count and their charges alone, empty after a change of them.
        self.in_line: dict[Any, Any] = {}
        self._ours: set[str] = set()
        # Nominations that count, by rights, and what they will charge to a quota.
        self._by_rights: dict[NominationRights, dict[str, Nomination]] = {}
        self._first: dict[NominationRights, Nomination] = {}
        self.sums: dict[NominationRights, dict[str, int]] = {}
        # Nominations that count and whose anti-affinity reaches other nodes, by uid.
        self.repelling: dict[str, Nomination] = {}
        self.neighbours = NominatedNeighbours(nodes)
        # Room for them on every node [R, N], valid for one layout of the node table.
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
        """Nominate a node for a pod, replacing an earlier nomination.

        `priority` is by default that of the pod. `ours` is False if another process nominated the node.
        """
        right = pod.priority if priority is None else priority
        before, freed = self._by_uid.get(pod.uid), self.freed
        self.remove(pod.uid)
        if before is not None and (before.node, before.kept) == (node, kept):
            self.freed = freed or not np.array_equal(before.vector, vector)
        charge = self._charge(pod, node)
        item = Nomination(pod, node, vector, victims, kept, group, right, charge)
        self._by_uid[pod.uid] = item
        self.digest ^= hash((pod.uid, node, item.rights))
        if before is None or before.node != node:
            self.added[pod.uid] = item
        if ours:
            self._ours.add(pod.uid)
        self._by_node.setdefault(node, set()).add(pod.uid)
        self._count(item, 1)

    def _charge(self, pod: Pod, node: str) -> ResourceList:
        return self._nodes.flavors.charge(pod.requests, self._nodes.slot(node))

    def recharge(self, node: str) -> bool:
        """Charge the nominated pods of a node by its flavors as they are now; whether there are any."""
        uids = self._by_node.get(node, ())
        for uid in uids:
            item = self._by_uid[uid]
            made = msgspec.structs.replace(item, charge=self._charge(item.pod, node))
            self._by_uid[uid] = made
            if uid in self.added:
                self.added[uid] = made
            if uid not in self._held:
                self._count(item, -1)
                self._count(made, 1)
        return bool(uids)

    def put_gang(
        self,
        group: str,
        members: Collection[tuple[Pod, str, Int64]],
        victims: frozenset[str] = frozenset(),
        *,
        kept: bool,
    ) -> None:
        """Nominate nodes for a gang as a whole: (member, node name, requests int64 [R]) each.

        Earlier nominations of other members for the gang as a whole are removed.
        """
        uids = {pod.uid for pod, _, _ in members}
        found_before = {item.pod.uid for item in self.waiting(lambda rights: rights.group == group)}
        for uid in found_before - uids:
            self.remove(uid)
        top = max((pod.priority for pod, _, _ in members), default=0)
        for pod, node, vector in members:
            self.put(pod, node, vector, victims, kept=kept, group=group, priority=top)

    def remove(self, uid: str) -> None:
        """Remove a nomination: the pod was placed, is gone, or no longer waits for its node."""
        item = self._by_uid.pop(uid, None)
        if item is None:
            return
        self.digest ^= hash((uid, item.node, item.rights))
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
        """Remove the nominations of a gang as a whole."""
        for uid in [uid for uid, item in self._by_uid.items() if item.group == group]:
            self.remove(uid)

    def was_ours(self, uid: str) -> bool:
        """Whether this process has nominated the pod since the pod became known."""
        return uid in self._ours

    def forget(self, uid: str) -> None:
        """The pod is gone, or it holds its node for good."""
        item = self._by_uid.get(uid)
        self.remove(uid)
        self._ours.discard(uid)
        if item is not None and item.group and item.pod.priority == item.priority:
            self._rank_anew(item.rights)

    def _rank_anew(self, rights: NominationRights) -> None:
        """Recompute the priority of a gang's nominations after its most important member may be gone."""
        left = self._by_rights.get(rights, {})
        if not left or any(item.pod.priority == rights.priority for item in left.values()):
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
        """The pod holds a node now: its nomination does not count."""
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
        key = item.rights
        self.version += 1
        self.in_line.clear()
        if key.group:
            self.touched.add(key.group)
        self._first.pop(key, None)
        sums = self.sums.setdefault(key, {})
        for name, value in (*item.charge.items(), (PODS, 1)):
            sums[name] = sums.get(name, 0) + sign * value
        waiting = self._by_rights.setdefault(key, {})
        if sign > 0:
            waiting[item.pod.uid] = item
        else:
            del waiting[item.pod.uid]
        if item.pod.pod_anti_affinity.required and wide_repelling(item.pod):
            if sign > 0:
                self.repelling[item.pod.uid] = item
            else:
                del self.repelling[item.pod.uid]
        self.neighbours.change(item, sign)
        if not waiting:
            del self.sums[key], self._by_rights[key]
        if self._layout == self._nodes.layout and len(item.vector) <= len(self._room):
            self._reserve(self._room, item, sign)
        else:
            self._layout = -1

    def _reserve(self, room: Int64, item: Nomination, sign: int) -> None:
        slot = self._nodes.slot(item.node)
        if slot is not None:
            room[: len(item.vector), slot] += sign * item.vector

    def cache(self, ledger: int) -> dict[Any, Any]:
        """Results about the sums, empty after a change of them, of nodes, or of the version of the ledger."""
        now = (ledger, self.version, self._nodes.static_changes.position)
        if self._cached[0] != now:
            self._cached = (now, {})
        return self._cached[1]

    def room(self, without: Iterable[Nomination]) -> Int64:
        """int64 [R, N]: room for nominated pods on every node, without some of them. Read only."""
        room, left_out = self._all_room(), {item.pod.uid: item for item in without}
        if not left_out:
            return room
        if 2 * len(left_out) <= len(self._by_uid) - len(self._held):
            room = room.copy()
            for item in left_out.values():
                self._reserve(room, item, -1)
            return room
        # Most are left out: sum the others instead.
        room = np.zeros_like(room)
        for uid in self._by_uid.keys() - self._held - left_out.keys():
            self._reserve(room, self._by_uid[uid], 1)
        return room

    def waiting(self, chosen: Callable[[NominationRights], bool]) -> Iterator[Nomination]:
        """Nominations that count, of the rights for which `chosen` is true."""
        return (item for key, items in self._by_rights.items() if chosen(key) for item in items.values())

    def with_rights(self, rights: NominationRights) -> list[Nomination]:
        """The nominations that count with exactly these rights."""
        return list(self._by_rights.get(rights, {}).values())

    def first(self, rights: NominationRights) -> Nomination:
        """The first by rank of the nominations that count with these rights; there must be one."""
        found = self._first.get(rights)
        if found is None:
            items = self._by_rights[rights].values()
            found = self._first[rights] = min(items, key=lambda item: item.rank)
        return found

    def of_group(self, group: str) -> tuple[Nomination, ...]:
        """The nominations that count for a gang as a whole, in the order of the pods' uids."""
        found = self.waiting(lambda rights: rights.group == group)
        return tuple(sorted(found, key=lambda item: item.pod.uid))

    def _all_room(self) -> Int64:
        nodes = self._nodes
        shape = (len(nodes.index), nodes.size)
        if self._layout != nodes.layout or self._room.shape != shape:
            self._room = np.zeros(shape, dtype=np.int64)  # [R, N]
            self._layout = nodes.layout
            for items in self._by_rights.values():
                for item in items.values():
                    self._reserve(self._room, item, 1)
        return self._room

    def check(self) -> list[str]:
        """Broken invariants in words: the room on every node equals the sum over the nominations."""
        known = self._all_room().copy()
        self._layout = -1
        fresh = self._all_room()
        room = [] if np.array_equal(known, fresh) else [f"nominated pods take {fresh}, known is {known}"]
        return [*room, *self.neighbours.check(self.waiting(lambda _: True))]

    def get(self, uid: str) -> Nomination | None:
        """The pod's nomination, if it has one."""
        return self._by_uid.get(uid)

    def node_of(self, uid: str) -> str:
        """The nominated node of the pod, empty for none."""
        item = self._by_uid.get(uid)
        return item.node if item is not None else ""

    def counts(self, uid: str) -> bool:
        """Whether the pod's nomination is in the sums."""
        return uid in self._by_uid and uid not in self._held

    def others(self, pod: Pod) -> Iterator[Nomination]:
        """Nominations that count of all other pods."""
        held = self._held
        return (item for uid, item in self._by_uid.items() if uid != pod.uid and uid not in held)

    def on_node(self, node: str, besides: Pod | None = None) -> list[Nomination]:
        """Nominations that count for one node, without that of the pod `besides`."""
        uids = sorted(self._by_node.get(node, ()))
        own = besides.uid if besides is not None else ""
        return [self._by_uid[uid] for uid in uids if uid != own and uid not in self._held]

    def __len__(self) -> int:
        return len(self._by_uid)
