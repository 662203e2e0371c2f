"""`kubectl elasticquota adopt`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

from typing import Any

import click

from kubectl_plugin.options import global_flags
from kubectl_plugin.podgroup_adopt import adopt_flags


@click.command(name="adopt", short_help="Bring pods back from another scheduler.")
@adopt_flags
@global_flags
@click.pass_context
def adopt(ctx: click.Context, /, **flags: Any) -> None:
    """Bring back all pods that went to another scheduler while the webhook was away.

    Pods that have a node stay, and count in the quota. Pods that wait are made anew: by their controller, or
    by this command where they have none.

    \b
    Examples:
      kubectl elasticquota adopt -n team-a --dry-run=client
      kubectl elasticquota adopt -A --yes
    """
    from kubectl_plugin.adoption import AdoptOptions, run_adopt

    run_adopt(ctx, None, AdoptOptions(**flags))
