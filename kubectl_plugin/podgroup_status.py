"""`kubectl podgroup status`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

import click

from kubectl_plugin.options import global_flags


@click.command(name="status", short_help="Show where groups stand, counted from their pods.")
@click.argument("name", required=False)
@click.option("--no-headers", is_flag=True, help="Leave out the header line.")
@global_flags
@click.pass_context
def status(ctx: click.Context, /, name: str | None, no_headers: bool) -> None:
    """Show groups of every kind (PodGroups and group ConfigMaps), counted from their pods as they are now.

    \b
    Examples:
      kubectl podgroup status -A
      kubectl podgroup status training -n team-a
    """
    from kubectl_plugin.status_report import run_status

    run_status(ctx, name, show_headers=not no_headers)
