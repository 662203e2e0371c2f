"""`muster-scheduler config`: check, convert and show scheduler configurations."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import click
import yaml
from msgspec import structs

from scheduler_core.app.extenders.endpoints import problems_of as extender_problems
from scheduler_core.config import ConfigErrors, SchedulerConfiguration, load_config, start_up_errors
from scheduler_core.config.args.solvers import solver_errors
from scheduler_core.config.convert import TARGETS, convert_document
from scheduler_core.config.documents import reads_as_text
from scheduler_core.config.flags import Flags, apply_flags, ignored_flags
from scheduler_core.config.old.policy_source import PolicyReaders, ReadConfigMap
from scheduler_core.config.render import view
from scheduler_core.errors import ConfigError
from scheduler_core.model.duration import parse_duration

_PATH = click.Path(exists=True, dir_okay=False, allow_dash=True)
_FILE = click.argument("file", type=_PATH)
_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(["json", "yaml"]), default="yaml", show_default=True, help="Format."
)

_CLUSTER = click.option(
    "--kubeconfig", default="", help="Cluster with the Policy that FILE may have in a ConfigMap."
)


class DurationType(click.ParamType):
    """A Go duration such as 15s or 1m30s, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = parse_duration(value) if isinstance(value, str) else value
        if seconds is None:
            self.fail(f"{value!r} is not a duration like 15s or 1m30s", param, ctx)
        return float(seconds)


_DURATION = DurationType()
_ALONE = "Only without --config. "
_FLAG_OPTIONS: tuple[tuple[str, Any, str], ...] = (
    ("leader-elect", bool, "Lead only while holding the lease."),
    ("leader-elect-lease-duration", _DURATION, "How long candidates wait for a leader that does not renew."),
    ("leader-elect-renew-deadline", _DURATION, "How long a leader tries to renew before it stops leading."),
    ("leader-elect-retry-period", _DURATION, "Interval between attempts to acquire or renew the lease."),
    ("leader-elect-resource-lock", str, "Kind of the lock object; leases is the only one."),
    ("leader-elect-resource-name", str, "Name of the lease."),
    ("leader-elect-resource-namespace", str, "Namespace of the lease."),
    ("kubeconfig", str, _ALONE + "Path of the kubeconfig file."),
    ("kube-api-qps", float, _ALONE + "API calls per second."),
    ("kube-api-burst", int, _ALONE + "API calls at once."),
    ("kube-api-content-type", str, _ALONE + "Content type of API calls."),
    ("profiling", bool, _ALONE + "Serve profiles."),
    ("contention-profiling", bool, _ALONE + "Profile lock contention."),
    ("scheduler-name", str, _ALONE + "Name of the default profile."),
    ("hard-pod-affinity-symmetric-weight", int, _ALONE + "Weight of the symmetric hard pod affinity."),
    ("algorithm-provider", str, _ALONE + "DefaultProvider or ClusterAutoscalerProvider."),
    ("also-known-as", str, "Additional scheduler names of the first profile, separated by commas."),
)


def scheduler_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Adds kube-scheduler's configuration flags to a command, which gets them as `flags: Flags`."""

    @functools.wraps(command)
    def with_flags(**options: Any) -> None:
        names = {name.replace("-", "_") for name, _, _ in _FLAG_OPTIONS}
        given = {name: options.pop(name) for name in names}
        command(flags=Flags(**given), **options)

    wrapped: Callable[..., None] = with_flags
    for name, kind, text in reversed(_FLAG_OPTIONS):
        flag: dict[str, Any] = {"is_flag": False, "flag_value": True} if kind is bool else {}
        wrapped = click.option(f"--{name}", type=kind, default=None, help=text, **flag)(wrapped)
    return wrapped


def configure(
    file: str | None, flags: Flags, config_maps: ReadConfigMap | None = None
) -> SchedulerConfiguration:
    """The configuration to run with; prints every error on a line and exits with 1.

    `config_maps` reads the Policy of a legacy configuration from a ConfigMap.
    """
    name = _name(file) if file else ""
    try:
        loaded = load_config(_read(file), name, _read_beside(file), config_maps) if file else None
        config = apply_flags(flags, loaded)
        errors = _start_up_errors(config)
        if errors:
            raise ConfigErrors(errors)
    except ConfigErrors as found:
        _fail(found, name)
    if file:
        ignored = [f"{flag} is ignored, the file decides" for flag in ignored_flags(flags)]
        _warn(name, [*ignored, *config.warnings])
    return config


def _start_up_errors(config: SchedulerConfiguration) -> list[ConfigError]:
    return [*start_up_errors(config, _known_plugins()), *solver_errors(config, _known_solvers())]


def _all_problems(config: SchedulerConfiguration) -> list[ConfigError]:
    """All problems that `validate` reports for a valid configuration."""
    return [*_start_up_errors(config), *extender_problems(config)]


def refuse_unsupported(config: SchedulerConfiguration) -> None:
    """Raises ConfigErrors for features that are valid in Kubernetes and not supported by Muster."""
    errors = list(extender_problems(config))
    if errors:
        raise ConfigErrors(errors)


def _known_plugins() -> Mapping[str, frozenset[str]]:
    """Extension points of every plugin that can be enabled here, third-party ones included."""
    # Imported here, because it loads the code of every plugin, which flags and help do not need.
    from scheduler_core.app.entry_points import load_plugins

    try:
        return load_plugins().points
    except ConfigError as error:
        raise ConfigErrors([error]) from None


def _known_solvers() -> Collection[str]:
    """The names of all topology solvers, third-party ones included."""
    from scheduler_core.app.entry_points import load_solvers

    try:
        return load_solvers().keys()
    except ConfigError as error:
        raise ConfigErrors([error]) from None


@click.group(name="config")
def config_group() -> None:
    """Check, convert and show KubeSchedulerConfiguration files. FILE may be - for standard input."""


@config_group.command(name="validate")
@_FILE
@_CLUSTER
def validate_command(file: str, kubeconfig: str) -> None:
    """Check whether the scheduler would start with FILE, and list every problem."""
    config = configure(file, Flags(), _config_maps(kubeconfig))
    try:
        refuse_unsupported(config)
    except ConfigErrors as found:
        _fail(found, _name(file))
    names = ", ".join(profile.scheduler_name for profile in config.profiles)
    click.echo(f"{_name(file)}: valid ({config.api_version}; profiles: {names})")


@config_group.command(name="view")
@click.argument("file", type=_PATH, required=False)
@_OUTPUT
@scheduler_flags
def view_command(file: str | None, output: str, flags: Flags) -> None:
    """Show the plugins that run at every extension point of every profile, and their arguments.

    Without FILE: the default configuration, changed by flags. With FILE, --kubeconfig names
    the cluster with the Policy that FILE may have in a ConfigMap.
    """
    config_maps = _config_maps(flags.kubeconfig) if file else None
    flags = structs.replace(flags, kubeconfig=None) if file else flags
    _print(view(configure(file, flags, config_maps), _known_plugins()), output)


@config_group.command(name="convert")
@_FILE
@click.option("--to", "target", type=click.Choice(TARGETS), help="API version to write.")
@_CLUSTER
@_OUTPUT
def convert_command(file: str, target: str | None, kubeconfig: str, output: str) -> None:
    """Write FILE in another API version: v1alpha1 becomes v1alpha2, and everything can become v1.

    Differences from FILE are warnings on standard error. A result in v1 can always be run. A result in
    v1alpha2 may repeat mistakes of v1alpha1, with warnings.
    """
    try:
        readers = PolicyReaders(_read_beside(file), _config_maps(kubeconfig))
        document, warnings = convert_document(_read(file), target, readers, _all_problems)
    except ConfigErrors as found:
        _fail(found, _name(file))
    _warn(_name(file), warnings)
    _print(document, output)


def _read(file: str) -> str:
    try:
        return sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as cause:
        said = (cause.strerror if isinstance(cause, OSError) else "") or cause
        click.echo(f"{_name(file)}: cannot read: {said}", err=True)
        raise SystemExit(1) from None


def _read_beside(file: str) -> Callable[[str], str]:
    """A reader of files named in the configuration, relative to the configuration."""
    folder = Path() if file == "-" else Path(file).parent
    return lambda name: (folder / name).read_text(encoding="utf-8")


def _config_maps(kubeconfig: str | None) -> ReadConfigMap | None:
    """A reader of ConfigMaps; None if no kubeconfig is given, because these commands use no cluster then."""
    if not kubeconfig:
        return None
    from scheduler_core.app.policy_config_map import config_maps_of

    return config_maps_of(kubeconfig=kubeconfig)


def _name(file: str) -> str:
    return "<stdin>" if file == "-" else file


def _warn(name: str, warnings: Iterable[str]) -> None:
    for warning in warnings:
        click.echo(f"{name}: warning: {warning}", err=True)


def _fail(found: ConfigErrors, name: str) -> NoReturn:
    for error in found.within(name).errors:
        click.echo(str(error), err=True)
    raise SystemExit(1)


class _Dumper(yaml.SafeDumper):
    """Quotes all text that a Kubernetes tool would not read as text."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        quotes = None if reads_as_text(text) else "'"
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=quotes)


_Dumper.add_representer(str, _Dumper.represent_text)


def _print(value: Any, output: str) -> None:
    if output == "json":
        click.echo(json.dumps(value, indent=2, ensure_ascii=False))
    else:
        click.echo(yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True), nl=False)
