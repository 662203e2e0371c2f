"""Whether what is kept for a gang gives way: every kind of claimant, right, priority, keeper and cause."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from scheduler_core.engine.decisions import Decision
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed
from tests.support.searches import sampled
from tests.support.worlds.objects import pack
from tests.support.worlds.rest import parsed

PATIENCE: Final = 300.0
CLAIMANTS: Final = ("pod", "gang", "topology group")
RIGHTS: Final = ("within min", "borrowing", "no quota")
PRIORITIES: Final = (-5, 0, 5)
CAUSES: Final = ("patience", "deadlines", "pods that leave", "evictions")


class Contest(GangScheduler):
    """Nodes n0 and n1 of 4 CPUs; gang a/g of two members with 3 each has both kept, and 1 CPU of n1 is left.

    Claimants are of namespace `a` or `b` and ask for the 4 CPUs of n1.
    """

    def __init__(self) -> None:
        super().__init__((), parsed(topology=True), g=2)
        for name in ("n0", "n1"):
            node = make_node(name).allocatable(cpu=4).label("zone", "z").label("kubernetes.io/hostname", name)
            self.scheduler.put(node.obj(), self.now)
        # So that the sum of min is never what refuses anybody.
        self.quota("c", 30)

    def quota(self, namespace: str, low: int) -> None:
        self.scheduler.put(make_quota(f"{namespace}/q").min(cpu=low).obj(), self.now)

    def keeps(self, right: str, cause: str) -> None:
        """Let nodes be kept for the gang."""
        if right != "no quota":
            self.quota("a", 6 if right == "within min" else 2)
        blocker = make_pod("f/r").uid("r").requests(cpu=2).on("n0")
        if cause == "evictions" and right == "within min":
            self.quota("d", 0)
            blocker = make_pod("d/r").uid("r").requests(cpu=2).on("n0")
        elif cause == "evictions":
            # The min of 2 does not cover it: else who borrows would spare it.
            blocker = make_pod("a/r").uid("r").requests(cpu=3).priority(-9).on("n0")
        elif cause == "pods that leave":
            blocker = blocker.deleting(5.0)
        elif cause == "deadlines":
            blocker = blocker.priority(99).spec(activeDeadlineSeconds=100).started(self.now)
        else:
            blocker = blocker.priority(99)
        self.put(blocker, member("g0", cpu=3), member("g1", cpu=3))
        gone = evicted(self.step())
        assert gone == ({"r"} if cause == "evictions" else set())
        if cause == "patience":
            self.step(PATIENCE)
        assert {self.state.nominations.node_of(name) for name in ("g0", "g1")} == {"n0", "n1"}

    def claims(self, claimant: str, priority: int, namespace: str = "b") -> list[Decision]:
        """A claimant comes, and everybody is tried."""
        if claimant == "pod":
            self.put(make_pod(f"{namespace}/p0").uid("p0").requests(cpu=4).priority(priority))
            return self.step()
        group = make_group(f"{namespace}/p").uid("p").needs(2).created(5.0)
        if claimant == "topology group":
            group.annotation("muster.dev/topology-constraints", pack("zone", hard=True))
        self.scheduler.put(group.obj(), self.now)
        for name in ("p0", "p1"):
            pod = make_pod(f"{namespace}/{name}").uid(name).requests(cpu=2).priority(priority).group("p")
            self.put(pod.created(5.0))
        return self.step()


@pytest.mark.parametrize(
    ("claimant", "right", "keeper", "cause"),
    sampled((", ".join(case), *case) for case in product(CLAIMANTS, RIGHTS, RIGHTS, CAUSES)),
)
def test_kept_nodes_give_way_to_who_is_within_min_and_to_no_borrower(
    claimant: str, right: str, keeper: str, cause: str
) -> None:
    for priority in PRIORITIES:
        made = Contest()
        if right != "no quota":
            # Of a group that borrows, the first member alone would be within min.
            made.quota("b", 4 if right == "within min" else 2)
        made.keeps(keeper, cause)
        # Whoever is within min, or is under no quota and more important, keeps what it evicted for.
        as_good = keeper == "within min" or (keeper == "no quota" and priority < 0)
        guaranteed = right == "within min" and not (as_good and cause == "evictions")
        among_free = right == keeper == "no quota" and priority > 0
        starts = guaranteed or among_free
        assert bool(placed(made.claims(claimant, priority))) is starts, f"priority {priority}"


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("keeper", RIGHTS)
@pytest.mark.parametrize("claimant", CLAIMANTS)
def test_under_one_quota_priority_alone_decides(claimant: str, keeper: str, cause: str) -> None:
    for priority in PRIORITIES:
        made = Contest()
        made.keeps(keeper, cause)
        starts = bool(placed(made.claims(claimant, priority, "a")))
        assert starts is (priority > 0), f"priority {priority}"


def test_a_leaving_pod_and_the_pod_that_waits_for_it_do_not_both_count_against_a_min() -> None:
    """The sum of min is 6: a's pod of 3 never ends, another one of 3 has its room, and b is guaranteed 3."""
    made = GangScheduler([4, 4])
    for namespace in ("a", "b"):
        made.scheduler.put(make_quota(f"{namespace}/q").min(cpu=3).obj(), made.now)
    made.put(make_pod("a/r").uid("r").requests(cpu=3).priority(-5).on("n0"))
    made.put(make_pod("a/w").uid("w").requests(cpu=3).selector(**{"kubernetes.io/hostname": "n0"}))
    assert evicted(made.step()) == {"r"}
    made.put(make_pod("b/p").uid("p").requests(cpu=3))
    assert placed(made.step()) == {"p": "n1"}
