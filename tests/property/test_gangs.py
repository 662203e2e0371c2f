"""Random gangs on random clusters: never a part of a gang, never a broken sum, always an end."""

from __future__ import annotations

import random
from typing import Any

from scheduler_core.config.load import muster_config
from scheduler_core.engine.decisions import Decision, Placed
from scheduler_core.simulate.objects import Change, key_of
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.gangs.gangs import missing
from scheduler_core.state.trial import Trial
from tests.support.every import every_seed
from tests.support.searches import cases

CLUSTERS = cases(300, "MUSTER_GANG_CLUSTERS")
BLOCK = 50


def node(name: str, cpu: int) -> dict[str, Any]:
    allocatable = {"cpu": str(cpu), "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": allocatable},
    }


def group(namespace: str, name: str, minimum: int) -> dict[str, Any]:
    return {
        "apiVersion": "incubator.scheduling.k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"minMembers": minimum},
    }


def pod(namespace: str, name: str, gang: str, cpu: int, priority: int) -> dict[str, Any]:
    annotations = {"scheduling.k8s.io/group-name": gang} if gang else {}
    requests = {"cpu": str(cpu)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
        "spec": {
            "schedulerName": "muster-scheduler",
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
    }


def quota(namespace: str, low: int, high: int) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace},
        "spec": {"min": {"cpu": str(low)}, "max": {"cpu": str(high)}},
    }


def objects(dice: random.Random) -> list[dict[str, Any]]:
    """A cluster's objects in the order in which they appear."""
    nodes = [node(f"n{i}", dice.randint(1, 6)) for i in range(dice.randint(1, 4))]
    namespaces = ["a", "b", "c"][: dice.randint(1, 3)]
    made: list[dict[str, Any]] = [*nodes]
    made += [quota(ns, dice.randint(0, 6), dice.randint(6, 12)) for ns in namespaces if dice.random() < 0.6]
    rest: list[dict[str, Any]] = []
    for number in range(dice.randint(1, 4)):
        namespace, minimum = dice.choice(namespaces), dice.randint(1, 4)
        rest.append(group(namespace, f"g{number}", minimum))
        priority, cpu = dice.choice([0, 0, 10]), dice.randint(1, 2)
        for i in range(dice.randint(max(1, minimum - 1), minimum + 2)):
            size = cpu if dice.random() < 0.8 else 3 - cpu
            rest.append(pod(namespace, f"g{number}-{i}", f"g{number}", size, priority))
    rest += [
        pod(dice.choice(namespaces), f"s{i}", "", dice.randint(1, 2), dice.choice([0, 10, 20]))
        for i in range(dice.randint(0, 4))
    ]
    dice.shuffle(rest)
    return made + rest + [node("late", dice.randint(1, 4))]


def whole(simulation: Simulation) -> list[str]:
    """Gangs of which a part holds nodes (coscheduling reference, item 4)."""
    state = simulation.state
    found = []
    for gang in state.gangs.gangs.values():
        census = state.gangs.census(gang.key, state.placed)
        if 0 < census.allocated < gang.min_members:
            found.append(f"{gang.ref}: {census.allocated} of {gang.min_members}")
    return found


@every_seed(range(CLUSTERS), each=BLOCK)
def test_no_part_of_a_gang_ever_holds_nodes(seed: int) -> None:
    dice = random.Random(seed)
    simulation = Simulation(muster_config(), 1_700_000_000.0)
    for obj in objects(dice):
        simulation.observe(simulation.objects.create(obj, "objects"))
        if dice.random() < 0.5:
            simulation.run()
            assert whole(simulation) == [], f"seed {seed}"
    simulation.run()
    assert whole(simulation) == [], f"seed {seed}"
    assert simulation.state.check() == [], f"seed {seed}"
    # Evictions end: every victim frees a node for somebody who then runs.
    assert len(simulation.evicted) <= 200, f"seed {seed}"


def test_no_quota_is_over_its_max() -> None:
    for seed in range(CLUSTERS // 4):
        dice = random.Random(10_000 + seed)
        simulation = Simulation(muster_config(), 1_700_000_000.0)
        for obj in objects(dice):
            simulation.observe(simulation.objects.create(obj, "objects"))
            simulation.run()
            ledger = simulation.state.ledger
            for bound in ledger.quotas():
                used = ledger.used(bound.namespace).get("cpu", 0)
                assert used <= bound.max["cpu"], f"seed {seed}: {bound.key} uses {used}"


class Troubled(Simulation):
    """Bindings fail now and then, and the process begins anew with what the API has."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__(muster_config(), 1_700_000_000.0)
        self.dice = dice
        self.failing = 0.3

    def carry_out(self, decision: Decision) -> bool:
        if isinstance(decision, Placed) and self.dice.random() < self.failing:
            self.scheduler.bind_failed(decision.pod, self.now)
            return True
        return super().carry_out(decision)

    def restarted_process(self) -> Troubled:
        """A new scheduler and new controllers over the same objects, told in any order."""
        new = Troubled(self.dice)
        new.now, new.objects = self.now, self.objects
        kinds = ("Node", "ElasticQuota", "PodGroup", "Pod")
        changes = [Change(key_of(obj), obj) for kind in kinds for obj in self.objects.all(kind)]
        self.dice.shuffle(changes)
        for change in changes:
            new.observe(change)
        return new

    def settle(self) -> None:
        """Run until idle; failed bindings are tried again after a wait, which passes here."""
        for _ in range(5):
            self.run()
            self.now += 400.0

    def fits_again(self) -> list[str]:
        """Gangs between 0 and minMembers of which a missing member would find room by its requests."""
        found = []
        state = self.state
        nodes = state.nodes
        for gang in state.gangs.gangs.values():
            census = state.gangs.census(gang.key, state.placed)
            if not 0 < census.allocated < gang.min_members:
                continue
            need = missing(gang, census)
            waiting = [pod for pod in state.gangs.members(gang.key).values() if pod.uid not in state.placed]
            profile = self.scheduler.profiles["muster-scheduler"]
            with Trial(state, self.now) as trial:
                for pod in sorted(waiting, key=lambda pod: pod.name):
                    attempt = self.scheduler.cycle.attempt(profile, pod, self.now, post_filter=False)
                    if attempt.slot >= 0:
                        trial.place(pod, attempt.slot)
                        need -= 1
            if need <= 0:
                found.append(f"{gang.ref}: {census.allocated} of {gang.min_members} on {nodes.names}")
        return found


@every_seed(range(20_000, 20_000 + CLUSTERS // 2), each=BLOCK)
def test_after_failed_bindings_and_restarts_every_gang_that_fits_becomes_whole(seed: int) -> None:
    dice = random.Random(seed)
    simulation = Troubled(dice)
    for obj in objects(dice):
        simulation.observe(simulation.objects.create(obj, "objects"))
        if dice.random() < 0.3:
            # One round only: some members are bound, the bindings of others failed.
            for decision in simulation.scheduler.step(simulation.now):
                simulation.carry_out(decision)
        if dice.random() < 0.15:
            simulation = simulation.restarted_process()
        assert simulation.state.check() == [], f"seed {seed}"
    simulation.failing = 0.0
    simulation.settle()
    assert simulation.fits_again() == [], f"seed {seed}"
    assert simulation.state.check() == [], f"seed {seed}"
