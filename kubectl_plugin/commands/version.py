"""The `version` command of both plugins."""

from __future__ import annotations

import click

from kubectl_plugin.cli.global_flags import global_flags


@click.command(name="version")
@click.option(
    "--client", is_flag=True, help="Accepted for compatibility with kubectl; only the client version exists."
)
@global_flags
def version(client: bool) -> None:
    """Print the version of this plugin."""
    from importlib.metadata import version as installed

    click.echo(f"Client Version: v{installed('muster')}")
