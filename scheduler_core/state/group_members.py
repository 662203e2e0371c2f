"""Where the members of a group are on the tree, and which rank each has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.model.gang import Gang
from scheduler_core.model.names import FAILED, JOB_COMPLETION_INDEX, SAKKARA_MEMBER_RANK_LABEL
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.rank import Member, order_members
from scheduler_core.topology.tree import Tree, name_key


class Seat(msgspec.Struct, frozen=True):
    """A member with its leaf in the tree."""

    pod: Pod
    leaf: int

    @property
    def member(self) -> Member:
        """As ranks and texts want it."""
        return Member(self.pod.name, self.leaf)


def pod_index(pod: Pod) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    """The order of members: by completion index where a Job numbers its pods, then by name."""
    index = pod.annotations.get(JOB_COMPLETION_INDEX, "")
    return int(index) if index.isdecimal() and len(index) < 10 else 0, name_key(pod.name)


def scheduler_of(state: ClusterState, gang: Gang) -> str:
    """The scheduler name that a group's members ask for; of several the first by name, empty without any."""
    named = {pod.scheduler_name for pod in state.gangs.members(gang.key).values()}
    ours = named & set(state.topology.settings)
    return min(ours or named, default="")


def seats_of(state: ClusterState, gang: Gang, tree: Tree) -> list[Seat]:
    """Members that hold a node of the tree or succeeded there, in pod index order."""
    found: list[Seat] = []
    for uid, pod in state.gangs.members(gang.key).items():
        placement = state.placed.get(uid)
        node = pod.node_name if placement is None else state.nodes.names[placement.slot]
        leaf = tree.leaf_index.get(node, -1)
        if leaf >= 0 and (placement is not None or (pod.finished and pod.phase != FAILED)):
            found.append(Seat(pod if placement is None else placement.pod, leaf))
    return sorted(found, key=lambda seat: pod_index(seat.pod))


def counts_of(tree: Tree, seats: Iterable[Seat]) -> Int64:
    """Members per leaf, int64 [leaves]."""
    counts: Int64 = np.zeros(len(tree.leaves), dtype=np.int64)  # [leaves]
    np.add.at(counts, [seat.leaf for seat in seats], 1)
    return counts


def ranks_of(tree: Tree, seats: Iterable[Seat], given: Mapping[str, int]) -> dict[str, int]:
    """The rank of every member by uid; who has one (in `given` or its label) keeps it.

    A replacement takes a rank that is free, so that members that run and read theirs stay right.
    """
    by_index = sorted(seats, key=lambda seat: pod_index(seat.pod))
    ranks: dict[str, int] = {}
    taken: set[int] = set()
    for seat in by_index:
        label = seat.pod.labels.get(SAKKARA_MEMBER_RANK_LABEL, "")
        known = int(label) if label.isdecimal() and len(label) < 10 else None
        rank = given.get(seat.pod.uid, known)
        if rank is not None and rank not in taken:
            ranks[seat.pod.uid] = rank
            taken.add(rank)
    free = (rank for rank in range(len(by_index) + len(taken)) if rank not in taken)
    uids = {seat.pod.name: seat.pod.uid for seat in by_index}
    for ranked in order_members(tree, [seat.member for seat in by_index]):
        if uids[ranked.pod] not in ranks:
            ranks[uids[ranked.pod]] = next(free)
    return ranks


def in_rank_order(tree: Tree, seats: Iterable[Seat], given: Mapping[str, int]) -> list[tuple[int, Seat]]:
    """The members with their ranks, rank 0 first."""
    seats = list(seats)
    ranks = ranks_of(tree, seats, given)
    return sorted(((ranks[seat.pod.uid], seat) for seat in seats), key=lambda ranked: ranked[0])
