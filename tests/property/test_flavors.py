"""Random clusters with flavors: charges equal a slow count, nobody waits who fits, no limit is exceeded, and
no quota loses what it is guaranteed of a flavor.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.simulate import Simulation
from tests.support.every import every_seed
from tests.support.searches import cases

HISTORIES = cases(60, least=4)
GUARANTEES = cases(60, least=4)
KEPT = cases(30, least=4)
GPU = "nvidia.com/gpu"
SPACES = ("a", "b", "c")
KINDS = ("h100", "a100", "")
Raw = dict[str, Any]


def _flavor(name: str) -> Raw:
    spec = {"resource": GPU, "nodeSelector": {"gpu": name}}
    api = "muster.dev/v1alpha1"
    return {"apiVersion": api, "kind": "QuotaFlavor", "metadata": {"name": name}, "spec": spec}


def _node(name: str, kind: str, gpus: int) -> Raw:
    labels = {"gpu": kind} if kind else {}
    allocatable = {GPU: str(gpus), "pods": "100"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


class FlavorWorld:
    """Nodes of two flavors and of none, three quotas, and pods that come and go."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.simulation = Simulation()
        self.state = self.simulation.scheduler.state
        self.made = 0
        self.kinds: dict[str, str] = {}
        self.gpus: dict[str, int] = {}

    def put(self, raw: Raw, *, new: bool = True) -> None:
        if new:
            self.simulation.create(raw)
        else:
            self.simulation.update(raw)

    def node(self, name: str, kind: str, gpus: int) -> None:
        self.put(_node(name, kind, gpus), new=name not in self.kinds)
        self.kinds[name], self.gpus[name] = kind, gpus

    def lose_node(self, name: str) -> None:
        self.delete("Node", name)
        del self.kinds[name], self.gpus[name]

    def quota(self, space: str, low: dict[str, int], high: dict[str, int], *, new: bool = True) -> None:
        spec = {"min": {name: str(v) for name, v in low.items()}}
        if high:
            spec["max"] = {name: str(v) for name, v in high.items()}
        meta = {"name": "quota", "namespace": space}
        api = "scheduling.x-k8s.io/v1alpha1"
        self.put({"apiVersion": api, "kind": "ElasticQuota", "metadata": meta, "spec": spec}, new=new)

    def random_quota(self, space: str, *, new: bool = True) -> None:
        dice = self.dice
        low = {FLAVOR_PREFIX + "h100": dice.randint(0, 3), FLAVOR_PREFIX + "a100": dice.randint(0, 3)}
        low[GPU] = sum(low.values()) + dice.randint(0, 2)
        if dice.random() < 0.3:
            del low[FLAVOR_PREFIX + "a100"]
        high = {}
        if dice.random() < 0.5:
            high[GPU] = low[GPU] + dice.randint(0, 4)
        if dice.random() < 0.5:
            high[FLAVOR_PREFIX + "h100"] = low[FLAVOR_PREFIX + "h100"] + dice.randint(0, 2)
        self.quota(space, low, high, new=new)

    def pod(self, space: str, size: int, pin: str = "", group: str = "", priority: int = 0) -> str:
        self.made += 1
        labels = {"scheduling.x-k8s.io/pod-group": group} if group else {}
        spec: Raw = {
            "schedulerName": "muster-scheduler",
            "containers": [{"name": "c", "resources": {"limits": {GPU: str(size)}}}],
            "priority": priority,
        }
        if pin:
            spec["nodeSelector"] = {"gpu": pin}
        meta = {"name": f"p{self.made}", "namespace": space, "labels": labels}
        self.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
        return str(meta["name"])

    def gang(self, space: str, size: int, count: int, pin: str) -> None:
        name = f"g{self.made}"
        api = "scheduling.x-k8s.io/v1alpha1"
        meta = {"name": name, "namespace": space}
        self.put({"apiVersion": api, "kind": "PodGroup", "metadata": meta, "spec": {"minMember": count}})
        for _ in range(count):
            self.pod(space, size, pin, name)

    def delete(self, kind: str, name: str, namespace: str = "") -> None:
        meta = {"name": name, "namespace": namespace} if namespace else {"name": name}
        api = "muster.dev/v1alpha1" if kind == "QuotaFlavor" else "v1"
        self.simulation.delete({"apiVersion": api, "kind": kind, "metadata": meta})

    # The slow count

    def use(self, *, labels: bool = True) -> dict[str, Counter[str]]:
        """What pods with a node use, by namespace and resource, counted from pods and labels of nodes."""
        found: dict[str, Counter[str]] = {space: Counter() for space in SPACES}
        for placement in self.state.placed.values():
            pod, node = placement.pod, self.state.nodes.names[placement.slot]
            found[pod.namespace][GPU] += pod.requests.get(GPU, 0)
            kind = self.kinds.get(node, "")
            if kind and kind in {f.name for f in self.state.nodes.flavors.ordered}:
                found[pod.namespace][FLAVOR_PREFIX + kind] += pod.requests.get(GPU, 0)
        return found

    def limits(self) -> tuple[dict[str, dict[str, int]], dict[str, int]]:
        quotas = {quota.namespace: quota for quota in self.state.ledger.quotas()}
        sums: Counter[str] = Counter()
        for quota in quotas.values():
            sums.update(quota.min)
        return {space: dict(quota.max) for space, quota in quotas.items()}, dict(sums)

    def fits(self, space: str, size: int, node: str, use: dict[str, Counter[str]]) -> bool:
        """Whether quotas admit one more pod on a node."""
        highs, sums = self.limits()
        names = [GPU]
        if self.kinds[node] in {f.name for f in self.state.nodes.flavors.ordered}:
            names.append(FLAVOR_PREFIX + self.kinds[node])
        for name in names:
            if use[space][name] + size > highs[space].get(name, 10**9):
                return False
            total = sum(min(use[other][name], highs[other].get(name, 10**9)) for other in SPACES)
            if name in sums and total + size > sums[name]:
                return False
        return True

    def check(self) -> None:
        assert self.state.check() == []
        use = self.use()
        for space in SPACES:
            known = self.state.ledger.used(space)
            for name in (GPU, FLAVOR_PREFIX + "h100", FLAVOR_PREFIX + "a100"):
                assert known.get(name, 0) == use[space][name], (space, name)

    def check_restart(self) -> None:
        """A scheduler that starts now charges the same, and whoever starts was woken by what happened."""
        fresh = self.simulation.copy().scheduler.state
        for space in SPACES:
            assert Counter(self.state.ledger.used(space)) == Counter(fresh.ledger.used(space)), space
        assert not self.simulation.overlooked

    def check_limits(self, before: dict[str, Counter[str]]) -> None:
        """No quota is over its max, nor all over the sum of min, by more than `before`."""
        highs, sums = self.limits()
        after = self.use()
        for name in (FLAVOR_PREFIX + "h100", FLAVOR_PREFIX + "a100", GPU):
            for space in SPACES:
                if after[space][name] > highs[space].get(name, 10**9):
                    assert after[space][name] <= before[space][name]
            counted = [
                sum(min(use[space][name], highs[space].get(name, 10**9)) for space in SPACES)
                for use in (before, after)
            ]
            if name in sums and counted[1] > sums[name]:
                limit = max(counted[0], sums[name])
                assert counted[1] <= limit + self.against_lost(name, before, after)

    def against_lost(self, name: str, before: dict[str, Counter[str]], after: dict[str, Counter[str]]) -> int:
        """By how much pods within the min of their quotas may put the sum over its limit.

        It is what they got, and at most what others borrow on nodes that are gone: no eviction gives it back.
        """
        lows = {quota.namespace: quota.min.get(name, 0) for quota in self.state.ledger.quotas()}
        lost, got = Counter[str](), 0
        for item in self.state.placed.values():
            if self.state.nodes.names[item.slot] not in self.kinds:
                lost[item.pod.namespace] += item.pod.requests.get(name, 0)
        for space in SPACES:
            if after[space][name] <= lows[space]:
                got += max(0, after[space][name] - before[space][name])
        beyond = sum(min(lost[space], max(0, after[space][name] - lows[space])) for space in SPACES)
        return min(got, beyond)

    def check_nobody_waits_who_fits(self) -> None:
        use = self.use()
        free = dict(self.gpus)
        for placement in self.state.placed.values():
            node = self.state.nodes.names[placement.slot]
            if node in free:
                free[node] -= placement.pod.requests.get(GPU, 0)
        for pod in self.state.pods.values():
            if pod.uid in self.state.placed or pod.labels:
                continue
            size, pins = pod.requests[GPU], dict(pod.node_selector)
            for node, kind in self.kinds.items():
                if pins.get("gpu", kind) == kind and free[node] >= size:
                    assert not self.fits(pod.namespace, size, node, use), (pod.key, node)


@every_seed(range(HISTORIES), each=20)
def test_charges_and_limits_over_a_history(seed: int) -> None:
    world = FlavorWorld(seed)
    dice = world.dice
    for name in ("h100", "a100"):
        world.put(_flavor(name))
    for number in range(4):
        world.node(f"n{number}", dice.choice(KINDS), dice.randint(1, 5))
    for space in SPACES:
        world.random_quota(space)
    for _ in range(30):
        _step(world)
        before = world.use()
        world.simulation.run()
        world.check()
        world.check_restart()
        if not len(world.state.nominations):
            world.check_nobody_waits_who_fits()
        world.check_limits(before)


def _step(world: FlavorWorld) -> None:
    dice = world.dice
    what = dice.random()
    bound = [placement.pod for placement in world.state.placed.values()]
    if what < 0.25 and bound:
        pod = dice.choice(bound)
        world.delete("Pod", pod.name, pod.namespace)
    elif what < 0.35:
        name = dice.choice(list(world.kinds))
        world.node(name, dice.choice(KINDS), world.gpus[name])
    elif what < 0.4:
        world.random_quota(dice.choice(SPACES), new=False)
    elif what < 0.43:
        name = dice.choice(["h100", "a100"])
        if name in {f.name for f in world.state.nodes.flavors.ordered}:
            world.delete("QuotaFlavor", name)
        else:
            world.put(_flavor(name))
    elif what < 0.46:
        world.made += 1
        world.node(f"n{world.made}", dice.choice(KINDS), dice.randint(1, 5))
    elif what < 0.49 and len(world.kinds) > 1:
        world.lose_node(dice.choice(list(world.kinds)))
    elif what < 0.56:
        world.gang(dice.choice(SPACES), 1, dice.randint(2, 4), dice.choice(["", "h100"]))
    else:
        for _ in range(dice.choice([1, 1, 4])):
            pin = dice.choice(["", "", "h100", "a100"])
            world.pod(dice.choice(SPACES), dice.choice([1, 1, 2]), pin, priority=dice.choice([0, 0, 5]))


def _guaranteed_alone(world: FlavorWorld, fewest: int, most: int) -> dict[str, dict[str, int]]:
    """Three quotas without max, and a node per flavor with so many GPUs more than guaranteed; their min."""
    dice, sums, lows = world.dice, Counter[str](), dict[str, dict[str, int]]()
    for name in ("h100", "a100"):
        world.put(_flavor(name))
    for space in SPACES:
        low = {FLAVOR_PREFIX + kind: dice.randint(0, 4) for kind in ("h100", "a100")}
        low[GPU] = sum(low.values())
        lows[space] = low
        sums.update(low)
        world.quota(space, low, {})
    for kind in ("h100", "a100"):
        if sums[FLAVOR_PREFIX + kind]:
            world.node(kind, kind, max(1, sums[FLAVOR_PREFIX + kind] + dice.randint(fewest, most)))
    return lows


@pytest.mark.parametrize(("fewest", "most"), [(0, 2), (-2, 0)], ids=["enough nodes", "too few nodes"])
@every_seed(range(KEPT), each=10)
def test_no_claim_takes_what_is_guaranteed_of_a_flavor(seed: int, fewest: int, most: int) -> None:
    """A quota that borrows of the total, or of another flavor, keeps its min of each flavor."""
    world = FlavorWorld(seed)
    dice, evicted = world.dice, world.simulation.evicted
    lows = _guaranteed_alone(world, fewest, most)
    for _ in range(40):
        bound, use = [item.pod for item in world.state.placed.values()], world.use()
        nodes = {item.pod.uid: world.state.nodes.names[item.slot] for item in world.state.placed.values()}
        if bound and dice.random() < 0.25:
            pod = dice.choice(bound)
            world.delete("Pod", pod.name, pod.namespace)
            # Who preempts now, and for whom, is not told.
            world.simulation.run()
            continue
        space, known = dice.choice(SPACES), len(evicted)
        world.pod(space, 1, dice.choice(["", "h100", "a100"]), priority=dice.choice([0, 0, 5]))
        world.simulation.run()
        lost = Counter(
            (item.pod.namespace, FLAVOR_PREFIX + world.kinds[nodes[item.pod.uid]])
            for item in evicted[known:]
            if item.pod.namespace != space and item.pod.uid in nodes
        )
        for (loser, name), count in lost.items():
            assert use[loser][name] - count >= lows[loser][name], (space, loser, name, use[loser])


@every_seed(range(GUARANTEES), each=20)
def test_nobody_waits_for_a_guarantee(seed: int) -> None:
    """Where nodes have what is guaranteed of each flavor, a pod within min never waits."""
    world = FlavorWorld(seed)
    dice = world.dice
    lows = _guaranteed_alone(world, 0, 2)
    for _ in range(30):
        bound = [placement.pod for placement in world.state.placed.values()]
        if bound and dice.random() < 0.3:
            pod = dice.choice(bound)
            world.delete("Pod", pod.name, pod.namespace)
        else:
            pin = dice.choice(["", "h100", "a100"])
            world.pod(dice.choice(SPACES), 1, pin, priority=dice.choice([0, 0, 5]))
        world.simulation.run()
        world.check()
        use = world.use()
        for pod in world.state.pods.values():
            if pod.uid in world.state.placed:
                continue
            space, pins = pod.namespace, dict(pod.node_selector)
            assert use[space][GPU] + 1 > lows[space][GPU] or not any(
                use[space][FLAVOR_PREFIX + kind] + 1 <= lows[space][FLAVOR_PREFIX + kind]
                for kind in world.kinds
                if pins.get("gpu", kind) == kind
            ), (pod.key, use, lows)
