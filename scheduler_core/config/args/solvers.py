"""Validates the solver names of a configuration against the solvers that are installed."""

from __future__ import annotations

from collections.abc import Collection

from scheduler_core.config.args.muster import ClusterTopologyPlacementGroupArgs
from scheduler_core.config.problems import child, index, not_supported
from scheduler_core.config.schema import SchedulerConfiguration
from scheduler_core.errors import ConfigError


def solver_errors(config: SchedulerConfiguration, known: Collection[str]) -> list[ConfigError]:
    """One error for every profile whose `solver` is not in `known`; the error lists the known solvers."""
    found: list[ConfigError] = []
    for i, profile in enumerate(config.profiles):
        for j, entry in enumerate(profile.plugin_config):
            args = entry.args
            if isinstance(args, ClusterTopologyPlacementGroupArgs) and args.solver not in known:
                path = index(child(index("profiles", i), "pluginConfig"), j)
                found.append(not_supported(child(path, "args.solver"), args.solver, sorted(known)))
    return found
