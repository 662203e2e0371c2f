"""What may stand for the word that is being typed; the client is imported only for names of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import click

LIMIT: Final = 100
NO_FILES: Final = ":4"
FILES: Final = ":0"

_FILE_FLAGS: Final = frozenset({"kubeconfig", "certificate_authority", "cache_dir", "files"})
_FORMATS: Final = ("table", "wide", "json", "yaml", "name", "jsonpath=", "custom-columns=")


@dataclass
class _Line:
    """The words before the current one, understood: the command, its flags, its arguments."""

    command: click.Command
    flags: dict[str, Any] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)
    waiting: click.Option | None = None


def candidates(root: click.Group, words: Sequence[str]) -> tuple[list[str], str]:
    """Candidates for the last word, and kubectl's directive (whether files may follow)."""
    *before, current = words
    line = _read(root, before)
    stem, equals, value = current.partition("=")
    option = line.waiting
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
    elif line.command.name == "get":
        from kubectl_plugin.live_names import object_names

        found = [name for name in object_names(root.name or "", line.flags) if name not in line.arguments]
    else:
        return [], FILES if line.command.name == "simulate" else NO_FILES
    return [prefix + word for word in found if word.startswith(current)], NO_FILES


def _read(root: click.Group, before: Sequence[str]) -> _Line:
    line = _Line(root)
    for word in before:
        if line.waiting is not None:
            line.flags[line.waiting.name or ""] = word
            line.waiting = None
        elif word.startswith("-") and word != "-":
            name, equals, value = word.partition("=")
            option = _option(line.command, name)
            if option is not None and (equals or option.is_flag):
                line.flags[option.name or ""] = value if equals else True
            else:
                line.waiting = option
        elif isinstance(line.command, click.Group):
            found = line.command.get_command(click.Context(line.command), word)
            line.command = found or line.command
        else:
            line.arguments.append(word)
    return line


def _option(command: click.Command, name: str) -> click.Option | None:
    options = (item for item in command.params if isinstance(item, click.Option))
    return next((item for item in options if name in item.opts), None)


def _values_of(option: click.Option, line: _Line) -> Sequence[str]:
    if isinstance(option.type, click.Choice):
        return list(option.type.choices)
    if option.name == "output":
        return _FORMATS
    if option.name in ("namespace", "context", "cluster", "user"):
        from kubectl_plugin.live_names import flag_values

        return flag_values(option.name, line.flags)
    return ()


def connection_flags(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the flags that decide about the connection, as `options.Connection` takes them."""
    known = (
        "kubeconfig",
        "context",
        "cluster",
        "user",
        "namespace",
        "token",
        "server",
        "certificate_authority",
    )
    return {name: flags[name] for name in known if name in flags} | {
        "as_user": flags.get("as_user"),
        "insecure": bool(flags.get("insecure")),
        "tls_server_name": flags.get("tls_server_name"),
    }
