"""Placements of a group by two solvers, computed from scratch: one that is named, and the exact one."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.group_view import VIEW, GroupView
from scheduler_core.app.entry_points import load_solvers
from scheduler_core.arrays.types import Int64
from scheduler_core.config import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.gang.topology_slots import leaf_capacity, slots_for
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ModelError
from scheduler_core.framework.registry import build_profiles
from scheduler_core.framework.status import Status
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.group_members import pod_index
from scheduler_core.state.topology import rules_of
from scheduler_core.state.trial import Trial
from scheduler_core.topology.placer import GroupPlacement, Infeasible, place
from scheduler_core.topology.rank import hop_cost
from scheduler_core.topology.solvers import EXACT
from scheduler_core.topology.tree import Tree

# Filters that need nodes and pods only. NodeName is left out, because members may have a node already.
_FILTERS: Final = (
    names.NODE_UNSCHEDULABLE,
    names.TAINT_TOLERATION,
    names.NODE_AFFINITY,
    names.NODE_PORTS,
    names.NODE_RESOURCES_FIT,
)
_TOPOLOGY: Final = names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP


class SolverResult(msgspec.Struct, frozen=True):
    """The placement of the members by one solver. `values`: objective of each constraint; `hops`: hop cost.

    `placement` is members by node. If the constraints cannot hold, only `problem` is set.
    """

    solver: str
    values: tuple[int, ...] = ()
    hops: int = 0
    placement: dict[str, int] = {}
    problem: str = ""


def check_solver(name: str) -> None:
    """Raises CommandFailed if no solver has that name."""
    solvers = load_solvers()
    if name not in solvers:
        raise CommandFailed(f'no solver "{name}"; known are {", ".join(sorted(solvers))}')


def compare(view: GroupView, gang: Gang, solver: str) -> tuple[list[str], list[SolverResult]]:
    """A title for each constraint's value, and the results of the named solver and of the exact one.

    Raises ConfigError, and CommandFailed for constraints that are invalid or a group without pods.
    """
    solvers = load_solvers()
    tree = view.tree(gang)
    try:
        rules = rules_of(gang, tree)
    except ModelError as error:
        raise CommandFailed(str(error)) from None
    members = [pod for pod in view.members(gang) if not (pod.finished or pod.terminating)]
    room = _room(view, tree, members, gang)
    size = gang.min_members if gang.group is not None else max(gang.min_members, len(members))
    titles = [f"{rule.level} {'squares' if rule.spread else 'units'}" for rule in rules]
    return titles, [
        _result(each, place(tree, room, size, rules, solver=solvers[each]), tree)
        for each in dict.fromkeys([solver, EXACT.name])
    ]


def _result(solver: str, found: GroupPlacement | Infeasible, tree: Tree) -> SolverResult:
    if isinstance(found, Infeasible):
        return SolverResult(solver, problem=found.reason)
    placement = {tree.leaves[leaf]: int(found.counts[leaf]) for leaf in found.counts.nonzero()[0].tolist()}
    return SolverResult(solver, tuple(found.values), hop_cost(tree, found.counts), placement)


def _room(view: GroupView, tree: Tree, members: Sequence[Pod], gang: Gang) -> Int64:
    """int64 [leaves]: number of members that fit on each node if no member is placed."""
    if not members:
        raise CommandFailed(f"{gang.ref} has no pods, so the requests of a member are unknown")
    enabled = [{"name": name} for name in (*_FILTERS, _TOPOLOGY, names.DEFAULT_BINDER)]
    plugins = {
        "multiPoint": {"disabled": [{"name": "*"}], "enabled": enabled},
        "queueSort": {"enabled": [{"name": _TOPOLOGY}]},
    }
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = load_config(json.dumps({**head, "profiles": [{"schedulerName": VIEW, "plugins": plugins}]}))
    scheduler = Scheduler(ClusterState(), build_profiles(config, FACTORIES, KNOWN_PLUGINS))
    state, profile = scheduler.state, scheduler.profiles[VIEW]
    for node in view.state.nodes.nodes:
        if node is not None:
            state.put_node(node)
    for pod in view.state.pods.values():
        state.put_pod(pod)
    now = time.time()
    with Trial(state, now) as trial:
        for pod in members:
            if pod.uid in state.placed:
                trial.remove_placed(pod.uid)
        pairs = [(profile, pod) for pod in sorted(members, key=pod_index)]
        slots = slots_for(scheduler.cycle, tree, pairs, now)
        if isinstance(slots, Status):
            raise CommandFailed(f"{gang.ref}: {slots.reason}")
        return leaf_capacity(state, slots)
