"""Whose wait helps no more since others were nominated: a slow reading of what nodes and quotas can hold."""

from __future__ import annotations

import random
from dataclasses import dataclass

from scheduler_core.framework.nominations.stale_nominations import stale_nominations
from scheduler_core.framework.preemption.eligibility import awaited
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.gang_scheduler import GangScheduler, evicted

Sizes = tuple[int, int]


@dataclass(frozen=True)
class Nominee:
    name: str
    namespace: str
    sizes: Sizes
    node: str
    kept: bool


@dataclass(frozen=True)
class Given:
    """Nodes by room, what stays and what leaves (on n0) per namespace, quotas by (min, max), nominees.

    None for a resource that a min or max does not name. The first `old` nominations were looked at before.
    """

    rooms: dict[str, Sizes]
    quotas: dict[str, tuple[tuple[int | None, int | None], tuple[int | None, int | None]]]
    stays: dict[str, Sizes]
    leaves: dict[str, Sizes]
    nominees: tuple[Nominee, ...]
    old: int

    def state(self) -> ClusterState:
        state = ClusterState()
        for name, (cpu, memory) in self.rooms.items():
            state.put_node(make_node(name).allocatable(cpu=cpu, memory=memory, gpu=1).obj())
        for name, (low, high) in self.quotas.items():
            made = make_quota(f"{name}/q").min(**_listed(low)).max(**_listed(high))
            state.put_quota(made.obj())
        for kind, used in (("stays", self.stays), ("leaves", self.leaves)):
            for name, sizes in used.items():
                pod = make_pod(f"{name}/{kind}").uid(f"{name}-{kind}").on("n0").requests(**_listed(sizes))
                state.put_pod((pod.deleting(1.0) if kind == "leaves" else pod).obj())
        for place, item in enumerate(self.nominees):
            if place == self.old:
                state.nominations.added.clear()
            state.put_pod(
                make_pod(f"{item.namespace}/{item.name}").uid(item.name).requests(**_listed(item.sizes)).obj()
            )
            pod_ = state.pods[item.name]
            state.nominations.put(pod_, item.node, state.vector(pod_), kept=item.kept)
        if self.old == len(self.nominees):
            state.nominations.added.clear()
        state.nominations.freed = False
        return state

    def nominated(self, namespaces: list[str], r: int, *, kept: bool) -> int:
        mine = [item for item in self.nominees if item.namespace in namespaces and (kept or not item.kept)]
        return sum(item.sizes[r] for item in mine)

    @property
    def goes_over_min(self) -> bool:
        """Whether the added bring their quota over min, in what is the quota's business at all."""
        paid = [item for item in self.nominees[self.old :] if not item.kept]
        for name, (low, high) in self.quotas.items():
            for r in (0, 1):
                more = sum(item.sizes[r] for item in paid if item.namespace == name)
                named = high[r] is not None or any(other[r] is not None for other, _ in self.quotas.values())
                use = self.stays.get(name, (0, 0))[r] + self.nominated([name], r, kept=False)
                if named and more and use - more <= (low[r] or 0) < use:
                    return True
        return False

    @property
    def overbooked(self) -> bool:
        for r in (0, 1):
            for name, (_, high) in self.quotas.items():
                more, limit = self.nominated([name], r, kept=False), high[r]
                if more and limit is not None and self.stays.get(name, (0, 0))[r] + more > limit:
                    return True
            lows = [low[r] for low, _ in self.quotas.values() if low[r] is not None]
            more = self.nominated(list(self.quotas), r, kept=False)
            used = sum(self.stays.get(name, (0, 0))[r] for name in self.quotas)
            if lows and more and used + more > sum(low or 0 for low in lows):
                return True
            for node, room in self.rooms.items():
                more = sum(item.sizes[r] for item in self.nominees if item.node == node and not item.kept)
                used = sum(sizes[r] for sizes in self.stays.values()) if node == "n0" else 0
                if more and more > room[r] - used:
                    return True
        return False


def _listed(sizes: tuple[int | None, int | None]) -> dict[str, int]:
    return {key: size for key, size in zip(("cpu", "memory"), sizes, strict=True) if size is not None}


def drawn(rng: random.Random) -> Given:
    quotas = {
        name: (
            (rng.randint(0, 6), rng.choice((None, None, 0, 3))),
            (rng.choice((None, 3, 6)), rng.choice((None, 2))),
        )
        for name in ("a", "b")
        if rng.random() < 0.7
    }
    nominees = tuple(
        Nominee(
            f"w{i}",
            rng.choice("aabf"),
            (rng.randint(0, 2), rng.choice((0, 0, 1))),
            rng.choice(("n0", "n1", "gone")),
            rng.random() < 0.3,
        )
        for i in range(rng.randint(1, 4))
    )
    stays = {name: (rng.randint(0, 3), rng.randint(0, 1)) for name in "abf" if rng.random() < 0.6}
    leaves = {name: (rng.randint(0, 3), rng.randint(0, 2)) for name in "abf" if rng.random() < 0.5}
    used = [sum(sizes[r] for held in (stays, leaves) for sizes in held.values()) for r in (0, 1)]
    room = (max(0, used[0] + rng.randint(-2, 4)), max(0, used[1] + rng.randint(-1, 2)))
    return Given(
        {"n0": room, "n1": (rng.randint(0, 6), 9)},
        quotas,
        stays,
        leaves,
        nominees,
        rng.randint(0, len(nominees)),
    )


@every_seed(range(300))
def test_who_is_crowded_out_and_whether_room_is_given_up(seed: int) -> None:
    given = drawn(random.Random(seed))
    state = given.state()
    looked = given.old < len(given.nominees)
    waits_in_vain = [
        item.name for item in given.nominees if not item.kept and not awaited(state, state.pods[item.name])
    ]
    told = f"seed {seed}: {given}"
    found = sorted(pod.name for pod in stale_nominations(state, ()))
    assert found == (waits_in_vain if looked and given.overbooked else []), told
    assert state.nominations.freed is (looked and given.goes_over_min), told
    state.nominations.freed = False
    assert (stale_nominations(state, ()), state.nominations.freed) == ([], False), "nobody came since"


def test_that_room_was_given_up_before_is_not_forgotten() -> None:
    for given in (drawn(random.Random(seed)) for seed in range(10)):
        state = given.state()
        state.nominations.freed = True
        stale_nominations(state, ())
        assert state.nominations.freed


def test_who_has_no_room_below_a_lowered_max_gives_up_the_node() -> None:
    made = GangScheduler([2])
    for quota in (make_quota("l/q").min(cpu=9), make_quota("b/q").min(cpu=0).max(cpu=2)):
        made.scheduler.put(quota.obj(), made.now)
    made.put(make_pod("b/goes").uid("goes").requests(cpu=1).on("n0"))
    made.put(make_pod("b/stays").uid("stays").requests(cpu=1).priority(9).on("n0"))
    made.put(make_pod("b/p").uid("p").requests(cpu=1).priority(5))
    assert evicted(made.step()) == {"goes"}
    made.step(20.0)
    assert not made.step(20.0), "it waits"
    assert made.state.nominations.node_of("p") == "n0"
    made.scheduler.put(make_quota("b/q").min(cpu=0).max(cpu=1).obj(), made.now)
    made.step(20.0)
    assert not made.state.nominations.node_of("p")
