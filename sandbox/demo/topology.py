"""Chapter 12: one group in two racks for availability, another on one server for speed."""

from __future__ import annotations

from collections import Counter
from typing import Final

from sandbox.demo.player import Player, squeeze

FILES: Final = "examples/topology"
_COLUMNS: Final = "RANK POD NODE RACK SERVER HOPS"


def two_users(play: Player) -> None:
    """User A spreads a group over two racks; user B packs a group on one server."""
    play.say("Twelve nodes have different free capacity. A ConfigMap describes their topology.")
    play.do(
        f"kubectl apply -f {FILES}/nodes.yaml -f {FILES}/topology.yaml | tail -1",
        "configmap/cluster-topology created",
    )
    play.say(
        "User A wants eight pods in two equal parts on two racks, and each part on as few nodes as possible.",
        "The ConfigMap of the group contains these constraints; the pods have the name of the group.",
    )
    play.do(f"kubectl apply -f {FILES}/1-two-racks.yaml")
    play.look(
        "kubectl podgroup rank group-a",
        _COLUMNS,
        facts={
            "two racks have four pods each": lambda said: _per_unit(said, "RACK") == [4, 4],
            "three nodes are enough": lambda said: _per_unit(said, "NODE") == [1, 3, 4],
        },
    )
    play.say(
        "User B wants six pods on one server, evenly on its nodes, two to four on each node. server-1 could",
        "take three pods on each of two nodes, server-2 takes two pods on each of three nodes.",
    )
    play.do(f"kubectl apply -f {FILES}/2-one-server.yaml")
    play.look(
        "kubectl podgroup rank group-b",
        _COLUMNS,
        facts={
            "all are on one server": lambda said: _per_unit(said, "SERVER") == [6],
            "three nodes have two pods each": lambda said: _per_unit(said, "NODE") == [2, 2, 2],
        },
    )
    play.say("Each pod has its rank in its labels.")
    play.look(
        "kubectl get pods -l sakkara.group.name=group-b -L sakkara.member.rank,sakkara.member.status",
        *(f"{rank} Bound" for rank in range(6)),
    )


def _per_unit(table: str, column: str) -> list[int]:
    """The number of lines of a printed table with each value of a column, in ascending order."""
    head, *lines = (squeeze(line).split() for line in table.splitlines())
    return sorted(Counter(line[head.index(column)] for line in lines if len(line) == len(head)).values())
