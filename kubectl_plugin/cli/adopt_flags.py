"""The flags of `kubectl elasticquota adopt` and `kubectl podgroup adopt`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
DryRun = Literal["none", "client", "server"]

_FLAGS: Final = (
    click.option(
        "--dry-run",
        type=click.Choice(["none", "client", "server"]),
        default="none",
        help="client: only print what would be done; server: submit each write as a dry run.",
    ),
    click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation."),
)


@dataclass(frozen=True)
class AdoptOptions:
    """The values of the flags."""

    dry_run: DryRun
    yes: bool


def adopt_flags(command: F) -> F:
    """Add the flags of `adopt`; they arrive as keyword arguments that `AdoptOptions(**flags)` takes."""
    for flag in reversed(_FLAGS):
        command = flag(command)
    return command
