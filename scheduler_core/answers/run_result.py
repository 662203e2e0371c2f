"""The result of a run: who started where, who waits and why, who was evicted for whom, and the quotas."""

from __future__ import annotations

import msgspec

from scheduler_core.model.kinds import PODS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.simulate.world import Simulation
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.group_members import counts_of, placed_members, scheduler_of
from scheduler_core.state.topology import is_constrained
from scheduler_core.topology.rank import hop_cost


class Started(msgspec.Struct, frozen=True):
    """A pod (`namespace/name`) that got a node."""

    pod: str
    node: str


class Waiting(msgspec.Struct, frozen=True):
    """A pod without a node: the reason and the message of its condition."""

    pod: str
    reason: str
    message: str


class Eviction(msgspec.Struct, frozen=True):
    """A pod that was evicted, for which pod (empty if for none), and why."""

    pod: str
    preemptor: str
    message: str


class QuotaUseNow(msgspec.Struct, frozen=True):
    """A quota that binds: amounts per resource, in the units of `model.quantity`."""

    namespace: str
    name: str
    used: dict[str, int]
    min: dict[str, int]
    max: dict[str, int]


class PlacedGroup(msgspec.Struct, frozen=True):
    """A group on the topology: its placed members, and the hop cost of their places."""

    group: str
    members: int
    hop_cost: int


class RunResult(msgspec.Struct, frozen=True):
    """What a run of the scheduler does, sorted by name."""

    started: tuple[Started, ...] = ()
    waiting: tuple[Waiting, ...] = ()
    evicted: tuple[Eviction, ...] = ()
    quotas: tuple[QuotaUseNow, ...] = ()
    groups: tuple[PlacedGroup, ...] = ()

    def node_of(self, pod: str) -> str:
        """The node on which a pod started; empty if it did not start."""
        return next((item.node for item in self.started if item.pod == pod), "")


def run(simulation: Simulation) -> RunResult:
    """Run the scheduler until nothing changes. Raises ConfigError where that never happens."""
    simulation.run()
    placed = {item.pod.key: item.node for item in simulation.placed if _pod(simulation, item.pod.key)}
    return RunResult(
        tuple(Started(pod, placed[pod]) for pod in sorted(placed)),
        tuple(
            Waiting(key, rejected.reason, rejected.message)
            for key, rejected in sorted(simulation.rejected.items())
            if (pod := _pod(simulation, key)) is not None and not pod.assigned
        ),
        tuple(_evictions(simulation)),
        quotas_of(simulation),
        groups_of(simulation.state),
    )


def at_rest(simulation: Simulation) -> RunResult:
    """The quotas and the groups as they are, without a run of the scheduler."""
    return RunResult(quotas=quotas_of(simulation), groups=groups_of(simulation.state))


def groups_of(state: ClusterState) -> tuple[PlacedGroup, ...]:
    """The groups with topology constraints that have placed members, by name."""
    found = []
    for key in sorted(state.gangs.gangs):
        gang = state.gangs.gangs[key]
        scheduler = scheduler_of(state, gang)
        if not is_constrained(gang) or scheduler not in state.topology.settings:
            continue
        tree = state.topology.tree_of(gang, scheduler)
        placed = placed_members(state, gang, tree)
        if placed:
            name = f"{gang.ref.namespace}/{gang.ref.name}"
            found.append(PlacedGroup(name, len(placed), hop_cost(tree, counts_of(tree, placed))))
    return tuple(found)


def _pod(simulation: Simulation, key: str) -> Pod | None:
    namespace, _, name = key.partition("/")
    pod: Pod | None = simulation.known.get((PODS.kind, namespace, name))
    return pod


def quotas_of(simulation: Simulation) -> tuple[QuotaUseNow, ...]:
    """The quotas that bind, by namespace."""
    ledger = simulation.state.ledger
    return tuple(
        QuotaUseNow(
            quota.namespace,
            quota.name,
            dict(ledger.used(quota.namespace)),
            dict(quota.min),
            dict(quota.max),
        )
        for quota in sorted(ledger.quotas(), key=lambda quota: quota.key)
    )


def _evictions(simulation: Simulation) -> list[Eviction]:
    preempted = [Eviction(it.pod.key, it.preemptor.key, it.message) for it in simulation.evicted]
    restarted = [Eviction(f"{it.namespace}/{it.name}", "", it.message) for it in simulation.restarted]
    return sorted([*preempted, *restarted], key=lambda item: (item.pod, item.preemptor))
