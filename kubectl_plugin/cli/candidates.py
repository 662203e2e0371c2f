"""Completion candidates for the word that is being typed.

The API client is imported only for names that come from the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

LIMIT: Final = 100
NO_FILES: Final = ":4"
FILES: Final = ":0"

_FILE_FLAGS: Final = frozenset({"kubeconfig", "certificate_authority", "cache_dir", "files", "config"})
# Arguments that name objects of the plugin's kind.
_NAMES: Final = frozenset({"name", "names", "group"})
_FORMATS: Final = (
    *("table", "wide", "json", "yaml", "name"),
    *("jsonpath=", "custom-columns=", "go-template=", "go-template-file="),
)


@dataclass
class _CommandLine:
    """The parsed words before the current one. `pending` is an option that still needs its value."""

    command: click.Command
    flags: dict[str, Any] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    pending: click.Option | None = None


def candidates(root: click.Group, words: Sequence[str]) -> tuple[list[str], str]:
    """Candidates for the last word, and kubectl's directive: FILES or NO_FILES."""
    *before, current = words
    line = _read(root, before)
    stem, equals, value = current.partition("=")
    option = line.pending
    prefix = ""
    if option is None and equals and stem.startswith("-"):
        option, prefix, current = _option(line.command, stem), f"{stem}=", value
    if option is not None:
        if option.name in _FILE_FLAGS:
            return [], FILES
        found: Sequence[str] = _values_of(option, line)
    elif current.startswith("-"):
        found = sorted(name for item in line.command.params for name in item.opts if name.startswith("--"))
    elif isinstance(line.command, click.Group):
        found = line.command.list_commands(click.Context(line.command))
    elif _takes_name(line):
        from kubectl_plugin.cli.live_names import object_names

        found = [
            name for name in object_names(root.name or "", line.flags, LIMIT) if name not in line.arguments
        ]
    else:
        return [], FILES if line.command.name == "simulate" else NO_FILES
    return [prefix + word for word in found if word.startswith(current)], NO_FILES


def _takes_name(line: _CommandLine) -> bool:
    """Whether the next word is the name of an object: the argument NAME, once, or any number of times."""
    arguments = [item for item in line.command.params if isinstance(item, click.Argument)]
    named = next((item for item in arguments if item.name in _NAMES), None)
    return named is not None and (named.nargs < 0 or len(line.arguments) < named.nargs)


def _read(root: click.Group, before: Sequence[str]) -> _CommandLine:
    line = _CommandLine(root)
    for word in before:
        if line.pending is not None:
            line.flags[line.pending.name or ""] = word
            line.pending = None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            option = _option(line.command, name)
            if option is not None and (equals or option.is_flag):
                line.flags[option.name or ""] = value if equals else True
            else:
                line.pending = option
        elif isinstance(line.command, click.Group):
            found = line.command.get_command(click.Context(line.command), word)
            line.command = found or line.command
        else:
            line.arguments.append(word)
    return line


def _option(command: click.Command, name: str) -> click.Option | None:
    options = (item for item in command.params if isinstance(item, click.Option))
    return next((item for item in options if name in item.opts), None)


def _values_of(option: click.Option, line: _CommandLine) -> Sequence[str]:
    if isinstance(option.type, click.Choice):
        return list(option.type.choices)
    if option.name == "output":
        return _FORMATS
    if option.name in ("namespace", "context", "cluster", "user", "like", "drain"):
        from kubectl_plugin.cli.live_names import flag_values

        return flag_values(option.name, line.flags, LIMIT)
    return ()
