"""The placed members of a group in order of rank, with their addresses and distances to rank 0."""

from __future__ import annotations

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.group_view import GroupView
from scheduler_core.decoding import decode
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import SAKKARA_MEMBER_RANK_LABEL
from scheduler_core.topology.rank import distance


class RankedMember(msgspec.Struct, frozen=True):
    """A placed member. `units`: unit name by level, without the node.

    `hops`: edges to rank 0, None if the topology could not be read.
    """

    rank: int
    pod: str
    node: str
    units: dict[str, str]
    hops: int | None
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
    """The placed members of a group, rank 0 first.

    Without the right to read the topology, their labels give the ranks. Raises CommandFailed if a member has
    no such label.
    """
    unread = view.unknown_topology(gang)
    if unread:
        return _by_labels(view, gang, unread)
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


def _by_labels(view: GroupView, gang: Gang, unread: str) -> list[RankedMember]:
    placed = [pod for pod in view.members(gang) if pod.assigned and not pod.finished]
    labels = {pod.uid: pod.labels.get(SAKKARA_MEMBER_RANK_LABEL, "") for pod in placed}
    if not all(label.isdecimal() for label in labels.values()):
        raise CommandFailed(
            f"{len(placed)} members of {gang.ref} have a node, but their ranks are not known: "
            f"you may not list {unread}, and not every member has the label "
            f"{SAKKARA_MEMBER_RANK_LABEL}"
        )
    return [
        RankedMember(rank, pod.name, pod.node_name, {}, None, _address(view.raw[pod.uid], pod.name))
        for rank, pod in sorted(((int(labels[pod.uid]), pod) for pod in placed), key=lambda pair: pair[0])
    ]


def _address(raw: bytes, name: str) -> str:
    """The name under a headless Service if the pod has one, else its IP, else its own name."""
    found = decode(raw, _Address)
    if found.spec.hostname and found.spec.subdomain:
        return f"{found.spec.hostname}.{found.spec.subdomain}"
    return found.status.podIP or name
