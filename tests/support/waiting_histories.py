"""Small histories in which pods take their time to end, and what nobody may wait for, in plain numbers.

One resource (CPUs), some nodes, quotas that are flat or below QuotaGroups. Pods come, are deleted with
seconds to years of grace, and are evicted; a pod keeps its node until its grace period is over. Nodes may
come and go.

`python -m tests.support.waiting_histories SEED SEED2` plays the histories of these seeds (SEED2 excluded) and
prints what is found.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota

GRACE: Final = (1, 30, 200, 3600, 10 * 365 * 86400)
LIMIT: Final = 300
STEPS: Final = 14


@dataclass
class Runs:
    """A pod; `ends` is when it is gone, once it is deleted, and `victims` whom it evicted and waits for."""

    number: int
    quota: str
    cpu: int
    priority: int
    grace: int
    node: str = ""
    ends: float | None = None
    victims: set[str] = field(default_factory=set)
    # What was placed before the pod's victims were told to go; None: it evicted nobody, or others changed.
    seen: set[str] | None = None

    @property
    def name(self) -> str:
        return f"p{self.number}"

    @property
    def order(self) -> tuple[int, int]:
        """The order of nominated pods: by priority, then by age."""
        return -self.priority, self.number

    def made(self) -> PodBuilder:
        made = make_pod(f"{self.quota}/{self.name}").uid(self.name).requests(cpu=self.cpu)
        made = (
            made.priority(self.priority).created(self.number).spec(terminationGracePeriodSeconds=self.grace)
        )
        if self.node:
            made = made.on(self.node)
        if self.ends is not None:
            made.deleting(self.ends).meta["deletionGracePeriodSeconds"] = self.grace
        return made


@dataclass(frozen=True)
class Group:
    """A QuotaGroup of some quotas; `high` is None without a limit."""

    quotas: str
    low: int
    high: int | None

    def made(self, name: str) -> QuotaGroup:
        limit = {} if self.high is None else {"max": {"cpu": self.high}}
        return parse_quota_group({"metadata": {"name": name}, "spec": {"min": {"cpu": self.low}, **limit}})


class History:
    """A random history; `faults` says after each step who waits in vain.

    `trees`: with QuotaGroups. `moving`: nodes come and go.
    """

    def __init__(self, seed: int, *, trees: bool = False, moving: bool = False) -> None:
        self.random = random.Random(seed)
        draw = self.random
        self.nodes = {f"n{i}": draw.randint(3, 8) for i in range(draw.randint(1, 3))}
        self.low = {name: draw.randint(0, 4) for name in "abcd"[: draw.randint(2, 4)]}
        self.high = {name: low + draw.randint(0, 5) for name, low in self.low.items()}
        self.pods: dict[str, Runs] = {}
        self.now, self.number = 1000.0, 0
        self.scheduler = Scheduler(
            ClusterState(),
            build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS),
            initial_backoff=0.0,
            max_backoff=0.0,
        )
        for name, cpu in self.nodes.items():
            self.scheduler.put(make_node(name).allocatable(cpu=cpu).obj(), self.now)
        self.whats = ("come", "come", "leave", "wait", *(("come_node", "lose_node") if moving else ()))
        self.groups = dict(self.drawn_groups()) if trees else {}
        for name, group in self.groups.items():
            self.scheduler.put(group.made(name), self.now)
        for name, low in self.low.items():
            quota = make_quota(f"{name}/q").min(cpu=low).max(cpu=self.high[name])
            above = next((key for key, group in self.groups.items() if name in group.quotas), "")
            if above:
                quota.label(QUOTA_GROUP_LABEL, above)
            self.scheduler.put(quota.obj(), self.now)

    def drawn_groups(self) -> Iterator[tuple[str, Group]]:
        """One or two groups over some of the quotas."""
        draw, names = self.random, "".join(self.low)
        first = draw.randint(1, len(names))
        for number, quotas in enumerate((names[:first], names[first:][: draw.randint(0, 2)])):
            if quotas:
                low = sum(self.low[name] for name in quotas)
                spare, high = draw.choice((0, 0, 2)), draw.choice((None, low + 2, low + 5))
                yield f"g{number}", Group(quotas, low + spare, high)

    # What happens

    def play(self) -> Iterator[str]:
        """What is wrong after each step, in words."""
        for step in range(STEPS):
            getattr(self, self.random.choice(self.whats))()
            for _ in range(20):
                if not self.decide():
                    break
            else:
                yield f"step {step}: evicts without end"
            yield from (f"step {step}: {fault}" for fault in self.faults())

    def come(self) -> None:
        draw = self.random
        for _ in range(draw.randint(1, 3)):
            number, self.number = self.number, self.number + 1
            quota, cpu, priority = draw.choice([*self.low]), draw.randint(1, 3), draw.choice((0, 0, 5))
            pod = Runs(number, quota, cpu, priority, draw.choice(GRACE))
            self.pods[pod.name] = pod
            self.put(pod)
        self.disturb()

    def leave(self) -> None:
        running = [pod for pod in self.pods.values() if pod.node and pod.ends is None]
        if running:
            self.delete(self.random.choice(running))
            self.disturb()

    def come_node(self) -> None:
        name, cpu = f"n{len(self.nodes)}", self.random.randint(3, 8)
        while name in self.nodes:
            name += "x"
        self.nodes[name] = cpu
        self.scheduler.put(make_node(name).allocatable(cpu=cpu).obj(), self.now)
        self.disturb()

    def lose_node(self) -> None:
        """A node goes with all of its pods."""
        name = self.random.choice([*self.nodes]) if self.nodes else ""
        for pod in [pod for pod in self.pods.values() if name and pod.node == name]:
            del self.pods[pod.name]
            self.scheduler.remove(self.scheduler.state.pods[pod.name], self.now)
        if name:
            del self.nodes[name]
            self.scheduler.remove(make_node(name).obj(), self.now)
        self.disturb()

    def wait(self) -> None:
        self.now += self.random.choice((2, 40, 400, 5000))
        for pod in [pod for pod in self.pods.values() if pod.ends is not None]:
            if pod.ends is not None and pod.ends <= self.now:
                del self.pods[pod.name]
                self.scheduler.remove(self.scheduler.state.pods[pod.name], self.now)

    def delete(self, pod: Runs, grace: int | None = None) -> None:
        pod.grace = pod.grace if grace is None else min(grace, pod.grace)
        ends = self.now + pod.grace
        pod.ends = ends if pod.ends is None else min(ends, pod.ends)
        self.put(pod)

    def put(self, pod: Runs) -> None:
        self.scheduler.put(pod.made().obj(), self.now)

    def disturb(self) -> None:
        """Others came or went: who evicted before need not have its room any more."""
        for pod in self.pods.values():
            pod.seen = None

    def decide(self) -> bool:
        """One step of the scheduler; whether it decided anything that matters."""
        decisions = self.scheduler.step(self.now)
        assert self.scheduler.state.check() == []
        placed = {item.pod.name: item.node for item in decisions if isinstance(item, Placed)}
        for item in decisions:
            if isinstance(item, Evicted):
                preemptor = self.pods[item.preemptor.name]
                preemptor.victims.add(item.pod.name)
                preemptor.seen = {pod.name for pod in self.pods.values() if pod.node}
        for pod in {self.pods[item.preemptor.name].name for item in decisions if isinstance(item, Evicted)}:
            node = self.scheduler.state.nominations.node_of(pod)
            preemptor = self.pods[pod]
            if not node or not self.fits(node, [(preemptor, node)], frozenset(preemptor.victims)):
                # It waits for others as well.
                preemptor.seen = None
        for name, node in placed.items():
            self.pods[name].node = node
            self.put(self.pods[name])
        evictions = [item for item in decisions if isinstance(item, Evicted)]
        for item in evictions:
            self.delete(self.pods[item.pod.name], item.grace)
        return bool(placed or evictions)

    # What nobody may wait for

    def faults(self) -> Iterator[str]:
        for pod in self.pods.values():
            if not pod.node and pod.ends is None:
                free = next((node for node in self.nodes if self.hurts_nobody(pod, node)), "")
                if free:
                    yield f"{pod.name} waits beside room on {free} that nobody can use before it"
                if pod.victims and not pod.victims & self.pods.keys() and self.is_undisturbed(pod):
                    yield f"{pod.name} waits though all are gone whom it evicted"

    def is_undisturbed(self, pod: Runs) -> bool:
        """Whether nobody has taken the room since who may go before the pod, by guarantee or priority."""
        if pod.seen is None:
            return False
        since = [other for other in self.pods.values() if other.node and other.name not in pod.seen]
        return not any(self.goes_before(other, pod) for other in since)

    def goes_before(self, other: Runs, pod: Runs) -> bool:
        """Whether one pod, which has started, goes before another one by guarantee, priority or age."""
        if other.quota != pod.quota:
            # Within its min, as the scheduler reads it.
            return self.used(other.quota, self.leaving()) <= self.low[other.quota]
        return other.order < pod.order

    def leaves(self, pod: Runs) -> bool:
        """Whether it leaves soon enough for others to wait for it."""
        evicted = any(pod.name in other.victims for other in self.pods.values())
        return pod.ends is not None and (evicted or pod.ends - self.now <= LIMIT)

    def gone_with(self, victims: frozenset[str]) -> frozenset[str]:
        """Those who are gone when some victims are: these, and whoever ends before."""
        ends = [end for name in victims if (end := self.pods[name].ends) is not None]
        before = {name for name in self.leaving() if ends and (self.pods[name].ends or 0) <= max(ends)}
        return victims | before

    def waits(self, pod: Runs) -> bool:
        """Whether a nominated pod waits for others to be gone: its victims, or any on its node."""
        found = self.scheduler.state.nominations.get(pod.name)
        assert found is not None
        leaving = self.leaving()
        if found.victims:
            return not leaving.isdisjoint(found.victims)
        return any(self.pods[name].node == found.node for name in leaving)

    def leaving(self) -> frozenset[str]:
        return frozenset(pod.name for pod in self.pods.values() if self.leaves(pod))

    def used(self, quota: str, gone: frozenset[str] = frozenset()) -> int:
        return sum(
            pod.cpu for pod in self.pods.values() if pod.node and pod.quota == quota and pod.name not in gone
        )

    def free(self, node: str, gone: frozenset[str] = frozenset()) -> int:
        return self.nodes[node] - sum(
            pod.cpu for pod in self.pods.values() if pod.node == node and pod.name not in gone
        )

    def fits(self, node: str, together: list[tuple[Runs, str]], gone: frozenset[str] = frozenset()) -> bool:
        """Whether pods with their nodes fit a node and all quotas once some are gone."""
        if sum(pod.cpu for pod, at in together if at == node) > self.free(node, gone):
            return False
        total = 0
        for quota, high in self.high.items():
            more = sum(pod.cpu for pod, _ in together if pod.quota == quota)
            if more and self.used(quota, gone) + more > high:
                return False
            total += min(high, self.used(quota, gone)) + more
        if not all(self.fits_group(group, together, gone) for group in self.groups.values()):
            return False
        return total <= self.guaranteed()

    def fits_group(self, group: Group, together: list[tuple[Runs, str]], gone: frozenset[str]) -> bool:
        """Whether pods stay within the max of a group once some are gone."""
        more = sum(pod.cpu for pod, _ in together if pod.quota in group.quotas)
        used = sum(self.used(quota, gone) for quota in group.quotas)
        return not more or group.high is None or used + more <= group.high

    def guaranteed(self) -> int:
        """The sum of the min of groups, and of quotas outside of groups."""
        inside = "".join(group.quotas for group in self.groups.values())
        alone = sum(low for name, low in self.low.items() if name not in inside)
        return alone + sum(group.low for group in self.groups.values())

    def hurts_nobody(self, pod: Runs, node: str) -> bool:
        """Whether a pod may start on a node now, and each nominated pod then starts no later."""
        nominations, itself = self.scheduler.state.nominations, (pod, node)
        others = [
            (other, nominations.node_of(other.name))
            for other in self.pods.values()
            if other is not pod and not other.node and nominations.node_of(other.name)
        ]
        everybody = self.leaving()
        ready = [item for item in others if self.fits(item[1], [item])]
        if nominations.get(pod.name) is not None and not self.waits(pod):
            # Of nominated pods that might all start now, the first one does.
            ready = [item for item in ready if item[0].order < pod.order]
        if not self.fits(node, [itself, *ready]):
            return False
        places = {node, *(at for _, at in others)}
        if not all(self.fits(at, [itself, *others], everybody) for at in places):
            return False
        for item in others:
            last = nominations.get(item[0].name)
            for victims in (item[0].victims, last.victims if last is not None else ()):
                own = self.gone_with(frozenset(victims) & everybody)
                if self.fits(item[1], [item], own) and not self.fits(item[1], [item, itself], own):
                    return False
        return True


def history_of(seed: int) -> History:
    """The history of a seed: every second one with QuotaGroups, two of four with nodes that come and go."""
    return History(seed, trees=seed % 2 == 1, moving=seed % 4 > 1)


def main() -> None:
    first, last = map(int, sys.argv[1:])
    start, failing = time.process_time(), 0
    for seed in range(first, last):
        faults = list(history_of(seed).play())
        failing += bool(faults)
        for fault in faults:
            print(f"{seed}: {fault}")
    print(f"{last - first} histories in {time.process_time() - start:.1f} CPU s, {failing} with findings")


if __name__ == "__main__":
    main()
