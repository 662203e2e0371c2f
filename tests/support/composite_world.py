"""A scheduler for trees of groups in a small cluster, and what tests of them do with it."""

from __future__ import annotations

import json

from msgspec import structs

from scheduler_core.config import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Evicted, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.groups.composite import Composite
from scheduler_core.model.groups.gang import Disruption, Gang, GroupRef
from scheduler_core.model.names import MUSTER_SCHEDULER
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.forest import Group
from tests.support.builders import make_node, make_pod

CONFIG = load_config(
    json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": MUSTER_SCHEDULER,
                    "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
                    "pluginConfig": [{"name": "Coscheduling", "args": {"compositePodGroups": True}}],
                }
            ],
        }
    )
)
PRIORITY = 5


class World:
    """Nodes n0, n1, ...: (CPUs, CPUs that weak pods use) each; two are a rack, four a zone."""

    def __init__(self, nodes: list[tuple[int, int]]) -> None:
        self.scheduler = Scheduler(
            ClusterState(), build_profiles(CONFIG, FACTORIES, KNOWN_PLUGINS), initial_backoff=0.0
        )
        self.state = self.scheduler.state
        self.now = 100.0
        self.gone: set[str] = set()
        self.given: list[object] = []
        for number, (cpu, weak) in enumerate(nodes):
            labels = {"rack": f"r{number // 2}", "zone": f"z{number // 4}"}
            self.put(make_node(f"n{number}").allocatable(cpu=cpu).labels(**labels).obj())
            for pod in range(min(weak, cpu)):
                one = make_pod(f"lab/weak-{number}-{pod}").requests(cpu=1).scheduler(MUSTER_SCHEDULER)
                self.put(one.on(f"n{number}").obj())

    def put(self, obj: object) -> None:
        self.now += 1.0
        self.given.append(obj)
        self.scheduler.put(obj, self.now)

    def fresh(self) -> World:
        """A scheduler that has just started, with the objects of this one."""
        other = World([])
        for obj in self.given:
            if isinstance(obj, Pod):
                held = self.state.placed.get(obj.uid)
                node = self.state.nodes.names[held.slot] if held is not None else ""
                obj = structs.replace(obj, node_name=node)
            if not (isinstance(obj, Pod) and obj.uid in self.gone):
                other.put(obj)
        return other

    def settle(self) -> None:
        for _ in range(40):
            self.now += 60.0
            decisions = self.scheduler.step(self.now)
            assert self.state.check() == []
            for item in decisions:
                if isinstance(item, Evicted):
                    self.scheduler.remove(item.pod, self.now)
                    self.gone.add(item.pod.uid)
            if not any(isinstance(item, Evicted | Placed) for item in decisions):
                return
        raise AssertionError("the tree never comes to rest")

    def running(self, group: Group) -> list[str]:
        """The nodes of the pods of a group."""
        members, placed = self.state.gangs.members_of_unit(group.key), self.state.placed
        return [self.state.nodes.names[placed[uid].slot] for uid in members if uid in placed]

    def started(self, group: Group) -> bool:
        """Whether a group runs with its minimum; what runs otherwise breaks its rule."""
        if isinstance(group, Gang):
            here = self.running(group)
            assert not here or len(here) >= group.min_members, group.key
            return bool(here)
        children = [self.started(child) for child in self.state.gangs.forest.children(group.key)]
        assert not any(children) or sum(children) >= group.min_groups, group.key
        return any(children)

    def check(self) -> None:
        forest, queue = self.state.gangs.forest, self.scheduler.queue
        for group in (*forest.composites.values(), *self.state.gangs.gangs.values()):
            if group.topology_key:
                nodes = [self.state.nodes.of_name(name) for name in self.running(group)]
                assert len({node.labels[group.topology_key] for node in nodes if node is not None}) <= 1
        for key, unit in queue.units.items():
            assert {self.state.gangs.unit_of(pod) for pod in unit.pods.values()} == {key}
        for root in forest.composites.values():
            if not root.parent:
                self.started(root)


def composite(number: int, parent: str, least: int, key: str) -> Composite:
    return Composite(
        "lab",
        f"c{number}",
        f"c{number}",
        "",
        float(number),
        least,
        topology_key=key,
        priority=PRIORITY,
        parent=parent,
    )


def gang(number: int, parent: str, least: int, key: str) -> Gang:
    return Gang(
        GroupRef("native-PodGroup", "lab", f"g{number}"),
        f"g{number}",
        "",
        float(number),
        least,
        topology_key=key,
        parent=parent,
        priority=PRIORITY,
        disruption=Disruption.SINGLE,
    )
