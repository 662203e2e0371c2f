"""`kubectl elasticquota get`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

from typing import Any

import click

from kubectl_plugin.get_options import GetOptions, get_flags
from kubectl_plugin.options import global_flags


@click.command(name="get", short_help="Show quotas: used, min, max, hard, borrowed, lent.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@get_flags
@global_flags
@click.pass_context
def get(ctx: click.Context, /, names: tuple[str, ...], **flags: Any) -> None:
    """Show ElasticQuotas, one row per quota and resource.

    The figures are computed from live pods and quotas, whether or not a scheduler is running: USED counts
    every pod that has a node, or was charged at its creation, and is not finished; BORROWED is use above
    MIN; LENT is what other quotas use of this quota's unused MIN; HARD is the smallest matching limit of the
    namespace's ResourceQuotas.

    \b
    Examples:
      kubectl elasticquota get -A
      kubectl elasticquota get quota -n team-a -o wide
      kubectl elasticquota get -w
      kubectl elasticquota get -A -o json
    """
    from kubectl_plugin.objects_get import run_get
    from kubectl_plugin.quota_table import print_table
    from scheduler_core.model.kinds import ELASTIC_QUOTAS

    run_get(ctx, ELASTIC_QUOTAS, names, GetOptions(**flags), print_table)
