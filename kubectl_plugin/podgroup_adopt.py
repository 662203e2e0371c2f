"""`kubectl podgroup adopt`: its flags and its help. What it does is imported when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from kubectl_plugin.options import global_flags

F = TypeVar("F", bound=Callable[..., Any])

_FLAGS: Final = (
    click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        help="client: only say what would be done; server: let the server judge it, too.",
    ),
    click.option("-y", "--yes", is_flag=True, help="Do not ask."),
)


def adopt_flags(command: F) -> F:
    """The flags of both forms of adopt."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command


@click.command(name="adopt", short_help="Bring a group's pods back from another scheduler.")
@click.argument("group")
@adopt_flags
@global_flags
@click.pass_context
def adopt(ctx: click.Context, /, group: str, **flags: Any) -> None:
    """Bring back members of GROUP that went to another scheduler while the webhook was away.

    Members that have a node stay, and count. Members that wait are made anew: by their controller, or by this
    command where they have none.

    \b
    Examples:
      kubectl podgroup adopt training -n team-a --dry-run=client
      kubectl podgroup adopt training -n team-a --yes
    """
    from kubectl_plugin.adoption import AdoptOptions, run_adopt

    run_adopt(ctx, group, AdoptOptions(**flags))
