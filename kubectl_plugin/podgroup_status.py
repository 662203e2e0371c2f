"""`kubectl podgroup status`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

from typing import Any

import click

from kubectl_plugin.options import global_flags


@click.command(name="status", short_help="Show where groups stand, counted from their pods.")
@click.argument("name", required=False)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "wide", "json", "yaml", "name"]),
    default="table",
    help="Form of the result; wide adds what is reserved.",
)
@click.option("--no-headers", is_flag=True, help="Leave out the header line.")
@click.option("-w", "--watch", is_flag=True, help="After the list, print each group that changes.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    help="auto: on a terminal, unless NO_COLOR is set.",
)
@global_flags
@click.pass_context
def status(ctx: click.Context, /, name: str | None, **flags: Any) -> None:
    """Show groups of every kind (PodGroups and group ConfigMaps), counted from their pods as they are now.

    With a NAME: that group with all its members, what it has reserved and why it waits.

    \b
    Examples:
      kubectl podgroup status -A -o wide
      kubectl podgroup status training -n team-a
      kubectl podgroup status -w
    """
    from kubectl_plugin.status_report import StatusOptions, run_status

    run_status(ctx, name, StatusOptions(**flags))
