"""Preemption on random clusters, played until idle and held against a model that shares no code with it."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any, Final

import pytest

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.builtin import muster_config
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.queue import FLUSH_AFTER_SECONDS
from scheduler_core.model.writes import Evict, Write
from scheduler_core.simulate.objects import merge_patch
from scheduler_core.simulate.run import Simulation
from scheduler_core.simulate.scenario import Scenario
from tests.support.random_cluster import Book, Cluster, RandomPod, random_cluster

CONFIG: Final = muster_config()
MODES: Final = (
    {"one_by_one": True},
    {},
    {"slow": True},
    {"reborn": True},
    {"slow": True, "reborn": True},
)
BATCHES: Final = 40
PER_BATCH: Final = 50
# The pod was tried before another quota borrowed what it now could reclaim: only the queue's flush tries it
# again. Must shrink, never grow.
TRIED_TOO_EARLY: Final = frozenset({1759})
# How often every pod of a cluster may be evicted on average; lawful clusters stay far below one.
MAX_ROUNDS: Final = 2
# Beyond this many candidates the search over all subsets is left out.
BRUTE_FORCE: Final = 10


class EndlessEvictions(AssertionError):
    """Pods evict each other in a circle; the last evictions."""


class Audit(Simulation):
    """The simulation, with every decision checked against the model before it is carried out.

    `one_by_one`: a pod's victims are gone before the next pod is decided. `slow`: victims stay, terminating,
    until the scheduler has nothing more to do. `reborn`: a victim comes back as a new waiting pod, as a
    controller would have it.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        one_by_one: bool = False,
        slow: bool = False,
        reborn: bool = False,
        config: SchedulerConfiguration = CONFIG,
    ) -> None:
        super().__init__(Scenario("random", "", config, 1_700_000_000.0, (), ()))
        self.cluster = cluster
        self.book = Book(cluster)
        self.pods = {pod.key: pod for pod in cluster.pods}
        self.book.bound = {pod.key: (pod, pod.node) for pod in cluster.pods if pod.node}
        self.faults: list[str] = []
        self.preempted: dict[str, bool] = {}
        self.landed: list[str] = []
        self.one_by_one, self.slow, self.reborn = one_by_one, slow, reborn
        self._step = self.scheduler.step
        self.scheduler.step = self.audited  # type: ignore[method-assign]
        self.before = self.excess()

    def play(self) -> Audit:
        """Until idle, and again after the time in which the queue tries everything once more."""
        for i, raw in enumerate(self.cluster.objects()):
            self.observe(self.objects.create(raw, f"objects[{i}]"))
        self.settle()
        self.faults += [
            f"{pod.key} fits and waits" for pod in self.waiting() if self.book.fits_somewhere(pod)
        ]
        self.now += FLUSH_AFTER_SECONDS + 1
        self.settle()
        return self

    def settle(self) -> None:
        """Until idle and no victim is left."""
        self.run_until_idle()
        while self.book.leaving:
            key = sorted(self.book.leaving)[0]
            self.end(key)
            self.observe(self.objects.delete(self.raw(key), "end"))
            self.run_until_idle()

    def raw(self, key: str) -> dict[str, Any]:
        namespace, _, name = key.partition("/")
        return {"kind": "Pod", "metadata": {"namespace": namespace, "name": name}}

    def waiting(self) -> list[RandomPod]:
        """Pods that are there and have no node."""
        there = {f"{o['metadata']['namespace']}/{o['metadata']['name']}" for o in self.objects.all("Pod")}
        return [self.pods[key] for key in sorted(there) if key not in self.book.bound]

    def excess(self) -> dict[tuple[str, str], int]:
        """By how much each quota is over max, and all together over the sum of min."""
        out = {}
        used, room = self.book.sum_of_used(), self.book.sum_of_min()
        for name, value in room.items():
            out["sum", name] = max(0, used.get(name, 0) - value)
        for quota in self.cluster.quotas.values():
            own = self.book.used(quota.namespace)
            for name, value in quota.max.items():
                out[quota.namespace, name] = max(0, own.get(name, 0) - value)
        return out

    def audited(self, now: float, limit: int | None = None) -> list[Decision]:
        if len(self.evicted) > MAX_ROUNDS * len(self.cluster.pods):
            raise EndlessEvictions([f"{item.pod.key} for {item.preemptor.key}" for item in self.evicted[-6:]])
        decisions = self._step(now, 1 if self.one_by_one else limit)
        self.faults += self.scheduler.state.check()
        for preemptor, group in itertools.groupby(decisions, _preemptor):
            batch = list(group)
            victims = [item.pod.key for item in batch if isinstance(item, Evicted)]
            last = batch[-1]
            if victims:
                assert isinstance(last, Rejected)
                self.check_preemption(self.pods[preemptor], victims, last.nominated)
                self.book.leaving.update(victims)
            self.follow(self.pods[preemptor], last)
        return decisions

    def _write(self, write: Write) -> bool:
        if not isinstance(write, Evict):
            return super()._write(write)
        key = f"{write.namespace}/{write.name}"
        if self.slow:
            pod = self.objects.get(("Pod", write.namespace, write.name))
            if pod is None or pod["metadata"].get("deletionTimestamp"):
                self.faults.append(f"{key} is evicted once more")
                return False
            going = merge_patch(
                copy.deepcopy(pod), {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
            )
            self.observe(self.objects.update(going, "evict"))
            return True
        changed = super()._write(write)
        self.end(key)
        return changed

    def end(self, key: str) -> None:
        """A victim is gone; where there is a controller, another pod like it waits now."""
        pod, _ = self.book.bound.pop(key)
        self.book.leaving.discard(key)
        if self.reborn:
            first, _, life = pod.name.partition("-")
            again = dataclasses.replace(pod, name=f"{first}-{int(life or 0) + 1}", node="")
            self.pods[again.key] = again
            self.observe(self.objects.create(again.raw(0), "reborn"))

    def follow(self, pod: RandomPod, decision: Decision) -> None:
        """Carry a decision over into the model."""
        if isinstance(decision, Placed):
            if not self.book.may_place(pod, decision.node):
                self.faults.append(f"{pod.key} was placed on {decision.node}, where it does not fit")
            self.book.nominated.pop(pod.key, None)
            self.book.bound[pod.key] = (pod, decision.node)
            self.landed.append(pod.key)
            for which, value in self.excess().items():
                if value > self.before[which]:
                    self.faults.append(f"placing {pod.key} put {which} over its limit by {value}")
        elif isinstance(decision, Rejected):
            self.book.nominated.pop(pod.key, None)
            if decision.nominated:
                self.book.nominated[pod.key] = (pod, decision.nominated)

    def check_preemption(self, pod: RandomPod, victims: Sequence[str], node: str) -> None:
        """Lawful, sufficient and minimal, as things will be when all who leave are gone."""
        self.preempted.setdefault(pod.key, self.book.within_min(pod))
        say = f"{pod.key} for {node} evicts {sorted(victims)}"
        if pod.never:
            self.faults.append(f"{say} in spite of preemptionPolicy Never")
        if len(set(victims) - self.book.leaving) != len(victims):
            self.faults.append(f"{say}: a pod twice")
        self.faults += [f"{say}: {problem}" for problem in self.unlawful(pod, victims)]
        if not self.book.fits(pod, node, victims):
            self.faults.append(f"{say}, and still does not fit")
        for key in victims:
            if self.book.fits(pod, node, [other for other in victims if other != key]):
                self.faults.append(f"{say}, but {key} could have stayed")

    def unlawful(self, pod: RandomPod, victims: Sequence[str]) -> list[str]:
        book = self.book
        others = [book.bound[key][0] for key in victims]
        if book.quota(pod) is None:
            bad = [v.key for v in others if book.quota(v) is not None or v.priority >= pod.priority]
            return [f"{key} is under a quota, or not less important" for key in bad]
        if book.within_min(pod):
            return [] if book.may_reclaim(pod, victims) else ["a victim's quota does not borrow"]
        bad = [v.key for v in others if v.namespace != pod.namespace or v.priority >= pod.priority]
        return [f"{key} is of another namespace, or not less important" for key in bad]


def _preemptor(decision: Decision) -> str:
    return decision.preemptor.key if isinstance(decision, Evicted) else decision.pod.key


def missed(audit: Audit) -> list[str]:
    """Waiting pods that could run after evictions that the rules allow."""
    found = []
    for pod in audit.waiting():
        victims = [] if pod.never else way_in(audit.book, pod)
        if victims:
            found.append(f"{pod.key} waits, though it may evict {victims}")
    return found


def way_in(book: Book, pod: RandomPod) -> list[str]:
    """Some lawful set of victims that lets the pod in, if there is one; all subsets are tried."""
    bound = {key: item[0] for key, item in book.bound.items()}
    if book.within_min(pod):
        lenders = {name for name, quota in book.cluster.quotas.items() if book.over(quota)}
        candidates = [key for key, v in bound.items() if v.namespace in lenders - {pod.namespace}]
        if len(candidates) > BRUTE_FORCE:
            return []
        sizes = range(1, len(candidates) + 1)
        subsets = itertools.chain.from_iterable(itertools.combinations(candidates, size) for size in sizes)
        return next(
            (list(s) for s in subsets if book.fits_somewhere(pod, s) and book.may_reclaim(pod, s)), []
        )
    lower = [key for key, v in bound.items() if v.priority < pod.priority]
    if book.quota(pod) is not None:
        lower = [key for key in lower if bound[key].namespace == pod.namespace]
        return lower if book.fits_somewhere(pod, lower) else []
    lower = [key for key in lower if book.quota(bound[key]) is None]
    for node in book.cluster.nodes:
        here = [key for key in lower if book.bound[key][1] == node]
        if book.fits(pod, node, here):
            return here
    return []


def in_vain(audit: Audit) -> list[str]:
    """Pods that reclaimed their min and did not get it, though nobody of their own took their place."""
    return [
        key
        for key, reclaimed in audit.preempted.items()
        if reclaimed and key not in audit.landed and key not in {item.pod.key for item in audit.evicted}
        if not any(audit.pods[other].namespace == audit.pods[key].namespace for other in audit.landed)
    ]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_preemption_is_lawful_minimal_and_complete(batch: int) -> None:
    for seed in range(batch * PER_BATCH, (batch + 1) * PER_BATCH):
        audit = Audit(random_cluster(seed), **MODES[seed % len(MODES)]).play()
        assert not audit.faults, f"seed {seed}: {audit.faults[0]}"
        if seed in TRIED_TOO_EARLY:
            assert missed(audit), f"seed {seed} is solved: take it out of the list"
            continue
        assert not missed(audit), f"seed {seed}: {missed(audit)[0]}"
        assert not in_vain(audit), f"seed {seed}: {in_vain(audit)} evicted others in vain"
