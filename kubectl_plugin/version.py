"""`version` of both plugins."""

from __future__ import annotations

import click

from kubectl_plugin.options import global_flags


@click.command(name="version", short_help="Print the version.")
@click.option("--client", is_flag=True, help="Accepted for kubectl's sake; no server is asked.")
@global_flags
def version(client: bool) -> None:
    """Print the version of this plugin."""
    from importlib.metadata import version as installed

    click.echo(f"Client Version: v{installed('muster')}")
