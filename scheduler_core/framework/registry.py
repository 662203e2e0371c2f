"""From a configuration to profiles: which class stands behind a plugin name, and one instance per profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scheduler_core.config import SchedulerConfiguration, effective_plugins, plugin_args
from scheduler_core.framework.interface import Plugin
from scheduler_core.framework.profile import Profile

# Makes a plugin of its typed args (None where the profile gives none), see `config.args`.
Factory = Callable[[Any], Plugin]


def build_profiles(
    config: SchedulerConfiguration, factories: Mapping[str, Factory], registry: Mapping[str, frozenset[str]]
) -> dict[str, Profile]:
    """Profiles by scheduler name. Raises ConfigErrors for plugins that cannot be had as configured.

    `registry` maps plugin names to their extension points, `factories` to what makes them.
    """
    profiles: dict[str, Profile] = {}
    for entry in config.profiles:
        refs = effective_plugins(entry, registry)
        names = {ref.name for at in refs.values() for ref in at}
        made = {name: factories[name](plugin_args(entry, name)) for name in sorted(names)}
        points = {point: [made[ref.name] for ref in at] for point, at in refs.items()}
        weights = {ref.name: ref.weight for ref in refs["score"]}
        profiles[entry.scheduler_name] = Profile(entry.scheduler_name, points, weights)
    return profiles
