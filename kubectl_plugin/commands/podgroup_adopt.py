"""`kubectl podgroup adopt`: flags and help. The run is in `adoption`, imported when the command runs."""

from __future__ import annotations

from typing import Any

import click

from kubectl_plugin.cli.adopt_flags import AdoptOptions, adopt_flags
from kubectl_plugin.cli.global_flags import global_flags


@click.command(name="adopt")
@click.argument("group")
@adopt_flags
@global_flags
@click.pass_context
def adopt(ctx: click.Context, /, group: str, **flags: Any) -> None:
    """Bring back members of GROUP that went to another scheduler while the webhook did not answer.

    Members with a node stay, and count. Members without a node are deleted and created again: by their
    controller, or by this command if they have none.

    \b
    Examples:
      kubectl podgroup adopt training -n team-a --dry-run=client
      kubectl podgroup adopt training -n team-a --yes
    """
    from kubectl_plugin.commands.adoption import run_adopt

    run_adopt(ctx, group, AdoptOptions(**flags))
