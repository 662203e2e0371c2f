"""Who goes before a pod, held against a slow reading: every nominated pod is looked at, one by one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from scheduler_core.framework.nominations.nominated import Precedence, nominated_room
from scheduler_core.framework.nominations.nominated_sums import nominated_requests
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.every import every_seed

NAMES: Final = ("cpu", "memory")
NODES: Final = ("m", "n")


@dataclass(frozen=True)
class Nominee:
    """A pod that is nominated for a node, or one that asks."""

    name: str
    namespace: str
    sizes: tuple[int, int]
    priority: int
    created: float
    node: str
    kept: bool
    group: str

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def rank(self) -> tuple[int, float, str]:
        return -self.priority, self.created, self.key

    def built(self) -> PodBuilder:
        sizes = {name: size for name, size in zip(NAMES, self.sizes, strict=True) if size}
        made = make_pod(self.key).uid(self.name).requests(**sizes).priority(self.priority)
        made = made.created(self.created)
        return made.group(self.group) if self.group else made


@dataclass(frozen=True)
class Given:
    """Quotas by min (None: it is not named), what they use and what of it leaves, and who is nominated.

    The pod that asks may be nominated `itself`, and may be given a node just now (`held`).
    """

    mins: dict[str, tuple[int | None, int | None]]
    used: dict[str, tuple[int, int]]
    leaving: dict[str, tuple[int, int]]
    nominees: tuple[Nominee, ...]
    asking: Nominee
    itself: bool
    held: bool

    def state(self) -> ClusterState:
        state = ClusterState()
        for name in NODES:
            state.put_node(make_node(name).allocatable(cpu=99, memory=99).obj())
        for name, low in self.mins.items():
            listed = {key: value for key, value in zip(NAMES, low, strict=True) if value is not None}
            state.put_quota(make_quota(f"{name}/q").min(**listed).obj())
        for name in self.used:
            # What is 0 is not asked for at all.
            for kind, sizes in (("stays", self.used[name]), ("goes", self.leaving[name])):
                listed = {key: size for key, size in zip(NAMES, sizes, strict=True) if size}
                pod = make_pod(f"{name}/{kind}").uid(f"{name}-{kind}").requests(**listed).on("m")
                state.put_pod((pod.deleting(1.0) if kind == "goes" else pod).obj())
        for item in (*self.nominees, *((self.asking,) if self.itself else ())):
            state.put_pod(item.built().obj())
            pod_, group = state.pods[item.name], item.group and f"{item.namespace}/{item.group} PodGroup"
            state.nominations.put(pod_, item.node, state.vector(pod_), kept=item.kept, group=group)
        if self.held:
            state.nominations.hold(self.asking.name)
        return state

    def uses(self, namespace: str, r: int) -> int:
        return self.used[namespace][r] if namespace in self.used else 0

    def own(self) -> list[Nominee]:
        """Those of the pod's quota that go first in its sums."""
        asking = self.asking
        if asking.namespace not in self.mins:
            return []
        first = [
            item
            for item in self.nominees
            if item.namespace == asking.namespace
            and item.priority >= asking.priority
            and not (item.group and item.group == asking.group)
        ]
        if self.itself and not asking.kept:
            first = [item for item in first if not item.kept and item.rank < asking.rank]
        return first

    def covered_behind(self) -> list[Nominee]:
        """Those of the pod's quota after it that stay within its min, unless the pod does."""
        asking = self.asking
        if asking.namespace not in self.mins or self.guaranteed:
            return []
        nominated = self.itself and not asking.kept
        return [
            item
            for item in self.nominees
            if item.namespace == asking.namespace
            and not item.kept
            and not (item.group and item.group == asking.group)
            and (asking.rank < item.rank if nominated else item.priority < asking.priority)
            and self.waits_within(item)
        ]

    def total_of(self, items: list[Nominee], r: int) -> int:
        return sum(item.sizes[r] for item in items)

    @property
    def guaranteed(self) -> bool:
        return self.within(self.asking.namespace, self.own(), [self.asking])

    def within(self, namespace: str, first: list[Nominee], more: list[Nominee]) -> bool:
        """Whether a quota stays within min with more pods beside those that go first under it."""
        if namespace not in self.mins:
            return False
        for r in (0, 1):
            named = any(low[r] is not None for low in self.mins.values())
            asked = self.total_of(more, r)
            uses = self.uses(namespace, r) + self.total_of(first, r) + asked
            if asked and named and uses > (self.mins[namespace][r] or 0):
                return False
        return True

    @property
    def waiting(self) -> list[Nominee]:
        return [*self.nominees, *([self.asking] if self.itself and not self.held else [])]

    def waits_within(self, item: Nominee) -> bool:
        """The same of a nominated pod that evicted, or of all of its gang.

        Of those before it, who only borrows takes no guarantee from it.
        """
        alike = [
            other
            for other in self.waiting
            if (other.namespace, other.group, other.priority, other.kept)
            == (item.namespace, item.group, item.priority, item.kept)
        ]
        together = alike if item.group else [item]
        leader = min(together, key=lambda other: other.rank, default=item)
        first = [
            other
            for other in self.waiting
            if other.namespace == item.namespace
            and not other.kept
            and other.priority >= leader.priority
            and other.rank < leader.rank
            and not (other.group and other.group == item.group)
            and (item.kept or self.waits_within(other))
        ]
        return self.within(item.namespace, first, together)

    @property
    def asks_within(self) -> bool:
        """Whether the pod that asks has the right of who is within min on a node."""
        asking = self.asking
        if self.itself and not asking.kept and (asking.group or not self.held):
            return self.waits_within(asking)
        return self.guaranteed

    def everybody(self, r: int) -> int:
        """What all that go first will use, of every quota."""
        total = self.total_of([*self.own(), *self.covered_behind()], r)
        guaranteed = self.guaranteed
        for name in self.mins:
            if name == self.asking.namespace:
                continue
            every = [item for item in self.nominees if item.namespace == name]
            first = every
            if guaranteed or (self.itself and not self.asking.kept):
                first = [item for item in every if not item.kept]
            over = self.uses(name, r) + self.total_of(first, r) > (self.mins[name][r] or 0)
            if not (guaranteed and over):
                total += self.total_of(first, r)
        return total

    def matters(self, item: Nominee, other: Nominee) -> bool:
        """Whether a pod under no quota is more important than another one."""
        return item.namespace not in self.mins and item.priority > other.priority

    def nominee_goes_first(self, item: Nominee) -> bool:
        asking = self.asking
        if item.group and (item.namespace, item.group) == (asking.namespace, asking.group):
            return False
        neither = item.namespace not in self.mins and asking.namespace not in self.mins
        if item.namespace == asking.namespace or neither:
            covered = not neither and not item.kept and not self.asks_within and self.waits_within(item)
            if item.priority < asking.priority and not covered:
                return False
        elif self.asks_within and (item.kept or not (self.waits_within(item) or self.matters(item, asking))):
            return False
        if not self.itself or self.held or item.node != asking.node:
            return True
        others = not neither and item.namespace != asking.namespace
        own = self.asks_within or self.matters(asking, item)
        theirs = self.waits_within(item) or self.matters(item, asking)
        if others and item.kept == asking.kept and theirs and not own:
            return True
        if item.kept != asking.kept:
            return asking.kept
        if not (neither or others or item.kept) and theirs != own:
            return theirs
        return item.rank < asking.rank


def drawn(rng: random.Random) -> Given:
    def nominee(name: str) -> Nominee:
        namespace = rng.choice(("a", "a", "a", "b", "b", "f", "g"))
        group = rng.choice(("", "", "", "h", "k")) if namespace == "a" else ""
        return Nominee(
            name,
            namespace,
            (rng.randint(0, 2), rng.choice((0, 0, 1))),
            rng.choice((0, 5, 5, 9)),
            float(rng.randint(1, 2)),
            rng.choice(NODES),
            rng.random() < 0.4,
            group,
        )

    memory = rng.random() < 0.5
    mins = {
        name: (rng.randint(0, 6), rng.choice((None, 0, 2)) if memory else None)
        for name in ("a", "b")
        if rng.random() < 0.85
    }
    used = {name: (rng.randint(0, 2), rng.randint(0, 1)) for name in ("a", "b") if rng.random() < 0.8}
    leaving = {name: (rng.randint(0, 3), rng.randint(0, 1)) for name in used}
    itself = rng.random() < 0.5
    nominees = tuple(nominee(f"w{i}") for i in range(rng.randint(0, 5)))
    return Given(mins, used, leaving, nominees, nominee("p"), itself, itself and rng.random() < 0.2)


@every_seed(range(400))
def test_sums_and_rooms_are_those_of_all_that_go_first(seed: int) -> None:
    given = drawn(random.Random(seed))
    state = given.state()
    asking = given.asking.built().obj()
    told = f"seed {seed}: {given}"
    own, total = nominated_requests(state, asking)
    units = [state.vector(make_pod("x/x").requests(**{name: 1}).obj()) for name in NAMES]
    for r, name in enumerate(NAMES):
        unit = int(units[r].max())
        assert own.get(name, 0) == unit * given.total_of([*given.own(), *given.covered_behind()], r), told
        assert total.get(name, 0) == unit * given.everybody(r), told
        row = state.index.row(name)
        assert row is not None
        room = nominated_room(state, asking)[row].tolist()
        for slot, node in enumerate(NODES):
            first = [item for item in given.nominees if item.node == node and given.nominee_goes_first(item)]
            assert room[slot] == unit * given.total_of(first, r), f"{told} on {node}"
    precedence = Precedence(state, asking)
    for item in given.nominees if not given.held else ():
        known = state.nominations.get(item.name)
        assert known is not None
        assert precedence.nominee_goes_first(known) is given.nominee_goes_first(item), told
