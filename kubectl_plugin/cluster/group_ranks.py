"""The placed members of a group in order of rank, with their addresses and distances to rank 0."""

from __future__ import annotations

import msgspec

from kubectl_plugin.cluster.group_view import GroupView
from scheduler_core.decoding import decode
from scheduler_core.model.groups.gang import Gang
from scheduler_core.topology.rank import distance


class RankedMember(msgspec.Struct, frozen=True):
    """A placed member. `units`: unit name by level, without the node; `hops`: edges to rank 0."""

    rank: int
    pod: str
    node: str
    units: dict[str, str]
    hops: int
    address: str


class _Spec(msgspec.Struct):
    hostname: str = ""
    subdomain: str = ""


class _Status(msgspec.Struct):
    podIP: str = ""


class _Address(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


def ranked_members(view: GroupView, gang: Gang) -> list[RankedMember]:
    """The placed members of a group, rank 0 first."""
    tree, ranked = view.tree(gang), view.ranked(gang)
    home = ranked[0][1].leaf if ranked else 0
    return [
        RankedMember(
            rank,
            member.pod.name,
            tree.leaves[member.leaf],
            dict(zip(tree.levels[:-1], tree.path(member.leaf), strict=False)),
            distance(tree, home, member.leaf) if position else 0,
            _address(view.raw[member.pod.uid], member.pod.name),
        )
        for position, (rank, member) in enumerate(ranked)
    ]


def _address(raw: bytes, name: str) -> str:
    """The name under a headless Service if the pod has one, else its IP, else its own name."""
    found = decode(raw, _Address)
    if found.spec.hostname and found.spec.subdomain:
        return f"{found.spec.hostname}.{found.spec.subdomain}"
    return found.status.podIP or name
