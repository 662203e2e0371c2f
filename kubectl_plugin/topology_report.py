"""`kubectl podgroup topology`: the tree as indented rows, with used and free resources per unit."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click
import msgspec

from kubectl_plugin.entry import AlreadyReported, check_segment
from kubectl_plugin.group_standing import unenforced_of
from kubectl_plugin.group_view import VIEW, GroupView, read_groups
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.quantity_text import human
from kubectl_plugin.session import CommandSession
from kubectl_plugin.table import Cell, TablePrinter
from kubectl_plugin.topology_svg import draw
from scheduler_core.model.gang import Gang
from scheduler_core.model.topology import DEFAULT_RESOURCES
from scheduler_core.topology.report import ROOT

COLUMNS: Final = ("UNIT", "PODS")


class Unit(msgspec.Struct):
    """A unit of the tree: its depth (0 is the root), what is used and what there is per resource.

    `first` and `leaves` say which leaves are below it; `members` are the group's pods there, by rank.
    """

    name: str
    depth: int
    first: int
    leaves: int
    used: dict[str, int]
    total: dict[str, int]
    members: list[str]


def units_of(view: GroupView, gang: Gang | None) -> list[Unit]:
    """The root and every unit below it, parents before children."""
    tree, nodes, index = view.tree(gang), view.state.nodes, view.state.index
    names = _resources(view)

    def unit_at(name: str, depth: int, leaf: int) -> Unit:
        return Unit(name, depth, leaf, 0, dict.fromkeys(names, 0), dict.fromkeys(names, 0), [])

    path = [unit_at(ROOT, 0, 0)]
    found = list(path)
    ranked = view.ranked(gang) if gang is not None else []
    sitting: dict[int, list[str]] = {}
    for rank, seat in ranked:
        sitting.setdefault(seat.leaf, []).append(f"{seat.pod.name}({rank})")
    for leaf, name in enumerate(tree.leaves):
        for depth, unit in enumerate(tree.path(leaf), start=1):
            if len(path) <= depth or path[depth].name != unit:
                path = [*path[:depth], unit_at(unit, depth, leaf)]
                found.append(path[depth])
        slot = nodes.slot(name)
        for above in path:
            above.leaves += 1
            above.members += sitting.get(leaf, ())
            for resource in names:
                at = index.row(resource)
                if slot is not None and at is not None:
                    above.used[resource] += int(nodes.requested[at, slot])
                    above.total[resource] += int(nodes.allocatable[at, slot])
    return found


def _resources(view: GroupView) -> tuple[str, ...]:
    """What the topology names, or cpu and memory."""
    settings = view.state.topology.settings.get(VIEW)
    source = view.state.topology.source(settings.namespace) if settings is not None else None
    names: tuple[str, ...] = source.content.resources if source is not None else DEFAULT_RESOURCES
    return names


def run_topology(
    ctx: click.Context, name: str | None, output: str, topology_namespace: str, *, show_headers: bool
) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, CommandFailed."""
    check_segment("group", name or "")
    session, complaints = CommandSession.of(ctx), Complaints()
    view = read_groups(
        session.client, session.namespace, complaints, whole=True, topology_namespace=topology_namespace
    )
    gang = view.group(session.namespace, name) if name else None
    units = units_of(view, gang)
    if output == "svg":
        sys.stdout.write(draw(units, str(gang.ref) if gang is not None else "topology"))
    else:
        for line in TablePrinter(_headers(units), show_headers=show_headers).lines(list(_rows(units))):
            print(line)
    _tell_gaps(view, gang, complaints)
    if gang is not None and (lacks := unenforced_of(view, gang)):
        complaints.note(f"note: what {gang.ref} asks of the topology is {lacks}")
    if complaints.failed:
        raise AlreadyReported


def _headers(units: Sequence[Unit]) -> list[str]:
    used = [header for name in units[0].total for header in (f"{name} USED", f"{name} FREE")]
    return [COLUMNS[0], *(header.upper() for header in used), COLUMNS[1]]


def _rows(units: Sequence[Unit]) -> Iterator[list[Cell]]:
    deepest = max(unit.depth for unit in units)
    for unit in units:
        cells = [Cell("  " * unit.depth + unit.name)]
        for name, total in unit.total.items():
            used = unit.used[name]
            cells += [Cell(human(name, used)), Cell(human(name, max(0, total - used)))]
        members = " ".join(unit.members) if unit.depth == deepest else str(len(unit.members) or "")
        yield [*cells, Cell(members or "-")]


def _tell_gaps(view: GroupView, gang: Gang | None, complaints: Complaints) -> None:
    """Where the tree and the cluster disagree."""
    nodes = [node.name for node in view.state.nodes.nodes if node is not None]
    gap = view.tree(gang).compare(nodes)
    if gap.not_in_tree:
        complaints.note(f"note: nodes that are not in the topology: {', '.join(gap.not_in_tree)}")
    if nodes and gap.not_in_cluster:
        complaints.note(
            f"note: nodes of the topology that the cluster lacks: {', '.join(gap.not_in_cluster)}"
        )
