"""Victims of native groups in random small worlds, against trying every set of units.

One resource, members of equal size. The model here shares no code with the search.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import combinations
from typing import Final, NamedTuple

import msgspec

from scheduler_core.engine.gang.group_preemption import preempt_for_group
from scheduler_core.engine.gang.preemption import GangPreemption
from scheduler_core.model.groups.native import parse_native_gang
from tests.support.builders import make_pod, make_quota
from tests.support.every import every_seed
from tests.support.gang_scheduler import GangScheduler
from tests.support.searches import cases

PLAIN: Final = "no quota"
OWN: Final = "all in one quota"
RECLAIM: Final = "reclaim from a borrower"
PRIORITY: Final = 5
BATCHES: Final = cases(10)
PER_BATCH: Final = 40


class Unit(NamedTuple):
    """Pods that go together: (name, node, cpu) each."""

    pods: tuple[tuple[str, int, int], ...]
    priority: int

    @property
    def size(self) -> int:
        return sum(cpu for _, _, cpu in self.pods)


class World(NamedTuple):
    nodes: tuple[int, ...]
    groups: tuple[tuple[str, int, str], ...]
    members: dict[str, str]
    units: tuple[Unit, ...]
    size: int
    asked: int
    need: int
    quota: str
    low: int

    def slots(self, gone: Collection[Unit] = ()) -> int:
        free = list(self.nodes)
        for unit in self.units:
            for _, node, cpu in unit.pods if unit not in gone else ():
                free[node] -= cpu
        return sum(max(0, left) // self.size for left in free)

    @property
    def used(self) -> int:
        return sum(unit.size for unit in self.units)

    def most(self, gone: Collection[Unit] = ()) -> int:
        """How many members can start without some units."""
        room = min(self.asked, self.slots(gone))
        freed = sum(unit.size for unit in gone)
        if self.quota == PLAIN:
            return room
        # All members are charged to one total: that of the own quota, or of both.
        total = sum(self.nodes) if self.quota == RECLAIM else self.low
        return max(0, min(room, (total - self.used + freed) // self.size))

    def lawful(self, gone: Sequence[Unit]) -> bool:
        if self.quota == RECLAIM:
            # The borrower is guaranteed `low`, and over it before its last unit goes.
            left = self.used - sum(unit.size for unit in gone)
            return not gone or any(left + unit.size > self.low for unit in gone)
        return all(unit.priority < PRIORITY for unit in gone)

    def choices(self) -> Iterator[tuple[Unit, ...]]:
        for number in range(len(self.units) + 1):
            yield from (gone for gone in combinations(self.units, number) if self.lawful(gone))


def random_world(seed: int) -> World:
    rng = random.Random(seed)
    quota = rng.choice((PLAIN, OWN, RECLAIM))
    nodes = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 4)))
    free, groups, members, units = list(nodes), list[tuple[str, int, str]](), dict[str, str](), list[Unit]()
    for number in range(rng.randint(1, 5)):
        priority, mode = rng.choice((0, 1, 4, 5, 9)), rng.choice(("", "single", "all"))
        pods = []
        for index in range(rng.randint(1, 3) if mode else 1):
            node, cpu = rng.randrange(len(nodes)), rng.randint(1, 2)
            if free[node] >= cpu:
                free[node] -= cpu
                pods.append((f"v{number}-{index}", node, cpu))
        if mode and pods:
            groups.append((f"v{number}", priority, mode))
            members |= {name: f"v{number}" for name, _, _ in pods}
        together = [tuple(pods)] if mode == "all" and pods else [(pod,) for pod in pods]
        units += [Unit(part, priority) for part in together]
    used = sum(unit.size for unit in units)
    low = used + rng.randint(0, 2) if quota == OWN else rng.randint(0, used)
    asked = rng.randint(1, 4)
    members_size = rng.choice((1, 1, 2))
    need = rng.randint(1, asked)
    return World(nodes, tuple(groups), members, tuple(units), members_size, asked, need, quota, low)


def decided(world: World) -> GangPreemption | None:
    made = GangScheduler(world.nodes)
    space = "b" if world.quota == RECLAIM else "a"
    if world.quota == OWN:
        made.scheduler.put(make_quota("a/a").min(cpu=world.low).max(cpu=world.low).obj(), made.now)
    if world.quota == RECLAIM:
        total = sum(world.nodes)
        made.scheduler.put(make_quota("a/a").min(cpu=total - world.low).max(cpu=total).obj(), made.now)
        made.scheduler.put(make_quota("b/b").min(cpu=world.low).max(cpu=total).obj(), made.now)
    for name, priority, mode in world.groups:
        spec = {"priority": priority, "disruptionMode": {mode: {}}}
        meta = {"name": name, "namespace": space, "uid": name}
        made.scheduler.put(parse_native_gang({"metadata": meta, "spec": spec}), made.now)
    for unit in world.units:
        for name, node, cpu in unit.pods:
            pod = make_pod(f"{space}/{name}").uid(name).requests(cpu=cpu).priority(unit.priority)
            pod.on(f"n{node}").started(1)
            native = msgspec.structs.replace(pod.obj(), native_group=world.members.get(name, ""))
            made.scheduler.put(native, made.now)
    meta = {"name": "g", "namespace": "a", "uid": "g"}
    policy = {"schedulingPolicy": {"gang": {"minCount": world.need}}, "priority": PRIORITY}
    gang = parse_native_gang({"metadata": meta, "spec": policy})
    made.state.put_gang(gang)
    pairs = []
    for number in range(world.asked):
        pod = make_pod(f"a/m{number}").uid(f"m{number}").requests(cpu=world.size).priority(PRIORITY)
        waits = msgspec.structs.replace(pod.obj(), native_group="g")
        made.state.put_pod(waits, made.now)
        pairs.append((made.scheduler.profiles[waits.scheduler_name], waits))
    found = preempt_for_group(made.scheduler.cycle, gang, pairs, world.need, made.now)
    assert made.state.check() == []
    return found


def faults(world: World) -> Iterator[str]:
    found = decided(world)
    gone = {victim.name for victim, _ in found.victims} if found is not None else set[str]()
    victims = [unit for unit in world.units if gone.intersection(name for name, _, _ in unit.pods)]
    if any(not gone.issuperset(name for name, _, _ in unit.pods) for unit in victims):
        yield f"a unit is torn: {gone}"
    if not world.lawful(victims):
        yield f"not lawful: {gone}"
    if found is not None:
        placed = [(int(node.removeprefix("n")), world.size) for _, node, _ in found.nominated]
        yield from (f"not needed: {unit}" for unit in victims if fits(world, victims, unit, placed))
    whole = world.quota != RECLAIM or all(len(unit.pods) == 1 == unit.size for unit in world.units)
    sets = [part for part in world.choices() if world.most(part) >= world.need]
    best = max((world.most(part) for part in sets), default=0)
    started = len(found.nominated) if found is not None else 0
    helps = best > world.most()
    if started > best or (whole and started != (best if helps else 0)):
        yield f"{started} start, and {best} could"
    if found is not None and world.quota != RECLAIM and victims:
        tops = [max(u.priority for u in part) for part in sets if part and world.most(part) == best]
        if max(unit.priority for unit in victims) > min(tops):
            yield f"more important than needed: {gone}"


def fits(world: World, victims: Sequence[Unit], back: Unit, placed: Iterable[tuple[int, int]]) -> bool:
    """Whether all placed members keep their places if a unit comes back."""
    gone = [unit for unit in victims if unit is not back]
    free = list(world.nodes)
    for node, cpu in placed:
        free[node] -= cpu
    for unit in world.units:
        for _, node, cpu in unit.pods if unit not in gone else ():
            free[node] -= cpu
    return min(free) >= 0 and world.most(gone) >= len(list(placed))


@every_seed(range(BATCHES * PER_BATCH), each=PER_BATCH)
def test_victims_are_whole_units_lawful_and_as_few_as_needed(seed: int) -> None:
    assert list(faults(random_world(seed))) == [], f"seed {seed}"
