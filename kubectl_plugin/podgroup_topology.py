"""`kubectl podgroup topology`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

import click

from kubectl_plugin import options


@click.command(name="topology", short_help="Show the topology tree, what is free, and where a group sits.")
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "svg"]),
    default="table",
    help="Form of the result; svg is a drawing on standard output.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the header line.")
@click.option(
    "--solver",
    default="",
    metavar="NAME",
    help="Where this solver, and the exact one, would put all members of the group anew.",
)
@options.topology_namespace
@options.global_flags
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
    """Show every unit of the topology with used and free resources, and the members of a group in it.

    \b
    Examples:
      kubectl podgroup topology
      kubectl podgroup topology group-a -n team-a
      kubectl podgroup topology group-a -o svg > group-a.svg
      kubectl podgroup topology group-a --solver greedy
    """
    if solver:
        if name is None or output != "table":
            raise click.UsageError("--solver compares placements of one group, as a table: give its NAME")
        from kubectl_plugin.solver_report import run_solver

        run_solver(ctx, name, solver, topology_namespace, show_headers=not no_headers)
        return
    from kubectl_plugin.topology_report import run_topology

    run_topology(ctx, name, output, topology_namespace, show_headers=not no_headers)
