"""Builds profiles from a configuration: the factory of each plugin name, one instance per profile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from scheduler_core.config import SchedulerConfiguration, effective_plugins, plugin_args
from scheduler_core.config.args.extenders import without_managed
from scheduler_core.config.plugins import MULTI_POINT
from scheduler_core.config.schema import PluginSet, ProfileConfig
from scheduler_core.framework.interface import POINTS, Plugin, implements
from scheduler_core.framework.profile import Profile
from scheduler_core.model.names import CLUSTER_TOPOLOGY_PLACEMENT_GROUP

# Makes a plugin of its typed args (None where the profile gives none), see `config.args`.
Factory = Callable[[Any], Plugin]


def build_profiles(
    config: SchedulerConfiguration,
    factories: Mapping[str, Factory],
    registry: Mapping[str, frozenset[str]],
    beside: Plugin | None = None,
) -> dict[str, Profile]:
    """Profiles by scheduler name. Raises ConfigErrors for plugins that cannot be built as configured.

    `registry` maps plugin names to their extension points, `factories` to their factories. `beside` is added
    to every profile: first at the bind point, last at all other points. Constraints of groups hold in every
    profile: ClusterTopologyPlacementGroup filters also where it is not listed, unless multiPoint disables it.
    The `companion` of a plugin, its filter for the pods that need one, goes wherever the plugin is.
    """
    config = without_managed(config)
    profiles: dict[str, Profile] = {}
    for entry in config.profiles:
        refs = effective_plugins(entry, registry)
        names = {ref.name for at in refs.values() for ref in at}
        enforced = CLUSTER_TOPOLOGY_PLACEMENT_GROUP in factories and not _disables_topology(entry)
        if enforced:
            names.add(CLUSTER_TOPOLOGY_PLACEMENT_GROUP)
        made = {name: factories[name](plugin_args(entry, name)) for name in sorted(names)}
        points = {point: [made[ref.name] for ref in at] for point, at in refs.items()}
        if enforced and made[CLUSTER_TOPOLOGY_PLACEMENT_GROUP] not in points["filter"]:
            points["filter"].append(made[CLUSTER_TOPOLOGY_PLACEMENT_GROUP])
        for plugin in made.values():
            companion = getattr(plugin, "companion", None)
            if companion is not None:
                _add(points, companion)
        if beside is not None:
            _add(points, beside)
        weights = {ref.name: ref.weight for ref in refs["score"]}
        profiles[entry.scheduler_name] = Profile(entry.scheduler_name, points, weights)
    return profiles


def _disables_topology(profile: ProfileConfig) -> bool:
    """Whether the profile disables topology placement by name; `*` only clears the defaults."""
    disabled = profile.plugins.get(MULTI_POINT, PluginSet()).disabled
    return any(plugin.name == CLUSTER_TOPOLOGY_PLACEMENT_GROUP for plugin in disabled)


def _add(points: dict[str, list[Plugin]], plugin: Plugin) -> None:
    for point, contract in POINTS.items():
        if implements(plugin, contract):
            at = points.setdefault(point, [])
            at.insert(0 if point == "bind" else len(at), plugin)
