"""`kubectl podgroup get`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

from typing import Any

import click

from kubectl_plugin.get_options import GetOptions, get_flags
from kubectl_plugin.options import global_flags


@click.command(name="get", short_help="Show pod groups and how many members run.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@get_flags
@global_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Show PodGroups (incubator.scheduling.k8s.io): what they need, and what their status says.

    \b
    Examples:
      kubectl podgroup get -A
      kubectl podgroup get training -n team-a -o yaml
      kubectl podgroup get -w
    """
    from kubectl_plugin.objects_get import run_get
    from kubectl_plugin.podgroup_table import print_table
    from scheduler_core.model.kinds import POD_GROUPS

    run_get(ctx, POD_GROUPS, names, GetOptions(**flags), print_table)
