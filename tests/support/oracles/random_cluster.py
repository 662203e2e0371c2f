"""Random small clusters, and a plain model of them that knows the rules of quota and preemption.

The model shares no code with the scheduler: pods are records of whole numbers, every question is a loop.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.builders import make_budget, make_node, make_pod, make_quota

Amounts = Mapping[str, int]

_NOTHING: Amounts = {}
RESOURCES = ("cpu", "memory", "nvidia.com/gpu")
FREE_NAMESPACE = "free"


@dataclass(frozen=True)
class RandomPod:
    """A pod: whole amounts, the node it runs on (empty: it waits), and since when it is there, in seconds."""

    namespace: str
    name: str
    requests: Amounts
    priority: int
    node: str = ""
    never: bool = False
    app: str = "a"
    created: int = 0

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def rank(self) -> tuple[int, int, str]:
        """The most important first, then the oldest."""
        return -self.priority, self.created, self.key

    @property
    def cost(self) -> dict[str, int]:
        """What it takes of a node and of a quota."""
        return {**self.requests, "pods": 1}

    def raw(self, order: int) -> dict[str, Any]:
        pod = make_pod(self.key).priority(self.priority).labels(app=self.app)
        pod.containers({"name": "main", "resources": {"requests": _text(self.requests)}})
        if self.never:
            pod.never()
        if self.node:
            pod.on(self.node).started(1_600_000_000 + order)
        return pod.dict()


@dataclass(frozen=True)
class RandomQuota:
    """min and max of a namespace."""

    namespace: str
    min: Amounts
    max: Amounts

    def raw(self) -> dict[str, Any]:
        quota = make_quota(f"{self.namespace}/quota")
        quota.raw["spec"] = {"min": _text(self.min), "max": _text(self.max)}
        return quota.dict()


@dataclass(frozen=True)
class Cluster:
    """Nodes by name, quotas by namespace, pods in order of creation, disruption budgets as raw objects."""

    nodes: Mapping[str, Amounts]
    quotas: Mapping[str, RandomQuota]
    pods: tuple[RandomPod, ...]
    budgets: tuple[dict[str, Any], ...] = ()

    def objects(self) -> list[dict[str, Any]]:
        """All objects, raw."""
        nodes = []
        for name, amounts in self.nodes.items():
            node = make_node(name)
            node.raw["status"] = {"allocatable": _text(amounts)}
            nodes.append(node.dict())
        pods = [pod.raw(order) for order, pod in enumerate(self.pods)]
        return [*nodes, *(quota.raw() for quota in self.quotas.values()), *self.budgets, *pods]


def _as_important(pod: RandomPod, among: Iterable[RandomPod]) -> list[RandomPod]:
    """Other pods of at least the priority of a pod."""
    return [one for one in among if one.priority >= pod.priority and one.key != pod.key]


def _text(amounts: Amounts) -> dict[str, str]:
    return {name: str(value) for name, value in amounts.items()}


@dataclass
class Book:
    """Who runs where now; `nominated` are waiting pods with the node kept for them, longest first.

    `leaving` are running pods whose eviction was decided: they still hold what they have, but nobody counts
    on them to stay. `victims` are whom each nominated pod has evicted.
    """

    cluster: Cluster
    bound: dict[str, tuple[RandomPod, str]] = field(default_factory=dict)
    nominated: dict[str, tuple[RandomPod, str]] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    victims: dict[str, set[str]] = field(default_factory=dict)

    def quota(self, pod: RandomPod) -> RandomQuota | None:
        return self.cluster.quotas.get(pod.namespace)

    def free(self, node: str, without: Collection[str] = ()) -> dict[str, int]:
        """What is left of a node."""
        left = dict(self.cluster.nodes[node])
        for key, (pod, at) in self.bound.items():
            if at == node and key not in without:
                subtract(left, pod.cost)
        return left

    def used(self, namespace: str, without: Collection[str] = ()) -> dict[str, int]:
        """What a namespace's pods use."""
        total: dict[str, int] = {}
        for key, (pod, _) in self.bound.items():
            if pod.namespace == namespace and key not in without:
                add(total, pod.cost)
        return total

    def sum_of_min(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for quota in self.cluster.quotas.values():
            add(total, quota.min)
        return total

    def sum_of_used(self, without: Collection[str] = ()) -> dict[str, int]:
        """What all quotas use, each at most its max: what is above that counts against nobody else."""
        total: dict[str, int] = {}
        for namespace, quota in self.cluster.quotas.items():
            used = self.used(namespace, without)
            add(total, {name: min(value, quota.max.get(name, value)) for name, value in used.items()})
        return total

    def above_max(self, asked: Amounts) -> set[str]:
        """Quotas (namespaces) that use more than their max of what is asked for: they give before others."""
        found = set()
        for namespace, quota in self.cluster.quotas.items():
            used = self.used(namespace, self.leaving)
            if any(asked.get(name) and used.get(name, 0) > high for name, high in quota.max.items()):
                found.add(namespace)
        return found

    def relevant(self, quota: RandomQuota) -> set[str]:
        return {*self.sum_of_min(), *quota.max}

    def over(self, quota: RandomQuota, without: Collection[str] = ()) -> set[str]:
        """Resources in which a quota uses more than its min."""
        used = self.used(quota.namespace, without)
        return {name for name in self.relevant(quota) if used.get(name, 0) > quota.min.get(name, 0)}

    def _others(self, pod: RandomPod) -> Iterable[tuple[RandomPod, str]]:
        return (item for key, item in self.nominated.items() if key != pod.key and key not in self.bound)

    def _is_ready(self, pod: RandomPod) -> bool:
        """Whether a pod is nominated and waits for nobody who leaves, on its node or in its quota."""
        if pod.key not in self.nominated or pod.key in self.bound:
            return False
        node = self.nominated[pod.key][1]
        there = {key for key in self.leaving if self.bound[key][1] == node}
        if (self.victims.get(pod.key) or there) & self.leaving:
            return False
        if there and not self.has_room(pod, node, reserved=False):
            return False
        return self.admitted(pod, reserved=False) or not self.admitted(pod, self.leaving, reserved=False)

    def reserved(
        self, pod: RandomPod, without: Collection[str] = (), *, in_order: bool = False
    ) -> tuple[dict[str, int], dict[str, int]]:
        """(own quota, all quotas): what nominated pods will use, as far as they stand before `pod`.

        `in_order`: of nominated pods that wait for nobody, those that come after one of them do not count
        against it (reference, "Nobody waits beside free room").
        """
        in_order = in_order and self._is_ready(pod)
        own = self._ahead(pod, in_order=in_order)
        guaranteed = self._within_min(pod, own, without)
        if self.quota(pod) is not None and not guaranteed:
            # Who would borrow does not pass less important ones of its quota that stay within the min.
            for other, _ in self._others(pod):
                behind = other.namespace == pod.namespace and other.priority < pod.priority
                if behind and self._waits_within_min(other, without):
                    add(own, other.cost)
        total = dict(own)
        elsewhere: dict[str, list[RandomPod]] = {}
        for other, _ in self._others(pod):
            if self.quota(other) is not None and other.namespace != pod.namespace:
                elsewhere.setdefault(other.namespace, []).append(other)
        for namespace, others in elsewhere.items():
            # Only a pod within its own min goes before what others have evicted for above theirs.
            over = self.over_with(namespace, _sum_of(others), without) if guaranteed else set()
            if in_order:
                others = [
                    other
                    for other in others
                    if other.rank < pod.rank
                    or not self._is_ready(other)
                    or (not guaranteed and self._waits_within_min(other, without))
                ]
            more = {name: value for name, value in _sum_of(others).items() if name not in over}
            add(total, self._within_max(namespace, more, without))
        return own, total

    def _within_max(self, namespace: str, more: Amounts, without: Collection[str]) -> dict[str, int]:
        """What a quota's max leaves of more use: beyond it none of its pods will start."""
        high, used = self.cluster.quotas[namespace].max, self.used(namespace, {*without, *self.leaving})
        return {
            name: max(0, min(value, high[name] - used.get(name, 0))) if name in high else value
            for name, value in more.items()
        }

    def _ahead(self, pod: RandomPod, *, in_order: bool = False) -> dict[str, int]:
        """What nominated pods of its quota will use that are at least as important; of nominated, the older.

        `in_order`: before a pod within the min come no borrowers that wait for nobody.
        """
        if self.quota(pod) is None:
            return {}
        own = [other for other, _ in self._others(pod) if other.namespace == pod.namespace]
        if pod.key not in self.nominated:
            return _sum_of(other for other in own if other.priority >= pod.priority)
        passes = in_order and self._waits_within_min(pod)
        return _sum_of(
            other
            for other in own
            if other.rank < pod.rank
            and not (passes and self._is_ready(other) and not self._waits_within_min(other))
        )

    def over_with(self, namespace: str, more: Amounts, without: Collection[str] = ()) -> set[str]:
        """Resources in which a quota would use more than its min with more, without those who leave."""
        quota = self.cluster.quotas[namespace]
        used = self.used(namespace, {*without, *self.leaving})
        add(used, more)
        return {name for name in self.relevant(quota) if used.get(name, 0) > quota.min.get(name, 0)}

    def admitted(
        self,
        pod: RandomPod,
        without: Collection[str] = (),
        *,
        reserved: bool = True,
        in_order: bool = False,
    ) -> bool:
        """max and the sum of min, for the resources that the pod asks for."""
        quota = self.quota(pod)
        if quota is None:
            return True
        own, total = self.reserved(pod, without, in_order=in_order) if reserved else ({}, {})
        used, in_use, room = self.used(pod.namespace, without), self.sum_of_used(without), self.sum_of_min()
        return all(
            (name not in quota.max or used.get(name, 0) + own.get(name, 0) + asked <= quota.max[name])
            and (name not in room or in_use.get(name, 0) + total.get(name, 0) + asked <= room[name])
            for name, asked in pod.cost.items()
            if asked
        )

    def _goes_first(self, other: RandomPod, node: str, pod: RandomPod, without: Collection[str] = ()) -> bool:
        """Whether a pod that the node is kept for stands before `pod`, for which it may be kept as well."""
        if self.quota(other) is self.quota(pod):
            if other.priority >= pod.priority or self.quota(pod) is None:
                return other.priority >= pod.priority
            return not self.within_min(pod, without) and self._waits_within_min(other, without)
        nominated = pod.key in self.nominated
        own = self._waits_within_min(pod, without) if nominated else self.within_min(pod, without)
        own |= self.quota(pod) is None and pod.priority > other.priority
        theirs = self._waits_within_min(other, without)
        theirs |= self.quota(other) is None and other.priority > pod.priority
        if own != theirs:
            return theirs
        if self.nominated.get(pod.key, (pod, ""))[1] != node:
            return True
        waiting = list(self.nominated)
        return waiting.index(other.key) < waiting.index(pod.key)

    def has_room(
        self, pod: RandomPod, node: str, without: Collection[str] = (), *, reserved: bool = True
    ) -> bool:
        """Whether the node's resources suffice beside those whom it is kept for."""
        left = self.free(node, without)
        for other, at in self._others(pod):
            if reserved and at == node and self._goes_first(other, node, pod, without):
                subtract(left, other.cost)
        return all(asked <= left.get(name, 0) for name, asked in pod.cost.items() if asked)

    def fits(self, pod: RandomPod, node: str, without: Collection[str] = ()) -> bool:
        """Whether the pod fits once all who leave, and those in `without`, are gone."""
        gone = {*without, *self.leaving}
        return self.admitted(pod, gone) and self.has_room(pod, node, gone)

    def fits_somewhere(self, pod: RandomPod, without: Collection[str] = ()) -> bool:
        return any(self.fits(pod, node, without) for node in self.cluster.nodes)

    def may_place(self, pod: RandomPod, node: str) -> bool:
        """Whether the pod fits now, and does not take what is kept for others."""
        now = self.admitted(pod, reserved=False) and self.has_room(pod, node, reserved=False)
        later = self.admitted(pod, self.leaving, in_order=True) and self.has_room(pod, node, self.leaving)
        return now and later

    def within_min(self, pod: RandomPod, without: Collection[str] = ()) -> bool:
        return self._within_min(pod, self._ahead(pod), without)

    def _waits_within_min(self, other: RandomPod, without: Collection[str] = ()) -> bool:
        """Whether a nominated pod stays within min beside those of its quota before it that do so, too."""
        own: dict[str, int] = {}
        waiting = [item for key, (item, _) in self.nominated.items() if key not in self.bound]
        for item in sorted(waiting, key=lambda item: item.rank):
            if item.namespace == other.namespace:
                within = self._within_min(item, own, without)
                if item.key == other.key:
                    return within
                if within:
                    add(own, item.cost)
        return self._within_min(other, own, without)

    def _within_min(self, pod: RandomPod, own: Amounts, without: Collection[str] = ()) -> bool:
        quota = self.quota(pod)
        if quota is None:
            return False
        used, names = self.used(pod.namespace, {*without, *self.leaving}), self.relevant(quota)
        return all(
            used.get(name, 0) + own.get(name, 0) + asked <= quota.min.get(name, 0)
            for name, asked in pod.cost.items()
            if asked and name in names
        )

    def spares(self, pod: RandomPod, other: RandomPod) -> bool | None:
        """Whether the min covers a less important pod of the same quota, but not `pod`, which then spares it.

        None where this depends on who of one priority started first.
        """
        if len(self.cluster.quotas) == 1 or self._beyond_min(other, ()):
            return False
        own = [item for key, (item, _) in self.bound.items() if key not in self.leaving]
        own = [item for item in own if item.namespace == pod.namespace]
        ahead = [item for item in own if item.priority >= pod.priority]
        if not self._beyond_min(pod, ahead, self.reserved(pod)[0]):
            return False
        sure = [item for item in ahead if not self._beyond_min(item, _as_important(item, own))]
        beyond = self._beyond_min(pod, sure)
        return True if beyond and not self._beyond_min(other, _as_important(other, own)) else None

    def _beyond_min(self, pod: RandomPod, beside: Iterable[RandomPod], more: Amounts = _NOTHING) -> bool:
        """Whether a pod and others are together beyond the min of its quota in something it asks for."""
        quota, total = self.cluster.quotas[pod.namespace], dict(more)
        for one in (pod, *beside):
            add(total, one.cost)
        names = {name for name, value in pod.cost.items() if value} & self.relevant(quota)
        return any(total.get(name, 0) > quota.min.get(name, 0) for name in names)

    def may_reclaim(self, pod: RandomPod, victims: Collection[str]) -> bool:
        """Whether the victims can be taken one after the other, each while its quota borrows what it uses."""
        for namespace in {self.bound[key][0].namespace for key in victims}:
            quota = self.cluster.quotas.get(namespace)
            if quota is None or namespace == pod.namespace:
                return False
            own = [key for key in victims if self.bound[key][0].namespace == namespace]
            uses = {key: {name for name, value in self.bound[key][0].cost.items() if value} for key in own}
            if not all(uses[key] & self.over(quota, self.leaving) for key in own):
                return False
            if not any(uses[last] & self.over(quota, {*own, *self.leaving} - {last}) for last in own):
                return False
        return True


def add(total: dict[str, int], amounts: Amounts) -> None:
    for name, value in amounts.items():
        total[name] = total.get(name, 0) + value


def _sum_of(pods: Iterable[RandomPod]) -> dict[str, int]:
    total: dict[str, int] = {}
    for pod in pods:
        add(total, pod.cost)
    return total


def subtract(total: dict[str, int], amounts: Amounts) -> None:
    for name, value in amounts.items():
        total[name] = total.get(name, 0) - value


# Generation


def random_requests(rng: random.Random) -> dict[str, int]:
    requests = {"cpu": rng.choice([1, 1, 1, 2, 2, 3])} if rng.random() < 0.9 else {}
    if rng.random() < 0.35:
        requests["memory"] = rng.randint(1, 3)
    if rng.random() < 0.25:
        requests["nvidia.com/gpu"] = rng.randint(1, 2)
    return requests


def random_quota(rng: random.Random, namespace: str, share: Amounts) -> RandomQuota:
    """A quota whose min is at most `share`."""
    low = {name: rng.randint(share[name] // 2, share[name]) for name in RESOURCES if rng.random() < 0.6}
    high = {name: low.get(name, 0) + rng.randint(0, 4) for name in RESOURCES if rng.random() < 0.3}
    if rng.random() < 0.1:
        low["pods"] = rng.randint(0, 4)
    return RandomQuota(namespace, low, high)


def random_cluster(seed: int) -> Cluster:
    """1-6 nodes, 1-4 quotas, pods with and without quota, some running; deterministic per seed.

    In seven clusters of eight the running pods obey the quotas; in the others anything goes.
    """
    rng = random.Random(seed)
    nodes = {
        f"n{i}": {
            "cpu": rng.randint(1, 5),
            "memory": rng.randint(2, 6),
            "nvidia.com/gpu": rng.choice([0, 0, 2, 4]),
            "pods": rng.choice([3, 8, 8, 8]),
        }
        for i in range(rng.randint(1, 6))
    }
    namespaces = [f"q{i}" for i in range(rng.randint(1, 4))]
    share = {name: sum(n[name] for n in nodes.values()) // len(namespaces) for name in RESOURCES}
    quotas = {namespace: random_quota(rng, namespace, share) for namespace in namespaces}
    budgets = tuple(
        make_budget(f"{namespace}/budget").selects(app="a").allows(rng.randint(0, 1)).dict()
        for namespace in [*namespaces, FREE_NAMESPACE]
        if rng.random() < 0.2
    )
    book = Book(Cluster(nodes, quotas, ()))
    lawful = rng.random() < 0.875
    pods = [_running(rng, book, f"r{i}", lawful) for i in range(rng.randint(4, 18))]
    waiting = [_pod(rng, namespaces, f"w{i}") for i in range(rng.randint(1, 6))]
    return Cluster(nodes, quotas, (*(pod for pod in pods if pod), *waiting), budgets)


def _pod(rng: random.Random, namespaces: list[str], name: str, node: str = "") -> RandomPod:
    namespace = rng.choice([*namespaces, *namespaces, FREE_NAMESPACE])
    never = not node and rng.random() < 0.1
    priority = rng.choice([0, 0, 5, 10])
    return RandomPod(namespace, name, random_requests(rng), priority, node, never, rng.choice("ab"))


def _running(rng: random.Random, book: Book, name: str, lawful: bool) -> RandomPod | None:
    pod = _pod(rng, list(book.cluster.quotas), name, rng.choice(list(book.cluster.nodes)))
    if not book.has_room(pod, pod.node) or (lawful and not book.admitted(pod)):
        return None
    book.bound[pod.key] = (pod, pod.node)
    return pod
