"""Placement and ranks of a group's members on the topology tree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import FAILED, JOB_COMPLETION_INDEX, SAKKARA_MEMBER_RANK_LABEL
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.topology.rank import Member, order_members
from scheduler_core.topology.tree import Tree, name_key


class MemberPlacement(msgspec.Struct, frozen=True):
    """A member with its leaf in the tree."""

    pod: Pod
    leaf: int

    @property
    def member(self) -> Member:
        """The member as ranks and messages need it."""
        return Member(self.pod.name, self.leaf)


def pod_index(pod: Pod) -> tuple[int, tuple[tuple[int, int, str], ...]]:
    """The order of members: by completion index where a Job numbers its pods, then by name."""
    index = pod.annotations.get(JOB_COMPLETION_INDEX, "")
    return int(index) if index.isdecimal() and len(index) < 10 else 0, name_key(pod.name)


def scheduler_of(state: ClusterState, gang: Gang) -> str:
    """The scheduler name of a group's members; of several the first by name, empty for none."""
    named = {pod.scheduler_name for pod in state.gangs.members(gang.key).values()}
    ours = named & set(state.topology.settings)
    return min(ours or named, default="")


def placed_members(state: ClusterState, gang: Gang, tree: Tree) -> list[MemberPlacement]:
    """Members that hold a node of the tree or succeeded there, in pod index order."""
    found: list[MemberPlacement] = []
    for uid, pod in state.gangs.members(gang.key).items():
        placement = state.placed.get(uid)
        node = pod.node_name if placement is None else state.nodes.names[placement.slot]
        leaf = tree.leaf_index.get(node, -1)
        if leaf >= 0 and (placement is not None or (pod.finished and pod.phase != FAILED)):
            found.append(MemberPlacement(pod if placement is None else placement.pod, leaf))
    return sorted(found, key=lambda placed: pod_index(placed.pod))


def counts_of(tree: Tree, members: Iterable[MemberPlacement]) -> Int64:
    """Members per leaf, int64 [leaves]."""
    counts: Int64 = np.zeros(len(tree.leaves), dtype=np.int64)  # [leaves]
    np.add.at(counts, [placed.leaf for placed in members], 1)
    return counts


def ranks_of(tree: Tree, members: Iterable[MemberPlacement], given: Mapping[str, int]) -> dict[str, int]:
    """The rank of every member by uid; a member that has one (in `given` or its label) keeps it.

    A replacement takes a free rank, so that the ranks of running members do not change.
    """
    by_index = sorted(members, key=lambda placed: pod_index(placed.pod))
    ranks: dict[str, int] = {}
    taken: set[int] = set()
    for placed in by_index:
        label = placed.pod.labels.get(SAKKARA_MEMBER_RANK_LABEL, "")
        known = int(label) if label.isdecimal() and len(label) < 10 else None
        rank = given.get(placed.pod.uid, known)
        if rank is not None and rank not in taken:
            ranks[placed.pod.uid] = rank
            taken.add(rank)
    free = (rank for rank in range(len(by_index) + len(taken)) if rank not in taken)
    uids = {placed.pod.name: placed.pod.uid for placed in by_index}
    for ranked in order_members(tree, [placed.member for placed in by_index]):
        if uids[ranked.pod] not in ranks:
            ranks[uids[ranked.pod]] = next(free)
    return ranks


def in_rank_order(
    tree: Tree, members: Iterable[MemberPlacement], given: Mapping[str, int]
) -> list[tuple[int, MemberPlacement]]:
    """The members with their ranks, rank 0 first."""
    members = list(members)
    ranks = ranks_of(tree, members, given)
    return sorted(((ranks[placed.pod.uid], placed) for placed in members), key=lambda ranked: ranked[0])
