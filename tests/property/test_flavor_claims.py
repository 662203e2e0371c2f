"""Claims where pods ask for a flavor and for CPUs: who may be a victim, and that claims come to an end.

Nothing ends by itself, and the owner of a victim makes it anew at once: what repeats is a circle of claims.
Some pods are more important than others of their own team, and may take their room.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from typing import Any, Final

from scheduler_core.engine.decisions import Decision, Evicted
from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate import Simulation
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.support.searches import cases

WORLDS: Final = cases(200, least=20)
# More rounds than a world of this size needs where claims end.
ROUNDS: Final = 30
CPU: Final = "cpu"
GPU: Final = "nvidia.com/gpu"
H100: Final = FLAVOR_PREFIX + "h100"
A100: Final = FLAVOR_PREFIX + "a100"
TEAMS: Final = ("a", "b", "c")
Raw = dict[str, Any]


class Claims(Simulation):
    """A cluster in memory that judges every eviction for another team."""

    def __init__(self, low: dict[str, dict[str, int]]) -> None:
        super().__init__()
        self.low = low
        self.faults: list[str] = []
        # What teams used before the first of several evictions.
        self.before: dict[str, Counter[str]] = {}

    def charge(self, pod: Pod, node: str) -> Counter[str]:
        amounts = Counter({name: pod.requests.get(name, 0) for name in (CPU, GPU)})
        amounts[FLAVOR_PREFIX + node.partition("-")[0]] = amounts[GPU]
        return amounts

    def use(self) -> dict[str, Counter[str]]:
        """What pods with a node use, by team, counted from the pods."""
        found = {team: Counter[str]() for team in TEAMS}
        for placement in self.state.placed.values():
            node = self.state.nodes.names[placement.slot]
            found[placement.pod.namespace].update(self.charge(placement.pod, node))
        return found

    def carry_out(self, decision: Decision) -> bool:
        self.before = self.before or self.use() if isinstance(decision, Evicted) else {}
        if isinstance(decision, Evicted) and decision.pod.namespace != decision.preemptor.namespace:
            self._judge(decision.pod)
        return super().carry_out(decision)

    def _judge(self, victim: Pod) -> None:
        """The victim uses what its team borrows: other than GPUs, where it has its type by its min."""
        team = victim.namespace
        node = self.state.nodes.names[self.state.placed[victim.uid].slot]
        asked, use, low = self.charge(victim, node), self.before, self.low[team]
        borrows = {name for name, value in asked.items() if value and use[team][name] > low[name]}
        flavor = FLAVOR_PREFIX + node.partition("-")[0]
        kept = sum(low[name] for name in (H100, A100)) <= low[GPU] and low[flavor]
        if asked[flavor] and kept and flavor not in borrows:
            borrows -= {GPU}
        if not borrows:
            self.faults.append(f"{victim.key} on {node} asks for {asked}; {team} uses {use[team]} of {low}")


class World:
    """Nodes of two flavors that are short of CPUs, and teams with a min of everything."""

    def __init__(self, seed: int) -> None:
        self.dice = dice = random.Random(seed)
        self.low = {
            team: {H100: dice.randint(0, 2), A100: dice.randint(0, 2), CPU: dice.randint(0, 6)}
            for team in TEAMS
        }
        for low in self.low.values():
            low[GPU] = low[H100] + low[A100] + dice.randint(-1, 1)
            low[GPU] = max(0, low[GPU])
        self.simulation = Claims(self.low)
        self.made = 0
        self.asked: dict[str, Raw] = {}
        for kind in ("h100", "a100"):
            spec: Raw = {"resource": GPU, "nodeSelector": {"gpu": kind}}
            meta: Raw = {"name": kind}
            self._put("muster.dev/v1alpha1", "QuotaFlavor", meta, spec=spec)
            amounts = {GPU: dice.randint(1, 5), CPU: dice.randint(2, 12), "pods": dice.choice((3, 20))}
            meta = {"name": f"{kind}-node", "labels": {"gpu": kind}}
            status = {"allocatable": {name: str(value) for name, value in amounts.items()}}
            self._put("v1", "Node", meta, status=status)
        for team, low in self.low.items():
            spec = {"min": {name: str(value) for name, value in low.items()}}
            self._put(
                "scheduling.x-k8s.io/v1alpha1", "ElasticQuota", {"name": "q", "namespace": team}, spec=spec
            )

    def _put(self, api: str, kind: str, meta: Raw, **fields: Raw) -> None:
        self.simulation.create({"apiVersion": api, "kind": kind, "metadata": meta, **fields})

    def ask(self) -> None:
        """A pod of some team comes."""
        dice = self.dice
        requests = {GPU: dice.choice((0, 1, 1, 2)), CPU: dice.choice((0, 1, 1, 3, 5))}
        limits = {name: str(value) for name, value in requests.items() if value} or {CPU: "1"}
        pin = dice.choice(("", "h100", "h100", "a100"))
        spec: Raw = {
            "schedulerName": "muster-scheduler",
            "priority": dice.choice((0, 0, 5, 10)),
            "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
        }
        if pin:
            spec["nodeSelector"] = {"gpu": pin}
        self._make(dice.choice(TEAMS), spec)

    def _make(self, team: str, spec: Raw) -> None:
        self.made += 1
        name = f"p{self.made}"
        self.asked[f"{team}/{name}"] = spec
        self._put("v1", "Pod", {"name": name, "namespace": team}, spec=copy.deepcopy(spec))

    def rest(self) -> None:
        """Run until nobody is evicted any more; victims are made anew."""
        for _ in range(ROUNDS):
            self.simulation.forget_happenings()
            self.simulation.run()
            assert not self.simulation.faults, self.simulation.faults[0]
            assert not self.simulation.overlooked
            if not self.simulation.evicted:
                return
            for item in self.simulation.evicted:
                self._make(item.pod.namespace, self.asked[item.pod.key])
        raise AssertionError(f"evictions go on after {ROUNDS} rounds")


@every_seed(range(WORLDS), each=40)
def test_claims_take_what_is_borrowed_and_come_to_an_end(seed: int) -> None:
    world = World(seed)
    for _ in range(14):
        world.ask()
        world.rest()


def pod_of(team: str, name: str, cpu: int, priority: int, number: int) -> Raw:
    made = make_pod(f"{team}/{name}-{number}").requests(cpu=cpu).priority(priority)
    return made.spec(schedulerName="muster-scheduler").dict()


def test_two_teams_do_not_exchange_their_pods_for_ever() -> None:
    """Each has an important pod that is larger than its min, and one within it; the node holds one of all.

    Owners make anew what is evicted.
    """
    simulation = Simulation()
    simulation.create(make_node("n0").allocatable(cpu=3).dict())
    for team in ("a", "b"):
        simulation.create(make_quota(f"{team}/q").min(cpu=2).dict())
    pods = {"low": (2, 0), "high": (3, 10)}
    for name, (cpu, priority) in pods.items():
        for team in ("a", "b"):
            simulation.create(pod_of(team, name, cpu, priority, 0))
            simulation.run()
    for number in range(1, ROUNDS):
        gone = [item.pod for item in simulation.evicted]
        simulation.forget_happenings()
        if not gone:
            return
        for pod in gone:
            name = pod.name.partition("-")[0]
            simulation.create(pod_of(pod.namespace, name, *pods[name], number))
        simulation.run()
    raise AssertionError(f"evictions go on after {ROUNDS} rounds")
