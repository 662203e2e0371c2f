"""A scheduler with the built-in configuration, and what gang tests do with it."""

from __future__ import annotations

from collections.abc import Iterable

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.config.schema import SchedulerConfiguration
from scheduler_core.engine.decisions import Decision, Evicted, Noticed, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_group, make_node, make_pod


def member(name: str, gang: str = "g", cpu: int = 1) -> PodBuilder:
    """A pod of group a/`gang`."""
    return make_pod(f"a/{name}").uid(name).group(gang).requests(cpu=cpu)


class GangScheduler:
    """`nodes` are the CPUs of the nodes n0, n1, ...; `gangs` the minMembers of groups in namespace a.

    `config` is the built-in one unless given.
    """

    def __init__(
        self, nodes: Iterable[int] = (), config: SchedulerConfiguration | None = None, /, **gangs: int
    ) -> None:
        profiles = build_profiles(config or muster_config(), FACTORIES, KNOWN_PLUGINS)
        self.scheduler = Scheduler(ClusterState(), profiles)
        self.state = self.scheduler.state
        self.now = 1000.0
        for number, cpu in enumerate(nodes):
            self.scheduler.put(make_node(f"n{number}").allocatable(cpu=cpu).obj(), self.now)
        for age, (name, minimum) in enumerate(gangs.items()):
            group = make_group(f"a/{name}").uid(name).needs(minimum).created(age)
            self.scheduler.put(group.obj(), self.now)

    def put(self, *pods: PodBuilder) -> None:
        for pod in pods:
            self.scheduler.put(pod.obj(), self.now)

    def step(self, later: float = 0.0) -> list[Decision]:
        self.now += later
        decisions = self.scheduler.step(self.now)
        assert self.state.check() == []
        return decisions


def placed(decisions: list[Decision]) -> dict[str, str]:
    return {item.pod.name: item.node for item in decisions if isinstance(item, Placed)}


def evicted(decisions: list[Decision]) -> set[str]:
    return {item.pod.name for item in decisions if isinstance(item, Evicted)}


def rejected(decisions: list[Decision]) -> dict[str, Rejected]:
    return {item.pod.name: item for item in decisions if isinstance(item, Rejected)}


def noticed(decisions: list[Decision]) -> list[Noticed]:
    return [item for item in decisions if isinstance(item, Noticed)]
