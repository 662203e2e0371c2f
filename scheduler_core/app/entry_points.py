"""Third-party plugins and topology solvers, found by entry point and merged with those of Muster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final

import msgspec

from scheduler_core.config.plugins import KNOWN_PLUGINS, LEFT_OUT, NOT_IMPLEMENTED
from scheduler_core.errors import ConfigError
from scheduler_core.framework.interface import POINTS
from scheduler_core.framework.registry import Factory
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.topology.question import Solver
from scheduler_core.topology.solvers import SOLVERS

GROUP: Final = "muster.plugins"


class Plugins(msgspec.Struct, frozen=True):
    """All plugins that a profile can enable: extension points and factory by plugin name."""

    points: Mapping[str, frozenset[str]]
    factories: Mapping[str, Factory]


@cache
def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group. They are looked for once: every installed package is read for them."""
    return tuple(entry_points(group=group))


def extension_points(plugin: type[Any]) -> frozenset[str]:
    """The extension points of a plugin class: those of whose Protocol it has every member."""
    return frozenset(
        point
        for point, protocol in POINTS.items()
        if all(hasattr(plugin, member) for member in dir(protocol) if not member.startswith("_"))
    )


def load_plugins(found: Iterable[EntryPoint] | None = None) -> Plugins:
    """The plugins of Muster and of the entry-point group `muster.plugins`.

    The entry point's name is the plugin's name. It refers to a class that is called with the plugin's args
    from the configuration (None without). Raises ConfigError for a class that cannot be loaded or is not a
    plugin, and for a name that is taken.
    """
    points, factories = dict(KNOWN_PLUGINS), dict(FACTORIES)
    reserved = {*NOT_IMPLEMENTED, *LEFT_OUT}
    for entry in sorted(installed(GROUP) if found is None else found, key=lambda e: e.name):
        path = f"{GROUP}[{entry.name}]"
        if entry.name in points or entry.name in reserved:
            raise ConfigError(path, f"{entry.value}: the name is taken by another plugin", kind="Duplicate")
        plugin = named_class(entry, path)
        points[entry.name] = extension_points(plugin)
        if not points[entry.name]:
            raise ConfigError(path, f"{entry.value} extends no point", kind="Invalid")
        factories[entry.name] = plugin
    return Plugins(points, factories)


def named_class(entry: EntryPoint, path: str) -> type[Any]:
    """The class of an entry point; its `name` must be that of the entry point. Raises ConfigError with the
    path.
    """
    try:
        plugin = entry.load()
    except MemoryError:
        raise
    except Exception as error:
        raise ConfigError(path, f"{entry.value} cannot be loaded: {error!r}", kind="Invalid") from error
    if not isinstance(plugin, type) or getattr(plugin, "name", None) != entry.name:
        problem = f"{entry.value} is not a class whose name is {entry.name}"
        raise ConfigError(path, problem, kind="Invalid")
    return plugin


SOLVER_GROUP: Final = "muster.solvers"


def load_solvers(found: Iterable[EntryPoint] | None = None) -> dict[str, Solver]:
    """The solvers of Muster and of the entry-point group `muster.solvers`, by name.

    The entry point's name is the solver's name. It refers to a class that is called without arguments. Raises
    ConfigError for a class that cannot be loaded or instantiated or is not a solver, and for a name that is
    taken.
    """
    solvers = dict(SOLVERS)
    for entry in sorted(installed(SOLVER_GROUP) if found is None else found, key=lambda e: e.name):
        path = f"{SOLVER_GROUP}[{entry.name}]"
        if entry.name in solvers:
            raise ConfigError(path, f"{entry.value}: the name is taken by another solver", kind="Duplicate")
        kind = named_class(entry, path)
        if not callable(getattr(kind, "solve", None)):
            raise ConfigError(path, f"{entry.value} has no method solve", kind="Invalid")
        try:
            solvers[entry.name] = kind()
        except MemoryError:
            raise
        except Exception as error:
            raise ConfigError(path, f"{entry.value} cannot be made: {error!r}", kind="Invalid") from error
    return solvers
