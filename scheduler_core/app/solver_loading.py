"""Third-party solvers of the topology: found by entry point, beside those that come with Muster."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from scheduler_core.app.plugin_loading import named_class
from scheduler_core.errors import ConfigError
from scheduler_core.topology.question import Solver
from scheduler_core.topology.solvers import SOLVERS

SOLVER_GROUP: Final = "muster.solvers"


def load_solvers(found: Iterable[EntryPoint] | None = None) -> dict[str, Solver]:
    """Muster's solvers and those of the entry-point group `muster.solvers`, by name.

    The entry point's name is the solver's; it refers to a class that is called without arguments. Raises
    ConfigError for a class that cannot be loaded or made or is no solver, and for a name that is taken.
    """
    solvers = dict(SOLVERS)
    for entry in sorted(entry_points(group=SOLVER_GROUP) if found is None else found, key=lambda e: e.name):
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
