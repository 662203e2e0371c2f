"""A command group that imports a subcommand only when the subcommand runs, so that `--help` starts fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import click

from kubectl_plugin.cli.global_flags import global_flags


class LazyGroup(click.Group):
    """A group of commands from `table`: command name -> ("module:attribute", one line of help).

    Commands whose name begins with an underscore are hidden.
    """

    def __init__(self, name: str, table: Mapping[str, tuple[str, str]], **settings: object) -> None:
        super().__init__(name, **settings)  # type: ignore[arg-type]
        self._table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of the commands that are not hidden, in the order of the table."""
        return [name for name in self._table if not name.startswith("_")]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command; None for an unknown name."""
        if cmd_name not in self._table:
            return None
        module, _, attribute = self._table[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from the table, without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._table[name][1]) for name in self.list_commands(ctx)])


def plugin(
    name: str, commands: Mapping[str, str], help_text: str, answers: Mapping[str, str] | None = None
) -> LazyGroup:
    """The group of a kubectl plugin: its own commands, those of every plugin, kubectl's global flags.

    `commands` has one line of help for each own command, which `kubectl_plugin/commands/<name>_<command>.py`
    defines; `answers` has those that `kubectl_plugin/answers/<command>.py` defines. A hyphen in the name of a
    command is an underscore there.
    """
    own = {key: (f"kubectl_plugin.commands.{name}_{key}:{key}", text) for key, text in commands.items()}
    for key, text in (answers or {}).items():
        word = key.replace("-", "_")
        own[key] = (f"kubectl_plugin.answers.{word}:{word}", text)
    everything = {
        **own,
        "completion": ("kubectl_plugin.cli.completion:completion", "Install or print shell completion."),
        "version": ("kubectl_plugin.commands.version:version", "Print the version."),
        "__complete": ("kubectl_plugin.cli.completion:complete", ""),
    }
    settings = {"help_option_names": ["-h", "--help"]}
    return global_flags(LazyGroup(name, everything, help=help_text, context_settings=settings))
