"""`muster-scheduler config`: check, convert and show scheduler configurations."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NoReturn

import click
import msgspec
import yaml

from scheduler_core.config import ConfigErrors, load_config, start_up_errors
from scheduler_core.config.convert import TARGETS, convert_document
from scheduler_core.config.render import view

_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"]), default="yaml", show_default=True, help="Format."
)


@click.group(name="config")
def config_group() -> None:
    """Check, convert and show KubeSchedulerConfiguration files. FILE may be - for standard input."""


@config_group.command(name="validate")
@_FILE
def validate_command(file: str) -> None:
    """Say whether the scheduler would start with FILE, and if not, everything that is wrong with it."""
    try:
        loaded = load_config(_read(file), _name(file), _read_beside(file))
        errors = start_up_errors(loaded)
        if errors:
            raise ConfigErrors(errors).within(_name(file))
    except ConfigErrors as found:
        _fail(found)
    names = ", ".join(profile.scheduler_name for profile in loaded.profiles)
    click.echo(f"{_name(file)}: valid ({loaded.api_version}; profiles: {names})")


@config_group.command(name="view")
@_FILE
@_OUTPUT
def view_command(file: str, output: str) -> None:
    """Show the plugins that run at every extension point of every profile, and their arguments."""
    try:
        shown = view(load_config(_read(file), _name(file), _read_beside(file)))
    except ConfigErrors as found:
        _fail(found.within(_name(file)))
    _print(shown, output)


@config_group.command(name="convert")
@_FILE
@click.option("--to", "target", type=click.Choice(TARGETS), help="API version to write.")
@_OUTPUT
def convert_command(file: str, target: str | None, output: str) -> None:
    """Write FILE in another API version: v1alpha1 becomes v1alpha2, and everything can become v1.

    A result that would not be valid is still written, with warnings on standard error.
    """
    try:
        document, warnings = convert_document(_read(file), target, _read_beside(file))
    except ConfigErrors as found:
        _fail(found.within(_name(file)))
    for warning in warnings:
        click.echo(f"{_name(file)}: warning: {warning}", err=True)
    _print(document, output)


def _read(file: str) -> str:
    try:
        if file == "-":
            return click.get_text_stream("stdin").read()
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        click.echo(f"{_name(file)}: cannot read: {cause}", err=True)
        raise SystemExit(1) from None


def _read_beside(file: str) -> Any:
    """A reader of files named in the configuration, relative to the configuration."""
    folder = Path() if file == "-" else Path(file).parent
    return lambda name: (folder / name).read_text(encoding="utf-8")


def _name(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _fail(found: ConfigErrors) -> NoReturn:
    for error in found.errors:
        click.echo(str(error), err=True)
    raise SystemExit(1)


def _print(value: Any, output: str) -> None:
    plain = msgspec.to_builtins(value)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(plain)).decode())
    else:
        click.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
