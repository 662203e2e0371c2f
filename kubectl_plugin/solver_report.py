"""`kubectl podgroup topology NAME --solver`: where solvers would put a group's members anew, side by side."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Final

import click

from kubectl_plugin.entry import AlreadyReported, CommandFailed, check_segment
from kubectl_plugin.group_view import VIEW, GroupView, read_groups
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.session import CommandSession
from kubectl_plugin.table import Cell, TablePrinter
from scheduler_core.app.solver_loading import load_solvers
from scheduler_core.arrays.index import Int64
from scheduler_core.config import load_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.group_slots import capacity, slots_for
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.errors import ModelError
from scheduler_core.framework.registry import build_profiles
from scheduler_core.framework.status import Status
from scheduler_core.model.gang import Gang
from scheduler_core.model.pod import Pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.group_members import pod_index
from scheduler_core.state.topology import rules_of
from scheduler_core.state.trial import Trial
from scheduler_core.topology.constraints import Rules
from scheduler_core.topology.placer import Infeasible, Placement, place
from scheduler_core.topology.rank import hop_cost
from scheduler_core.topology.solvers import EXACT
from scheduler_core.topology.tree import Tree

# What can be said of a node from nodes and pods alone; of members that have a node already, not NodeName.
_FILTERS: Final = (
    "NodeUnschedulable",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
)
_TOPOLOGY: Final = "ClusterTopologyPlacementGroup"


def run_solver(
    ctx: click.Context, name: str, solver: str, topology_namespace: str, *, show_headers: bool
) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, ConfigError, CommandFailed."""
    check_segment("group", name)
    solvers = load_solvers()
    if solver not in solvers:
        raise CommandFailed(f'no solver "{solver}"; known are {", ".join(sorted(solvers))}')
    session, complaints = CommandSession.of(ctx), Complaints()
    view = read_groups(
        session.client, session.namespace, complaints, whole=True, topology_namespace=topology_namespace
    )
    gang = view.group(session.namespace, name)
    tree = view.tree(gang)
    try:
        rules = rules_of(gang, tree)
    except ModelError as error:
        raise CommandFailed(str(error)) from None
    members = [pod for pod in view.members(gang) if not (pod.finished or pod.terminating)]
    room = _room(view, tree, members, gang)
    size = gang.min_members if gang.group is not None else max(gang.min_members, len(members))
    rows = [
        _row(each, place(tree, room, size, rules, solver=solvers[each]), tree)
        for each in dict.fromkeys([solver, EXACT.name])
    ]
    for line in TablePrinter(_headers(rules), show_headers=show_headers).lines(rows):
        print(line)
    if complaints.failed:
        raise AlreadyReported


def _room(view: GroupView, tree: Tree, members: Sequence[Pod], gang: Gang) -> Int64:
    """int64 [leaves]: how many members fit on every node, were none of the group placed."""
    if not members:
        raise CommandFailed(f"{gang.ref} has no pods, and so nobody knows what one of them needs")
    enabled = [{"name": name} for name in (*_FILTERS, _TOPOLOGY, "DefaultBinder")]
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
                trial.lift(pod.uid)
        pairs = [(profile, pod) for pod in sorted(members, key=pod_index)]
        slots = slots_for(scheduler.cycle, tree, pairs, now)
        if isinstance(slots, Status):
            raise CommandFailed(f"{gang.ref}: {slots.reason}")
        return capacity(state, slots)


def _headers(rules: Rules) -> list[str]:
    levels = (f"{rule.level} {'SQUARES' if rule.spread else 'UNITS'}".upper() for rule in rules)
    return ["SOLVER", *levels, "HOPS", "PLACEMENT"]


def _row(solver: str, found: Placement | Infeasible, tree: Tree) -> list[Cell]:
    if isinstance(found, Infeasible):
        return [Cell(solver), *(Cell("-") for _ in range(tree.depth + 1)), Cell(found.reason)]
    where = (f"{tree.leaves[leaf]}={found.counts[leaf]}" for leaf in found.counts.nonzero()[0].tolist())
    values = (*found.values, hop_cost(tree, found.counts))
    return [Cell(solver), *(Cell(str(value)) for value in values), Cell(" ".join(where))]
