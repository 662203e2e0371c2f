"""Where a gang would sit, and from when on, against a reading that looks at every node and every moment."""

from __future__ import annotations

import itertools
import math
import random
from typing import NamedTuple

import numpy as np
import pytest

from scheduler_core.engine.gang.capacity import in_use, leaving
from scheduler_core.engine.gang.members import Members
from scheduler_core.engine.gang.plan import (
    GangPlan,
    PlannedMember,
    ending_on,
    kept_of,
    plan_by_ends,
    plan_of_kept_nodes,
    plan_on_empty,
    still_possible,
)
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.gang_scheduler import GangScheduler, member

NOW = 1000.0


class Running(NamedTuple):
    """A pod on a node: CPUs, memory, when it has ended at the latest (None: nobody knows)."""

    slot: int
    cpu: int
    memory: int
    end: float | None
    leaves: bool = False


class World:
    """Some nodes with running pods, some of which end, leave, or are waited for by others."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.made = GangScheduler()
        self.made.now = NOW
        self.nodes = [(rng.randint(2, 6), rng.randint(2, 6)) for _ in range(rng.randint(1, 4))]
        self.closed = {slot for slot in range(len(self.nodes)) if rng.random() < 0.15}
        for slot, (cpu, memory) in enumerate(self.nodes):
            node = make_node(f"n{slot}").allocatable(cpu=cpu, memory=memory)
            self.made.scheduler.put((node.taint("t") if slot in self.closed else node).obj(), NOW)
        self.running = [self._run(number) for number in range(rng.randint(0, 5))]
        self.paid = [self._nominate(number) for number in range(rng.randint(0, 2))]

    def _run(self, number: int) -> Running:
        rng = self.rng
        slot, cpu, memory = rng.randrange(len(self.nodes)), rng.randint(1, 3), rng.randint(0, 3)
        pod = make_pod(f"f/x{number}").uid(f"x{number}").requests(cpu=cpu, memory=memory).on(f"n{slot}")
        started, lasts = NOW - rng.randint(0, 40), rng.randint(10, 90)
        end, leaves = None, False
        match rng.randrange(4):
            case 0:
                end, leaves = NOW, True
                pod.deleting(5.0)
            case 1 | 2:
                end = max(NOW, started + lasts)
                pod.started(started).spec(activeDeadlineSeconds=lasts)
        self.made.put(pod)
        return Running(slot, cpu, memory, end, leaves)

    def _nominate(self, number: int) -> Running:
        """A pod of others that waits for a node: with victims of its own, or for a gang that is kept one."""
        rng = self.rng
        slot, cpu, memory = rng.randrange(len(self.nodes)), rng.randint(1, 2), rng.randint(0, 2)
        pod = make_pod(f"f/w{number}").uid(f"w{number}").requests(cpu=cpu, memory=memory).obj()
        kept = rng.random() < 0.5
        state = self.made.state
        state.nominations.put(pod, f"n{slot}", state.vector(pod), kept=kept)
        return Running(slot, 0 if kept else cpu, 0 if kept else memory, None)

    def members(self, *sizes: tuple[int, int]) -> Members:
        pods = [
            make_pod(f"a/m{number}").uid(f"m{number}").group("g").requests(cpu=cpu, memory=memory).obj()
            for number, (cpu, memory) in enumerate(sizes)
        ]
        return [(self.made.scheduler.profiles[pod.scheduler_name], pod) for pod in pods]

    def free(self, moment: float | None) -> list[list[int]]:
        """CPU and memory of each node that pods leave which have not ended by then; None: now."""
        left = [list(size) for size in self.nodes]
        for item in self.running:
            if moment is None or item.end is None or item.end > moment:
                left[item.slot][0] -= item.cpu
                left[item.slot][1] -= item.memory
        return left

    def seats(
        self, sizes: list[tuple[int, int]], need: int, limit: list[list[int]], free: list[list[int]]
    ) -> list[tuple[str, int]] | None:
        """Members one after the other, each where most of it would fit, the first of equal nodes."""
        taken = [[0, 0] for _ in self.nodes]
        for item in self.paid:
            taken[item.slot][0] += item.cpu
            taken[item.slot][1] += item.memory
        found: list[tuple[str, int]] = []
        for number, size in enumerate(sizes):
            if len(found) == need:
                break
            best, most = -1, -math.inf
            for slot in range(len(self.nodes)):
                asked = [kind for kind in (0, 1) if size[kind]]
                if slot in self.closed or any(
                    size[kind] > limit[slot][kind] - taken[slot][kind] for kind in asked
                ):
                    continue
                fits = min((free[slot][kind] - taken[slot][kind]) / size[kind] for kind in asked)
                if fits > most:
                    best, most = slot, fits
            if best >= 0:
                found.append((f"m{number}", best))
                for kind in (0, 1):
                    taken[best][kind] += size[kind]
        return found if len(found) == need else None


def told(plan: GangPlan | None) -> list[tuple[str, int]] | None:
    return None if plan is None else [(seat.pod.name, seat.slot) for seat in plan.members]


def sizes_of(rng: random.Random, *, equal: bool) -> list[tuple[int, int]]:
    number = rng.randint(1, 4)
    one = (rng.randint(1, 3), rng.randint(0, 3))
    return [one if equal else (rng.randint(1, 3), rng.randint(0, 3)) for _ in range(number)]


@every_seed(range(40))
def test_seats_on_empty_nodes_are_those_with_most_room_now(seed: int) -> None:
    world = World(seed)
    sizes = sizes_of(world.rng, equal=False)
    members = world.members(*sizes)
    for need in range(1, len(sizes) + 1):
        plan = plan_on_empty(world.made.scheduler.cycle, members, need, NOW)
        empty = [list(size) for size in world.nodes]
        assert told(plan) == world.seats(sizes, need, empty, world.free(None))
        assert plan is None or plan.start == 0.0


@every_seed(range(60))
def test_the_moment_is_the_first_at_which_enough_has_ended(seed: int) -> None:
    world = World(1000 + seed)
    sizes = sizes_of(world.rng, equal=True)
    members = world.members(*sizes)
    moments = sorted({item.end for item in world.running if item.end is not None})
    for need in range(1, len(sizes) + 1):
        plan = plan_by_ends(world.made.scheduler.cycle, members, need, NOW)
        ways = [(world.seats(sizes, need, world.free(t), world.free(t)), t) for t in moments]
        possible = [(seats, t) for seats, t in ways if seats is not None]
        expected = possible[0] if possible and moments[-1] > NOW else None
        assert (None if plan is None else (told(plan), plan.start)) == expected


@every_seed(range(60))
def test_seats_that_are_held_stay_where_they_will_do_at_the_first_moment(seed: int) -> None:
    world = World(3000 + seed)
    members = world.members((2, 0), (1, 1))
    cycle = world.made.scheduler.cycle
    first = plan_by_ends(cycle, members, 2, NOW)
    for slots in itertools.product(range(len(world.nodes)), repeat=2):
        seats = [
            PlannedMember(pod, slot, world.made.state.vector(pod))
            for (_, pod), slot in zip(members, slots, strict=True)
        ]
        found = plan_by_ends(cycle, members, 2, NOW, GangPlan(tuple(seats)))
        assert (found is None) == (first is None)
        if found is not None and first is not None:
            left = world.free(found.start)
            for item in world.paid:
                left[item.slot][0] -= item.cpu
                left[item.slot][1] -= item.memory
            for (cpu, memory), slot in zip(((2, 0), (1, 1)), slots, strict=True):
                left[slot][0] -= cpu
                left[slot][1] -= memory
            will_do = not world.closed & set(slots) and all(min(left[slot]) >= 0 for slot in slots)
            assert found.start == first.start or (will_do and found.start < first.start)
            assert told(found) == (told(GangPlan(tuple(seats))) if will_do else told(first))


@every_seed(range(30))
def test_who_has_ended_by_a_moment(seed: int) -> None:
    """Those who leave anyhow are not told: their room is free to come for everybody."""
    world = World(2000 + seed)
    state = world.made.state
    for slot in range(len(world.nodes)):
        for moment in {NOW, NOW + 30.0, *(item.end for item in world.running if item.end is not None)}:
            expected = {
                f"x{number}": item.cpu * 1000
                for number, item in enumerate(world.running)
                if item.slot == slot and item.end is not None and item.end <= moment and not item.leaves
            }
            found = ending_on(state, slot, moment)
            assert {uid: int(vector[0]) for uid, vector in found.items()} == expected


# What is kept already


def kept(made: GangScheduler, *seats: tuple[str, int, int]) -> tuple[GangPlan, Members]:
    """A plan by (name, slot, CPUs), and its members."""
    pods = [member(name, cpu=cpu).obj() for name, _, cpu in seats]
    found = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in pods]
    plan = GangPlan(
        tuple(
            PlannedMember(pod, slot, made.state.vector(pod))
            for pod, (_, slot, _) in zip(pods, seats, strict=True)
        )
    )
    return plan, found


STAND: list[tuple[str, list[tuple[str, int, int]], int, bool]] = [
    ("exactly the nodes", [("m0", 0, 4), ("m1", 1, 2)], 2, True),
    ("one is not needed", [("m0", 0, 4), ("m1", 1, 2)], 1, True),
    ("too few seats", [("m0", 0, 4)], 2, False),
    ("no seat is needed, none is held", [], 0, True),
    ("more than one node has", [("m0", 0, 3), ("m1", 0, 2)], 2, False),
    ("more than a node has, beside one that fits", [("m0", 0, 1), ("m1", 1, 3)], 2, False),
    ("one on a closed node", [("m0", 0, 1), ("m1", 2, 1)], 2, False),
    ("all on a closed node", [("m0", 2, 1)], 1, False),
]


@pytest.mark.parametrize(("seats", "need", "stands"), [s[1:] for s in STAND], ids=[s[0] for s in STAND])
def test_a_plan_stands_while_its_nodes_could_still_give_it(
    seats: list[tuple[str, int, int]], need: int, stands: bool
) -> None:
    made = GangScheduler([4, 2])
    made.scheduler.put(make_node("n2").allocatable(cpu=9).taint("t").obj(), made.now)
    made.put(make_pod("f/x").uid("x").requests(cpu=4).on("n0"))
    plan, members = kept(made, *seats)
    assert still_possible(made.scheduler.cycle, plan, members, need) is stands


def test_a_seat_of_a_member_that_is_gone_is_no_seat() -> None:
    made = GangScheduler([4])
    plan, members = kept(made, ("m0", 0, 1), ("m1", 0, 1))
    assert still_possible(made.scheduler.cycle, plan, members, 2)
    assert not still_possible(made.scheduler.cycle, plan, members[:1], 2)
    assert still_possible(made.scheduler.cycle, plan, members[:1], 1)


@pytest.mark.parametrize(
    ("name", "merely_kept", "stands"),
    [
        pytest.param("m0", False, True, id="its own nomination is no obstacle"),
        pytest.param("w", True, True, id="what is merely kept for others neither"),
        pytest.param("w", False, False, id="what others evicted for is theirs"),
    ],
)
def test_what_is_nominated_beside_a_plan(name: str, merely_kept: bool, stands: bool) -> None:
    made = GangScheduler([4])
    plan, members = kept(made, ("m0", 0, 3))
    pod = make_pod(f"a/{name}").uid(name).requests(cpu=3).obj()
    made.state.nominations.put(pod, "n0", made.state.vector(pod), kept=merely_kept)
    assert still_possible(made.scheduler.cycle, plan, members, 1) is stands


def test_seats_are_held_where_nodes_are_there_that_are_nominated() -> None:
    made = GangScheduler([4, 4])
    _, members = kept(made, ("m0", 0, 1), ("m1", 0, 2), ("m2", 0, 3))
    for (_, pod), node in zip(members, ("n1", "gone"), strict=False):
        made.state.nominations.put(pod, node, made.state.vector(pod), kept=True)
    plan = plan_of_kept_nodes(made.state, members)
    assert [(seat.pod.name, seat.slot, int(seat.vector[0])) for seat in plan.members] == [("m0", 1, 1000)]
    assert plan.start == 0.0


# What has to be kept beside what ends


@every_seed(range(20))
def test_what_is_kept_and_what_ends_are_together_what_is_asked(seed: int) -> None:
    rng = random.Random(seed)
    seats = [
        PlannedMember(member("m").obj(), 0, np.array([rng.randint(0, 4) for _ in range(3)], dtype=np.int64))
        for _ in range(rng.randint(0, 4))
    ]
    ending = [
        np.array([rng.randint(0, 4) for _ in range(rng.randint(1, 3))], dtype=np.int64)
        for _ in range(rng.randint(0, 3))
    ]
    found = kept_of(seats, ending, 3)
    assert len(found) == len(seats)
    for kind in range(3):
        left = sum(int(vector[kind]) for vector in ending if kind < len(vector))
        for seat, vector in zip(seats, found, strict=True):
            met = min(left, int(seat.vector[kind]))
            left -= met
            assert int(vector[kind]) == int(seat.vector[kind]) - met


# Quota


def quoted(name: str, namespace: str, cpu: int) -> PodBuilder:
    return make_pod(f"{namespace}/{name}").uid(name).requests(cpu=cpu).on("n0")


def test_what_is_used_without_those_who_are_gone() -> None:
    made = GangScheduler([99])
    for space in "ab":
        made.scheduler.put(make_quota(f"{space}/q").min(cpu=50).max(cpu=50).obj(), made.now)
    made.put(
        quoted("a0", "a", 1).deleting(5.0), quoted("a1", "a", 2), quoted("b0", "b", 4).deleting(5.0),
        quoted("f0", "f", 8).deleting(5.0),
    )  # fmt: skip
    gone = leaving(made.state)
    assert sorted(pod.name for pod in made.state.table.of(np.flatnonzero(gone))) == ["a0", "b0", "f0"]
    used, total = in_use(made.state, "a", gone)
    assert (used["cpu"], total["cpu"]) == (2000, 2000)
    used, total = in_use(made.state, "a", np.zeros_like(gone))
    assert (used["cpu"], total["cpu"]) == (3000, 7000)
    used, total = in_use(made.state, "f", gone)
    assert total["cpu"] == 2000


def test_ends_that_free_nodes_but_no_quota_are_no_start() -> None:
    made = GangScheduler([8])
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    made.put(quoted("a0", "a", 3), quoted("f0", "f", 5).started(made.now).spec(activeDeadlineSeconds=9))
    found = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in [member("m0", cpu=2).obj()]]
    assert plan_by_ends(made.scheduler.cycle, found, 1, made.now) is None
