"""`kubectl podgroup topology`: flags, help, the tree as table or SVG, and the comparison of solvers."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from kubectl_plugin.cli.errors import AlreadyReported, check_group
from kubectl_plugin.cli.global_flags import global_flags, topology_namespace
from kubectl_plugin.render.table import ABSENT, Cell, TablePrinter

if TYPE_CHECKING:
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_view import GroupView
    from kubectl_plugin.cluster.solver_comparison import SolverResult
    from kubectl_plugin.cluster.topology_units import TopologyUnit
    from scheduler_core.model.groups.gang import Gang

COLUMNS: Final = ("UNIT", "PODS")


@click.command(name="topology")
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "svg", "json", "yaml"]),
    default="table",
    help="Output format; svg: a drawing on standard output.",
)
@click.option("--no-headers", is_flag=True, help="Do not print the header line.")
@click.option(
    "--solver",
    default="",
    metavar="NAME",
    help="Compare the placements of this solver and of the exact one for the whole group.",
)
@topology_namespace
@global_flags
@click.pass_context
def topology(
    ctx: click.Context,
    /,
    name: str | None,
    output: str,
    no_headers: bool,
    solver: str,
    topology_namespace: str,
) -> None:
    """Show the units of the topology with used and free resources, and the members of a group in each.

    \b
    Examples:
      kubectl podgroup topology
      kubectl podgroup topology group-a -n team-a
      kubectl podgroup topology group-a -o svg > group-a.svg
      kubectl podgroup topology group-a --solver greedy
    """
    if solver:
        if name is None or output != "table":
            raise click.UsageError("--solver needs the NAME of a group and the output format table")
        run_solver(ctx, name, solver, topology_namespace, show_headers=not no_headers)
        return
    run_topology(ctx, name, output, topology_namespace, show_headers=not no_headers)


def run_topology(
    ctx: click.Context, name: str | None, output: str, topology_namespace: str, *, show_headers: bool
) -> None:
    """Carry out the command. Raises the ApiError tree, KubeconfigError, CommandFailed."""
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_status import unenforced_reason
    from kubectl_plugin.cluster.group_view import read_groups
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.cluster.topology_units import units_of
    from kubectl_plugin.render.topology_svg import draw

    check_group(name or "")
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    view = read_groups(
        session.client, session.namespace, diagnostics, whole=True, topology_namespace=topology_namespace
    )
    gang = view.group(session.namespace, name, diagnostics) if name else None
    units = units_of(view, gang)
    if output == "svg":
        sys.stdout.write(draw(units, str(gang.ref) if gang is not None else "topology"))
    elif output in ("json", "yaml"):
        from kubectl_plugin.cluster.topology_units import units_document
        from kubectl_plugin.render.structured import encoded

        sys.stdout.write(encoded(units_document(units, gang), output))
    else:
        printer = TablePrinter(_tree_headers(units), show_headers=show_headers)
        for line in printer.lines(list(_tree_rows(units))):
            print(line)
    _note_differences(view, gang, diagnostics)
    if gang is not None and (lacks := unenforced_reason(view, gang)):
        diagnostics.note(f"note: the topology constraints of {gang.ref} are {lacks}")
    if diagnostics.failed:
        raise AlreadyReported


def _tree_headers(units: Sequence[TopologyUnit]) -> list[str]:
    used = [header for name in units[0].total for header in (f"{name} USED", f"{name} FREE")]
    return [COLUMNS[0], *(header.upper() for header in used), COLUMNS[1]]


def _tree_rows(units: Sequence[TopologyUnit]) -> Iterator[list[Cell]]:
    from kubectl_plugin.render.quantity_text import human

    deepest = max(unit.depth for unit in units)
    for unit in units:
        cells = [Cell("  " * unit.depth + unit.name)]
        for name, total in unit.total.items():
            used = unit.used[name]
            cells += [Cell(human(name, used)), Cell(human(name, max(0, total - used)))]
        members = " ".join(unit.members) if unit.depth == deepest else str(len(unit.members) or "")
        yield [*cells, Cell(members or ABSENT)]


def _note_differences(view: GroupView, gang: Gang | None, diagnostics: Diagnostics) -> None:
    """Note the nodes that only the tree or only the cluster has."""
    nodes = [node.name for node in view.state.nodes.nodes if node is not None]
    gap = view.tree(gang).compare(nodes)
    if gap.not_in_tree:
        diagnostics.note(f"note: nodes that are not in the topology: {', '.join(gap.not_in_tree)}")
    if nodes and gap.not_in_cluster:
        diagnostics.note(
            f"note: nodes of the topology that are not in the cluster: {', '.join(gap.not_in_cluster)}"
        )


def run_solver(
    ctx: click.Context, name: str, solver: str, topology_namespace: str, *, show_headers: bool
) -> None:
    """Carry out `--solver`. Raises the ApiError tree, KubeconfigError, ConfigError, CommandFailed."""
    from kubectl_plugin.cluster.diagnostics import Diagnostics
    from kubectl_plugin.cluster.group_view import read_groups
    from kubectl_plugin.cluster.session import CommandSession
    from kubectl_plugin.cluster.solver_comparison import check_solver, compare

    check_group(name)
    check_solver(solver)
    session, diagnostics = CommandSession.of(ctx), Diagnostics()
    view = read_groups(
        session.client, session.namespace, diagnostics, whole=True, topology_namespace=topology_namespace
    )
    columns, results = compare(view, view.group(session.namespace, name, diagnostics), solver)
    headers = ["SOLVER", *(column.upper() for column in columns), "HOPS", "PLACEMENT"]
    rows = [_solver_row(result, len(columns)) for result in results]
    for line in TablePrinter(headers, show_headers=show_headers).lines(rows):
        print(line)
    if diagnostics.failed:
        raise AlreadyReported


def _solver_row(result: SolverResult, columns: int) -> list[Cell]:
    if result.problem:
        return [Cell(result.solver), *(Cell(ABSENT) for _ in range(columns + 1)), Cell(result.problem)]
    placement = " ".join(f"{node}={count}" for node, count in result.placement.items())
    numbers = (*result.values, result.hops)
    return [Cell(result.solver), *(Cell(str(number)) for number in numbers), Cell(placement)]
