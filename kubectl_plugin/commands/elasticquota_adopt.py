"""`kubectl elasticquota adopt`: flags and help. The run is in `adoption`, imported when the command runs."""

from __future__ import annotations

from typing import Any

import click

from kubectl_plugin.cli.adopt_flags import AdoptOptions, adopt_flags
from kubectl_plugin.cli.global_flags import global_flags


@click.command(name="adopt")
@adopt_flags
@global_flags
@click.pass_context
def adopt(ctx: click.Context, /, **flags: Any) -> None:
    """Bring back all pods that went to another scheduler while the webhook did not answer.

    Pods with a node stay, and count in the quota. Pods without a node are deleted and created again: by their
    controller, or by this command if they have none.

    \b
    Examples:
      kubectl elasticquota adopt -n team-a --dry-run=client
      kubectl elasticquota adopt -A --yes
    """
    from kubectl_plugin.commands.adoption import run_adopt

    run_adopt(ctx, None, AdoptOptions(**flags))
