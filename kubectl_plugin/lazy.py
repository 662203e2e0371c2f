"""A command group that imports a subcommand only when it is run, so that `--help` starts quickly."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from kubectl_plugin.options import global_flags


class LazyGroup(click.Group):
    """`table`: command name -> ("module:attribute", one line of help, hidden)."""

    def __init__(self, name: str, table: Mapping[str, tuple[str, str, bool]], **settings: object) -> None:
        super().__init__(name, **settings)  # type: ignore[arg-type]
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names that the help shows, in the order of the table."""
        return [name for name, (_, _, hidden) in self._table.items() if not hidden]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command, or None if there is none of that name."""
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table alone: nothing is imported for `--help`."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._table[name][1]) for name in self.list_commands(ctx)])


def plugin(name: str, table: Mapping[str, tuple[str, str, bool]], help_text: str) -> LazyGroup:
    """The group of a kubectl plugin: its own commands, those of every plugin, kubectl's global flags."""
    everything = {
        **table,
        "completion": ("kubectl_plugin.completion:completion", "Install or print shell completion.", False),
        "version": ("kubectl_plugin.version:version", "Print the version.", False),
        "__complete": ("kubectl_plugin.completion:complete", "", True),
    }
    settings = {"help_option_names": ["-h", "--help"]}
    return global_flags(LazyGroup(name, everything, help=help_text, context_settings=settings))
