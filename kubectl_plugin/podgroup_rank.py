"""`kubectl podgroup rank`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

import click

from kubectl_plugin import options


@click.command(name="rank", short_help="Show the ranks of a group's members, and how far apart they are.")
@click.argument("name")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "yaml", "hostfile", "torchrun"]),
    default="table",
    help="Form of the result; hostfile is MPI's, torchrun one line of variables per rank.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the header line.")
@options.topology_namespace
@options.global_flags
@click.pass_context
def rank(ctx: click.Context, /, name: str, output: str, no_headers: bool, topology_namespace: str) -> None:
    """Show the placed members of a group (a group ConfigMap or a PodGroup) in order of rank.

    HOPS is the number of edges of the topology tree between a member and rank 0.

    \b
    Examples:
      kubectl podgroup rank group-a
      kubectl podgroup rank group-a -n team-a -o hostfile
    """
    from kubectl_plugin.rank_report import run_rank

    run_rank(ctx, name, output, topology_namespace, show_headers=not no_headers)
