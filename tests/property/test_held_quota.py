"""Random histories of groups that hold quota: what is used and held stays lawful, and every hold ends."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.model.groups.gang import Gang, group_key
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.timestamps import format_time
from scheduler_core.state.gangs.quota_holds import QuotaHold
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler
from tests.support.searches import cases

WORLDS = cases(120, "MUSTER_HELD_QUOTA_WORLDS")
BLOCK = 30
HOLD_SECONDS = 300.0


class World:
    """Two namespaces with quotas; pods, groups and nodes come and go."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.gangs = GangScheduler([self.dice.randint(4, 8), self.dice.randint(4, 8)])
        self.made = 0
        self.vain: dict[str, float] = {}
        for space in ("a", "b"):
            low = self.dice.randint(2, 5)
            quota = make_quota(f"{space}/q").min(cpu=low).max(cpu=low + self.dice.randint(0, 5))
            self.gangs.scheduler.put(quota.obj(), self.gangs.now)

    @property
    def holds(self) -> dict[str, QuotaHold]:
        return dict(self.gangs.state.gangs.quota_holds.holds)

    def name(self, prefix: str) -> str:
        self.made += 1
        return f"{prefix}{self.made}"

    def add_group(self) -> None:
        space, name, now = self.dice.choice("ab"), self.name("g"), self.gangs.now
        size = self.dice.randint(2, 4)
        group = make_group(f"{space}/{name}").uid(name).needs(size).created(now)
        if self.dice.random() < 0.8:
            group = group.annotation("muster.dev/hold-quota", f"{int(HOLD_SECONDS)}s")
        self.gangs.scheduler.put(group.obj(), now)
        priority = self.dice.choice([0, 0, 0, 5])
        for _ in range(size + self.dice.randint(-1, 1)):
            pod = make_pod(f"{space}/{self.name('m')}").group(name).requests(cpu=self.dice.randint(1, 2))
            self.gangs.put(pod.uid(f"m{self.made}").priority(priority).created(now))

    def add_pod(self) -> None:
        pod = make_pod(f"{self.dice.choice('ab')}/{self.name('p')}").uid(f"p{self.made}")
        pod = pod.requests(cpu=self.dice.randint(1, 2)).priority(self.dice.choice([0, 0, 0, 5]))
        self.gangs.put(pod.created(self.gangs.now))

    def end_pod(self) -> None:
        pods = list(self.gangs.state.pods.values())
        if pods:
            self.gangs.scheduler.remove(self.dice.choice(pods), self.gangs.now)

    def end_group(self) -> None:
        groups = list(self.gangs.state.gangs.gangs.values())
        if groups:
            self.gangs.scheduler.remove(self.dice.choice(groups), self.gangs.now)

    def add_node(self) -> None:
        node = make_node(self.name("n")).allocatable(cpu=self.dice.randint(1, 4))
        self.gangs.scheduler.put(node.obj(), self.gangs.now)

    def step(self) -> None:
        """One random change, time passes, and units are decided one by one."""
        changes = (self.add_group, self.add_pod, self.add_pod, self.end_pod, self.end_pod, self.end_group)
        self.dice.choice((*changes, self.add_node))()
        self.gangs.now += self.dice.choice([0.0, 1.0, 20.0, 120.0])
        for _ in range(30):
            before = self.holds
            decisions = self.gangs.scheduler.step(self.gangs.now, 1)
            self.check_times(before)
            for decision in decisions:
                if isinstance(decision, Placed):
                    self.check_placed(decision.pod)
                elif isinstance(decision, Evicted):
                    self.gangs.scheduler.remove(decision.pod, self.gangs.now)
            if not decisions:
                break

    def check_placed(self, pod: Pod) -> None:
        """No quota is exceeded, nor is what is held before the pod in its own quota."""
        state = self.gangs.state
        ledger, quota = state.ledger, state.ledger.quota_of(pod.namespace)
        assert quota is not None
        used = ledger.used(pod.namespace).get("cpu", 0)
        assert used <= quota.max["cpu"]
        assert ledger.total_used.get("cpu", 0) <= ledger.total_min["cpu"]
        held = sum(self.held_before(pod))
        assert used + held <= quota.max["cpu"], f"{pod.key} took what is held"
        total = ledger.total_used.get("cpu", 0)
        fits_min = used + held <= quota.min["cpu"]
        assert fits_min or total + held <= ledger.total_min["cpu"], f"{pod.key} took what is held"

    def held_before(self, pod: Pod) -> Iterator[int]:
        """The CPU that each group ahead of a pod still needs, counted anew."""
        state = self.gangs.state
        own = group_key(pod)
        mine = self.order(state.gangs.gangs[own], own) if own in state.gangs.gangs else None
        order = mine or (-pod.priority, pod.created, pod.uid)
        quota = state.ledger.quota_of(pod.namespace)
        assert quota is not None
        for key, hold in self.holds.items():
            gang = state.gangs.gangs.get(key)
            if gang is None or hold.namespace != pod.namespace or key == own or self.order(gang, key) > order:
                continue
            pods = state.gangs.members(key).values()
            placed = [item.requests["cpu"] for item in pods if item.uid in state.placed]
            waiting = [item.requests["cpu"] for item in pods if item.uid not in state.placed]
            need = sorted(placed + waiting)[: gang.min_members]
            need += [need[0]] * (gang.min_members - len(need))
            if not waiting or len(placed) >= gang.min_members:
                continue
            if sum(need) <= min(quota.max["cpu"], state.ledger.total_min["cpu"]):
                yield max(0, sum(need) - sum(placed))

    def order(self, gang: Gang, key: str) -> tuple[int, float, str]:
        members = self.gangs.state.gangs.members(key).values()
        return -max((item.priority for item in members), default=0), gang.created, key

    def check_times(self, before: dict[str, QuotaHold]) -> None:
        """A hold ends in time; after one in vain the namespace rests for as long as it lasted."""
        now, state, after = self.gangs.now, self.gangs.state, self.holds
        for key, hold in after.items():
            assert hold.since <= now < hold.until == hold.since + HOLD_SECONDS
            if key not in before:
                rest = self.vain.get(hold.namespace, 0.0)
                assert now >= rest, f"{key} holds at {format_time(now)}, before {format_time(rest)}"
        for key in before.keys() - after.keys():
            gang = state.gangs.gangs.get(key)
            placed = [uid for uid in state.gangs.members(key) if uid in state.placed]
            if gang is None or len(placed) < gang.min_members:
                hold = before[key]
                ended = min(now, hold.until)
                rest = ended + ended - hold.since
                self.vain[hold.namespace] = max(rest, self.vain.get(hold.namespace, 0.0))


@pytest.mark.parametrize("block", range(0, WORLDS, BLOCK), ids="seeds from {}".format)
def test_held_quota_stays_lawful_and_ends(block: int) -> None:
    held = refused = 0
    for seed in range(block, block + BLOCK):
        world = World(seed)
        for _ in range(40):
            world.step()
            held += bool(world.holds)
            waiting = world.gangs.state.gangs.quota_holds.rests
            refused += bool(waiting)
    assert held > BLOCK, "no group of this block held quota"
    assert refused > BLOCK, "no namespace of this block rested"
