"""The units of a topology tree with used and total resources, and the members of a group in each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from kubectl_plugin.cluster.group_view import VIEW, GroupView
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.names import CPU, FLAVOR_PREFIX, MEMORY
from scheduler_core.model.quantity import is_counted
from scheduler_core.model.resources import ResourceList, to_strings
from scheduler_core.quota.ledger import shift
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.topology.report import ROOT


class TopologyUnit(msgspec.Struct):
    """A unit of the tree: depth (0: the root), used and total amounts per resource.

    `used` is empty where not all pods could be read.

    `first`, `leaves`: index of the first leaf below the unit, and number of leaves. `members`: the group's
    pods in the unit, by rank.
    """

    name: str
    depth: int
    first: int
    leaves: int
    used: dict[str, int]
    total: dict[str, int]
    members: list[str]


def units_document(units: Sequence[TopologyUnit], gang: Gang | None) -> dict[str, Any]:
    """The units for JSON and YAML, with exact quantities; parents before children. Null: not known."""
    found = [
        {
            "name": unit.name,
            "depth": unit.depth,
            "nodes": unit.leaves,
            "used": to_strings(unit.used) if unit.used or not unit.total else None,
            "total": to_strings(unit.total),
            "members": list(unit.members),
        }
        for unit in units
    ]
    return {"group": str(gang.ref) if gang is not None else None, "units": found}


def units_of(view: GroupView, gang: Gang | None, *, counted: bool = True) -> list[TopologyUnit]:
    """The root and every unit below it, parents before children, with the members of `gang`.

    `counted`: all pods could be read, so that it is known what they use.
    """
    tree, nodes = view.tree(gang), view.state.nodes
    names = _resources(view)

    def unit_at(name: str, depth: int, leaf: int) -> TopologyUnit:
        used = dict.fromkeys(names if counted else (), 0)
        return TopologyUnit(name, depth, leaf, 0, used, dict.fromkeys(names, 0), [])

    path = [unit_at(ROOT, 0, 0)]
    found = list(path)
    ranked = view.ranked(gang) if gang is not None else []
    placed: dict[int, list[str]] = {}
    for rank, member in ranked:
        placed.setdefault(member.leaf, []).append(f"{member.pod.name}({rank})")
    for leaf, name in enumerate(tree.leaves):
        for depth, unit in enumerate(tree.path(leaf), start=1):
            if len(path) <= depth or path[depth].name != unit:
                path = [*path[:depth], unit_at(unit, depth, leaf)]
                found.append(path[depth])
        used, total = _amounts(nodes, nodes.slot(name), names)
        for above in path:
            above.leaves += 1
            above.members += placed.get(leaf, ())
            if counted:
                shift(above.used, used)
            shift(above.total, total)
    return found


def _amounts(
    nodes: NodeTable, slot: int | None, names: Iterable[str]
) -> tuple[dict[str, int], dict[str, int]]:
    """What is used of a node, and what it has; nothing of one that is only in the tree."""
    node = nodes.nodes[slot] if slot is not None else None
    if node is None:
        return {}, {}
    rows = {name: row for name in names if (row := nodes.index.row(name)) is not None}
    used = {name: int(nodes.requested[row, slot]) for name, row in rows.items()}
    return used, {name: node.allocatable.get(name, 0) for name in rows}


def _resources(view: GroupView) -> tuple[str, ...]:
    """The resources that the topology's source names; else cpu, memory and the extended ones of nodes."""
    settings = view.state.topology.settings.get(VIEW)
    source = view.state.topology.source(settings.namespace) if settings is not None else None
    named: tuple[str, ...] = source.content.resources if source is not None else ()
    return named or (CPU, MEMORY, *_extended(node.allocatable for node in view.state.nodes.nodes if node))


def _extended(amounts: Iterable[ResourceList]) -> list[str]:
    """The extended resources that a node has some of, by name; flavors count GPUs that are there already."""
    there = {name for node in amounts for name, value in node.items() if value}
    return sorted(
        name for name in there if "/" in name and is_counted(name) and not name.startswith(FLAVOR_PREFIX)
    )
