"""docs/cli.md names every command, flag and column, and none that does not exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from kubectl_plugin.commands import elasticquota_get_columns, podgroup_get
from kubectl_plugin.elasticquota import elasticquota
from kubectl_plugin.podgroup import podgroup
from tests.support.documents import PAGES
from tests.support.documents import commands as documented
from tests.support.every import every_case

TEXT = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")


def commands(root: click.Group) -> Iterator[tuple[str, click.Command]]:
    """Every command that the help shows, by its path."""
    context = click.Context(root)
    for name in root.list_commands(context):
        command = root.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            yield from ((f"{name} {inner}", found) for inner, found in commands(command))


ALL = [*commands(elasticquota), *commands(podgroup)]
FLAGS = {
    opt
    for _, command in ALL
    for param in command.params
    for opt in (*param.opts, *param.secondary_opts)
    if opt.startswith("-")
}


@pytest.mark.parametrize("name", sorted({name for name, _ in ALL}))
def test_every_command_is_documented(name: str) -> None:
    assert name in TEXT


@every_case("flag", sorted(FLAGS))
def test_every_flag_is_documented(flag: str) -> None:
    assert f"`{flag}`" in TEXT


def test_no_flag_is_documented_that_does_not_exist() -> None:
    rows = [line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `-")]
    documented = {flag for row in rows for flag in re.findall(r"`(--?[a-z-]+)`", row, re.IGNORECASE)}
    assert documented - FLAGS == {"-h", "--help"}


@pytest.mark.parametrize(
    "column",
    sorted(
        {
            *elasticquota_get_columns.headers(namespaces=True, wide=True, labels=True),
            *podgroup_get.COLUMNS,
            *podgroup_get.WIDE_COLUMNS,
        }
    ),
)
def test_every_column_is_documented(column: str) -> None:
    assert f"\n| {column} | " in TEXT


@every_case("name, command", ALL, lambda case: case[0])
def test_every_command_and_flag_has_a_line_of_help(name: str, command: click.Command) -> None:
    assert command.help
    for param in command.params:
        assert isinstance(param, click.Argument) or getattr(param, "help", ""), f"{name} {param.name}"


LINES = sorted(
    {
        line
        for page in PAGES
        for line in documented(page, "sh", "bash", "console")
        if line.startswith(("kubectl elasticquota ", "kubectl podgroup "))
    }
)


@pytest.mark.parametrize("line", LINES)
def test_every_documented_command_line_is_understood(line: str) -> None:
    _, plugin, name, *arguments = shlex.split(line)
    root = {"elasticquota": elasticquota, "podgroup": podgroup}[plugin]
    command = root.get_command(click.Context(root), name)
    assert command is not None
    command.make_context(name, arguments, parent=click.Context(root))
