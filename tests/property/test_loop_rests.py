"""The leader comes to rest: when all work is done, the loop sleeps, whatever was deleted meanwhile."""

from __future__ import annotations

import copy
import random
from pathlib import Path
from typing import Any, Final

import pytest

from scheduler_core.config import SchedulerConfiguration
from scheduler_core.config.load import load_config
from scheduler_core.errors import ConfigError
from scheduler_core.simulate import load_scenarios
from scheduler_core.simulate.objects import key_of, merge_patch
from scheduler_core.simulate.scenario import Scenario
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.every import assert_no_faults, every_seed
from tests.support.loop_cluster import LoopCluster
from tests.support.searches import PART, cases
from tests.support.worlds.generate import live
from tests.support.worlds.player import START
from tests.support.worlds.rest import configuration

SCENARIOS: Final = Path(__file__).parents[1] / "scenarios"
# The files in `profiles` are configurations.
FOLDERS: Final = sorted({path.parent.name for path in SCENARIOS.glob("*/*.yaml")} - {"profiles"})
WORLDS: Final = cases(200)
# `make test` plays a quarter of the scenarios, test-searches all.
STRIDE: Final = 4 if PART > 8 else 1
BUDGETS_ON: Final = "  - {name: Coscheduling, args: {disruptionBudgets: true}}\n"
QUIET_SECONDS: Final = 60.0
# After this time all that waits for something, or repeats a write, has been tried again.
PATIENCE_SECONDS: Final = 4000.0
BUDGETS = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: muster-scheduler
  plugins: {{multiPoint: {{enabled: [{{name: CapacityScheduling}}, {{name: Coscheduling}}]}}}}
  pluginConfig:
  - {{name: Coscheduling, args: {{disruptionBudgets: {enabled}}}}}
"""


def of(kind: str, namespace: str, name: str) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"namespace": namespace, "name": name}}


def made(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "muster.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


# What worlds do not have: the only group above their quotas, and the only flavor.
BESIDE: Final = (
    made("QuotaGroup", "all", min={}),
    made("QuotaFlavor", "first", resource="x/gpu", nodeSelector={"zone": "z1"}),
)


class Ends:
    """A cluster whose objects go one by one, and what does not come to rest then."""

    def __init__(self, cluster: LoopCluster, seed: int = 0) -> None:
        self.cluster = cluster
        self.dice = random.Random(seed)
        self.faults: list[str] = []
        self.after = "the first objects"
        self.turns = 0

    def rest(self, seconds: float = 0.0) -> None:
        """Let time pass; each moment at which some part is due has its turns, and leaves none of the past."""
        until = self.cluster.now + seconds
        while not self.faults:
            try:
                self.cluster.run()
            except AssertionError as error:
                self.faults.append(f"after {self.after}, {error}: {self.cluster.loop.schedule.stuck}")
            due = self.cluster.loop.schedule.next_time()
            if due is None or due > until:
                break
            self.turns += 1
            self.cluster.now = max(due, self.cluster.now)
        self.cluster.now = until

    def restart(self, config: SchedulerConfiguration) -> None:
        """A new process with another configuration begins where the last one ended."""
        self.after = "the restart"
        self.cluster = self.cluster.copy(config)
        self.rest()

    def delete_all(self) -> None:
        """Delete each object, at once, after a moment or after a minute, and let all come to its end."""
        keys = self.cluster.objects.keys()
        for key in self.dice.sample(keys, len(keys)):
            if (obj := self.cluster.get(*key)) is not None:
                self.after = f"{obj['kind']} {key[1]}/{key[2]} was deleted"
                self.cluster.delete(obj)
                self.rest(self.dice.choice((0.0, 0.0, 0.5, QUIET_SECONDS)))
        self.rest(PATIENCE_SECONDS)
        self.turns = 0
        self.rest(QUIET_SECONDS)
        if self.turns:
            self.faults.append(f"{self.turns} turns in a minute without any object")


def played(scenario: Scenario) -> list[str]:
    """What does not come to rest while a scenario is played, and when its objects go."""
    ends = Ends(LoopCluster(scenario.config, scenario.now))
    cluster = ends.cluster
    for obj in scenario.objects:
        cluster.create(obj)
    ends.rest()
    for number, step in enumerate(scenario.steps):
        ends.after = f"step {number}"
        ends.rest(step.advance)
        for write, objects in (
            (cluster.delete, step.delete),
            (cluster.update, step.update),
            (cluster.create, step.create),
        ):
            for obj in objects:
                try:
                    write(obj)
                except ConfigError:
                    # Time passed, so that pods may be gone which the file knows.
                    continue
        ends.rest()
    ends.delete_all()
    return [f"{scenario.file} {scenario.name}: {fault}" for fault in ends.faults]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_loop_rests_when_the_objects_of_a_scenario_go(folder: str) -> None:
    scenarios = (
        scenario
        for file in sorted((SCENARIOS / folder).glob("*.yaml"))[::STRIDE]
        for scenario in load_scenarios(file.read_text(encoding="utf-8"), file.name)
    )
    assert_no_faults(fault for scenario in scenarios for fault in played(scenario))


@every_seed(range(WORLDS), each=5)
def test_the_loop_rests_when_the_objects_of_a_world_go(seed: int) -> None:
    world, _ = live(seed, judged=False)
    without = configuration(topology=bool(world.get("topology")), fair=bool(world.get("fair")))
    ends = Ends(LoopCluster(load_config(without + BUDGETS_ON), START), seed)
    for obj in (*BESIDE, *world["objects"]):
        _create(ends.cluster, obj)
    ends.rest()
    for number, step in enumerate(world["steps"]):
        ends.after = f"step {number}"
        _play(ends.cluster, step)
        ends.rest(step.get("advance", 0))
    if seed % 2:
        ends.restart(load_config(without))
    ends.delete_all()
    assert_no_faults(ends.faults)


def _play(cluster: LoopCluster, step: dict[str, Any]) -> None:
    """Apply what a step of a world says, as far as its objects are there."""
    for item in step.get("delete", ()):
        if cluster.get(*key_of(item)) is not None:
            cluster.delete(item)
    for item in step.get("patch", ()):
        if (old := cluster.get(*key_of(item))) is not None:
            cluster.update(merge_patch(copy.deepcopy(old), item["patch"]))
    for item in step.get("update", ()):
        if cluster.get(*key_of(item)) is not None:
            cluster.update(item)
    for item in step.get("create", ()):
        if cluster.get(*key_of(item)) is None:
            _create(cluster, item)


def _create(cluster: LoopCluster, obj: dict[str, Any]) -> None:
    """Create an object of a world, a quota below the group of all."""
    below = {"metadata": {"labels": {"muster.dev/quota-group": "all"}}}
    cluster.create(merge_patch(copy.deepcopy(obj), below) if obj["kind"] == "ElasticQuota" else obj)


def test_a_deleted_group_that_held_quota_lets_the_loop_sleep() -> None:
    cluster = LoopCluster()
    cluster.create(make_node("n").allocatable(cpu=8, pods=20).dict())
    cluster.create(make_quota("a/q").min(cpu=4).max(cpu=4).dict())
    cluster.create(make_pod("a/runs").requests(cpu=2).on("n").dict())
    cluster.create(make_group("a/g").needs(3).annotation("muster.dev/hold-quota", "10m").dict())
    for number in range(3):
        cluster.create(make_pod(f"a/g{number}").requests(cpu=1).group("g").dict())
    cluster.run()
    assert list(cluster.state.gangs.quota_holds.holds) == ["a/g PodGroup"]
    cluster.advance(120.0)
    cluster.run()
    for number in range(3):
        cluster.delete(of("Pod", "a", f"g{number}"))
    cluster.delete(of("PodGroup", "a", "g"))
    for seconds in (0.0, 119.0, 1.0, 1.0, 3600.0):
        cluster.advance(seconds)
        cluster.run()


def test_budgets_that_are_turned_off_let_the_loop_sleep() -> None:
    cluster = LoopCluster(load_config(BUDGETS.format(enabled="true")))
    cluster.create(make_node("n").allocatable(cpu=8, pods=20).dict())
    cluster.create(make_group("a/g").needs(2).dict())
    for number in range(2):
        cluster.create(make_pod(f"a/g{number}").requests(cpu=1).group("g").dict())
    cluster.run()
    assert len(cluster.objects.all("PodDisruptionBudget")) == 1
    again = cluster.copy(load_config(BUDGETS.format(enabled="false")))
    for seconds in (0.0, 10.0, 1.0, 3600.0):
        again.advance(seconds)
        again.run()
        assert again.objects.all("PodDisruptionBudget") == []


def test_the_last_of_a_kind_that_goes_while_its_status_is_due_lets_the_loop_sleep() -> None:
    for kind, spec in (
        ("QuotaFlavor", {"resource": "nvidia.com/gpu", "nodeSelector": {"type": "hot"}}),
        ("QuotaGroup", {"min": {"nvidia.com/gpu": "2"}}),
    ):
        cluster = LoopCluster()
        cluster.create(make_node("n").allocatable(cpu=8, gpu=8, pods=20).labels(type="hot").dict())
        cluster.create(make_quota("a/q").min(gpu=2).label("muster.dev/quota-group", "last").dict())
        cluster.create(made(kind, "last", **spec))
        cluster.run()
        cluster.create(make_pod("a/p").requests(gpu=1).on("n").dict())
        cluster.run()
        cluster.delete(of(kind, "", "last"))
        for seconds in (0.5, 1.0, 1.0, 3600.0):
            cluster.advance(seconds)
            cluster.run()
