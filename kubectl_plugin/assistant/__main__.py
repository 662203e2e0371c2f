"""Entry point of `muster-mcp`: serves the tools on standard input and output."""

from __future__ import annotations

import sys
from importlib.metadata import version

import click


@click.command(name="muster-mcp", context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--kubeconfig", default="", metavar="FILE", help="The kubeconfig; that of kubectl if not given."
)
@click.option("--context", default="", metavar="NAME", help="The context in the kubeconfig.")
@click.option("--as", "as_user", default="", metavar="USER", help="The user to act as, as with kubectl --as.")
def main(kubeconfig: str, context: str, as_user: str) -> None:
    """Serve answers about a cluster to an assistant that speaks the Model Context Protocol (stdio).

    All tools only read, with the rights of the kubeconfig. An assistant starts this command itself.
    """
    try:
        from kubectl_plugin.assistant.tools import server_of
    except ModuleNotFoundError as error:
        if error.name != "mcp":
            raise
        print("error: muster-mcp needs the package mcp: pip install 'muster[mcp]'", file=sys.stderr)
        sys.exit(1)
    from kubectl_plugin.assistant.commands import PluginRunner

    flags = (("--kubeconfig", kubeconfig), ("--context", context), ("--as", as_user))
    given = [f"{flag}={value}" for flag, value in flags if value]
    server_of(PluginRunner(given), version("muster")).run()


if __name__ == "__main__":
    main()
