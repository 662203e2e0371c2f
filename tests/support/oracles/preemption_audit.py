"""The scheduler on random clusters, every decision held against a model that shares no code with it."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.load import muster_config
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.queue.scheduling_queue import FLUSH_AFTER_SECONDS
from scheduler_core.model.writes import Evict, Write
from scheduler_core.simulate.objects import merge_patch
from scheduler_core.simulate.world import Simulation
from tests.support.oracles.random_cluster import Book, Cluster, RandomPod

CONFIG: Final = muster_config()
# How often every pod of a cluster may be evicted on average; lawful clusters stay far below one.
MAX_ROUNDS: Final = 2
# Beyond this many candidates the search over all subsets is left out.
BRUTE_FORCE: Final = 10


class EndlessEvictions(AssertionError):
    """Pods evict each other in a circle; the last evictions."""


@dataclasses.dataclass(frozen=True)
class Claim:
    """What a pod that evicts others has a right to: `reclaims` its min, or may be refused by other quotas

    where its own is `over` min without the victims. `landed` is how many pods had landed by then.
    """

    reclaims: bool
    over: bool
    landed: int


class Audit(Simulation):
    """The simulation, with every decision checked against the model before it is carried out.

    `one_by_one`: a pod's victims are gone before the next pod is decided. `slow`: victims stay, terminating,
    until the scheduler has nothing more to do. `reborn`: a victim comes back as a new waiting pod, as a
    controller would have it. `across` says whether `config` lets victims be on several nodes.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        one_by_one: bool = False,
        slow: bool = False,
        reborn: bool = False,
        config: SchedulerConfiguration = CONFIG,
        across: bool = True,
    ) -> None:
        super().__init__(config, 1_700_000_000.0)
        self.cluster = cluster
        self.book = Book(cluster)
        self.pods = {pod.key: pod for pod in cluster.pods}
        self.book.bound = {pod.key: (pod, pod.node) for pod in cluster.pods if pod.node}
        self.faults: list[str] = []
        self.claims: dict[str, Claim] = {}
        self.landed: list[str] = []
        self.one_by_one, self.slow, self.reborn, self.across = one_by_one, slow, reborn, across
        self._step = self.scheduler.step
        self.scheduler.step = self.audited  # type: ignore[method-assign]
        self._review = self.scheduler.reviews.review
        self.scheduler.reviews.review = self.reviewed  # type: ignore[method-assign]
        self.before = self.excess()

    def play(self) -> Audit:
        """Until idle, and again after the time in which the queue tries everything once more.

        Nobody may need that second time to get its min, or a place that is free.
        """
        for i, raw in enumerate(self.cluster.objects()):
            self.observe(self.objects.create(raw, f"objects[{i}]"))
        self.settle()
        nodes = self.book.cluster.nodes
        self.faults += [
            f"{pod.key} fits and waits"
            for pod in self.waiting()
            if any(self.book.may_place(pod, node) for node in nodes)
        ]
        self.faults += self.missed(pod for pod in self.waiting() if self.book.within_min(pod))
        self.now += FLUSH_AFTER_SECONDS + 1
        self.settle()
        self.faults += self.missed(self.waiting())
        self.faults += self.in_vain()
        return self

    def settle(self) -> None:
        """Until idle and no victim is left."""
        self.run()
        while self.book.leaving:
            self.faults += self.held_back()
            key = sorted(self.book.leaving)[0]
            self.end(key)
            self.observe(self.objects.delete(_raw(key), "end"))
            self.run()

    def held_back(self) -> list[str]:
        """Pods within min that wait, while victims leave, where only less guaranteed pods are nominated."""
        book = self.book
        pods = (pod for pod in self.waiting() if pod.key not in book.nominated and book.within_min(pod))
        return [
            f"{pod.key} is within min, waits, and would fit"
            for pod in pods
            if any(book.may_place(pod, node) for node in book.cluster.nodes)
        ]

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

    # Decisions

    def audited(self, now: float, limit: int | None = None) -> list[Decision]:
        if len(self.evicted) > MAX_ROUNDS * len(self.cluster.pods):
            raise EndlessEvictions([f"{item.pod.key} for {item.preemptor.key}" for item in self.evicted[-6:]])
        return self.judged(self._step(now, 1 if self.one_by_one else limit))

    def reviewed(self, now: float, after: float = 0.0) -> list[Decision]:
        """A second look at who waits is judged as the first."""
        return self.judged(self._review(now, after))

    def judged(self, decisions: list[Decision]) -> list[Decision]:
        """Hold decisions against the model, and carry them over into it."""
        self.faults += self.scheduler.state.check()
        for preemptor, group in itertools.groupby(decisions, _preemptor):
            batch = list(group)
            victims = [item.pod.key for item in batch if isinstance(item, Evicted)]
            last = batch[-1]
            if victims:
                assert isinstance(last, Rejected)
                self.check_preemption(self.pods[preemptor], victims, last.nominated)
                self.book.leaving.update(victims)
                self.book.victims[preemptor] = set(victims)
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
            again = dataclasses.replace(
                pod, name=f"{first}-{int(life or 0) + 1}", node="", created=int(self.now)
            )
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
            _, kept = self.book.nominated.get(pod.key, (pod, ""))
            if kept != decision.nominated:
                self.book.nominated.pop(pod.key, None)
            if decision.nominated:
                self.book.nominated.setdefault(pod.key, (pod, decision.nominated))

    def check_preemption(self, pod: RandomPod, victims: Sequence[str], node: str) -> None:
        """Lawful, sufficient and minimal on all nodes, as things will be when all who leave are gone."""
        book = self.book
        over = book.quota(pod) is not None and bool(book.over_with(pod.namespace, pod.cost, victims))
        self.claims.setdefault(pod.key, Claim(book.within_min(pod), over, len(self.landed)))
        say = f"{pod.key} for {node} evicts {sorted(victims)}"
        if pod.never:
            self.faults.append(f"{say} in spite of preemptionPolicy Never")
        if len(set(victims) - book.leaving) != len(victims):
            self.faults.append(f"{say}: a pod twice")
        self.faults += [f"{say}: {problem}" for problem in self.unlawful(pod, victims)]
        if not book.fits(pod, node, victims):
            self.faults.append(f"{say}, and still does not fit")
        if not self.across and any(book.bound[key][1] != node for key in victims):
            self.faults.append(f"{say}, not all on that node")
        for key in victims:
            rest = [other for other in victims if other != key]
            spared = book.fits_somewhere(pod, rest) if self.across else book.fits(pod, node, rest)
            if spared:
                self.faults.append(f"{say}, but {key} could have stayed")

    def unlawful(self, pod: RandomPod, victims: Sequence[str]) -> list[str]:
        book = self.book
        others = [book.bound[key][0] for key in victims]
        if book.quota(pod) is None:
            bad = [v.key for v in others if book.quota(v) is not None or v.priority >= pod.priority]
            return [f"{key} is under a quota, or not less important" for key in bad]
        if book.within_min(pod):
            if not book.may_reclaim(pod, victims):
                return ["a victim's quota does not borrow"]
            first = book.above_max(pod.cost)
            if not self.across or all(victim.namespace in first for victim in others):
                return []
            instead = way_in(book, pod, across=True, among=first) if first else ()
            return [f"{sorted(instead)} would do, whose quotas are above their max"] if instead else []
        bad = [v.key for v in others if v.namespace != pod.namespace or v.priority >= pod.priority]
        covered = [v.key for v in others if v.key not in bad and book.spares(pod, v)]
        return [
            *(f"{key} is of another namespace, or not less important" for key in bad),
            *(f"the min covers {key}, and not the preemptor" for key in covered),
        ]

    # The end

    def missed(self, pods: Iterable[RandomPod]) -> list[str]:
        """Waiting pods that could run after evictions that the rules allow."""
        ways = ((pod, way_in(self.book, pod, across=self.across)) for pod in pods if not pod.never)
        return [f"{pod.key} waits, though it may evict {way}" for pod, way in ways if way]

    def in_vain(self) -> list[str]:
        """Pods that evicted others, were not evicted themselves, and got nothing.

        A more important pod of the same quota may overtake them. What a pod has evicted for a quota that
        borrows, or for no quota, a pod within its own min may take (reference, rule 4); a pod that reclaims
        its min loses it to nobody.
        """
        evicted = {item.pod.key for item in self.evicted}
        found = []
        for key, claim in self.claims.items():
            pod = self.pods[key]
            later = [self.pods[other] for other in self.landed[claim.landed :]]
            quota = self.book.quota(pod)
            overtaken = any(
                other.priority > pod.priority and self.book.quota(other) is quota for other in later
            )
            over = claim.over or bool(self.book.over_with(pod.namespace, pod.cost)) if quota else True
            borrows = over and not claim.reclaims
            if key not in self.landed and key not in evicted and not overtaken and not borrows:
                found.append(f"{key} evicted others in vain")
        return found


def _raw(key: str) -> dict[str, Any]:
    namespace, _, name = key.partition("/")
    return {"kind": "Pod", "metadata": {"namespace": namespace, "name": name}}


def _preemptor(decision: Decision) -> str:
    return decision.preemptor.key if isinstance(decision, Evicted) else decision.pod.key


def way_in(
    book: Book, pod: RandomPod, *, across: bool, among: Collection[str] | None = None
) -> Collection[str]:
    """Some lawful set of victims that lets the pod in, if there is one; all subsets are tried.

    Where the pod reclaims its min, `among` may say of which namespaces.
    """
    bound = {key: item[0] for key, item in book.bound.items()}
    if book.within_min(pod):
        borrowers = {name for name, quota in book.cluster.quotas.items() if book.over(quota)}
        borrowers &= borrowers if among is None else set(among)
        candidates = [key for key, v in bound.items() if v.namespace in borrowers - {pod.namespace}]
        if len(candidates) > BRUTE_FORCE:
            return []
        sizes = range(1, len(candidates) + 1)
        subsets = itertools.chain.from_iterable(itertools.combinations(candidates, size) for size in sizes)
        return next(
            (s for s in subsets if lets_in(book, pod, s, across=across) and book.may_reclaim(pod, s)), []
        )
    lower = [key for key, v in bound.items() if v.priority < pod.priority]
    if book.quota(pod) is not None:
        lower = [key for key in lower if bound[key].namespace == pod.namespace]
        lower = [key for key in lower if book.spares(pod, bound[key]) is False]
        if across:
            return lower if book.fits_somewhere(pod, lower) else []
    else:
        lower = [key for key in lower if book.quota(bound[key]) is None]
    here = ([key for key in lower if book.bound[key][1] == node] for node in book.cluster.nodes)
    return next((some for some in here if some and lets_in(book, pod, some, across=False)), [])


def lets_in(book: Book, pod: RandomPod, victims: Collection[str], *, across: bool) -> bool:
    """Whether the pod fits without the victims; unless `across`, on the one node that they are on."""
    if across:
        return book.fits_somewhere(pod, victims)
    nodes = {book.bound[key][1] for key in victims}
    return len(nodes) == 1 and book.fits(pod, nodes.pop(), victims)
