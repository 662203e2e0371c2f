"""Searches for victims as a whole, by priority alone: on one node."""

from __future__ import annotations

from typing import Any

from scheduler_core.config.builtin import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.evaluate import Reevaluation
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.preemption.demand import ordinary_demand
from scheduler_core.framework.preemption.search import Search
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.names import LABEL_ZONE, MUSTER_SCHEDULER
from scheduler_core.model.pod import Pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import NodeBuilder, PodBuilder, make_group, make_node, make_pod


def node(name: str, zone: str, cpu: int = 4) -> NodeBuilder:
    return make_node(name).label(LABEL_ZONE, zone).allocatable(cpu=cpu)


def pod(name: str, where: str = "", priority: int = 0, cpu: int = 1, app: str = "web") -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority).labels(app=app)
    return made.on(where).started(len(name)) if where else made


def search(asking: Pod, *objects: Any, across: bool = True) -> tuple[str, list[str]]:
    """(node, names of the victims), of a search by priority alone."""
    made = Scheduler(ClusterState(), build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS))
    for item in objects:
        made.put(item.obj(), 0.0)
    profile = made.profiles[MUSTER_SCHEDULER]
    cycle = made.cycle.new_cycle(profile, asking, 1.0)
    demand = ordinary_demand(made.state, asking, spare_quotas=True)
    result = Search(cycle, Reevaluation(made.cycle, profile, cycle), demand).run(across_nodes=across)
    assert made.state.check() == []
    return result.nominated, sorted(victim.name for victim in result.victims)


def test_a_gang_that_may_not_go_is_nobodys_victim() -> None:
    gang = (make_group("a/g").needs(2), pod("g0", "n1").group("g"), pod("g1", "n1", priority=9).group("g"))
    filled = (node("n1", "z1", cpu=3), *gang, pod("solo", "n1", priority=5))
    assert search(pod("p", priority=8).obj(), *filled) == ("n1", ["solo"])


def test_of_a_torn_gang_the_quorum_stays_if_the_others_are_enough() -> None:
    gang = (make_group("a/g").needs(1), *(pod(f"g{i}", "n1", i).group("g") for i in range(3)))
    filled = (node("n1", "z1", cpu=3), *gang)
    assert search(pod("p", priority=8, cpu=2).obj(), *filled) == ("n1", ["g0", "g1"])
