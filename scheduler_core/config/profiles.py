"""Expands the lists of a profile to the plugins that run at each extension point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from scheduler_core.config.args.muster import CapacitySchedulingArgs
from scheduler_core.config.plugins import (
    ALL,
    EXTENSION_POINTS,
    KNOWN_PLUGINS,
    LISTED_ONLY,
    MULTI_POINT,
    NOT_IMPLEMENTED,
)
from scheduler_core.config.problems import ConfigErrors, child, index, invalid, not_found
from scheduler_core.config.schema import (
    PluginArgs,
    PluginConfig,
    PluginEntry,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)
from scheduler_core.errors import ConfigError
from scheduler_core.model.duration import format_duration
from scheduler_core.model.names import CAPACITY_SCHEDULING

Registry = Mapping[str, frozenset[str]]


class PluginRef(NamedTuple):
    """A plugin at a point; `weight` is 0 except at score."""

    name: str
    weight: int = 0


def effective_plugins(
    profile: ProfileConfig,
    registry: Registry = KNOWN_PLUGINS,
    listed_only: Registry = LISTED_ONLY,
    path: str = "",
) -> dict[str, list[PluginRef]]:
    """The plugins of `profile` at every extension point, in the order in which they run.

    `registry` maps a plugin to its points, `listed_only` to those that multiPoint does not reach. `path` is
    the profile's path for errors. Raises ConfigErrors for plugins that do not exist, lack a point or are
    listed twice, for other than one queueSort plugin, and for no bind plugin.
    """
    expansion = _Expansion(profile, registry, listed_only, child(path, "plugins"))
    plugins = {point: expansion.at(point) for point in EXTENSION_POINTS}
    errors = expansion.errors
    if not errors:
        errors = [*_count_errors(profile.scheduler_name, plugins, child(path, "plugins"))]
    if errors:
        raise ConfigErrors(errors)
    weights = _score_weights(profile)
    plugins["score"] = [PluginRef(ref.name, weights[ref.name]) for ref in plugins["score"]]
    return plugins


def start_up_errors(config: SchedulerConfiguration, registry: Registry = KNOWN_PLUGINS) -> list[ConfigError]:
    """The errors of all profiles that keep the scheduler from starting with a valid configuration."""
    errors: list[ConfigError] = []
    sorters: list[PluginRef] = []
    readings: list[dict[str, object]] = []
    for i, profile in enumerate(config.profiles):
        path = index("profiles", i)
        try:
            plugins = effective_plugins(profile, registry, path=path)
        except ConfigErrors as found:
            errors.extend(found.errors)
            continue
        sorter = plugins["queueSort"][0]
        if any(ref.name == CAPACITY_SCHEDULING for ref in plugins["preFilter"]):
            readings.append(_quota_rules(profile))
            errors += _quota_rules_errors(child(path, "pluginConfig"), readings)
        sorters.append(sorter)
        if sorter != sorters[0]:
            rule = f'different queue sort plugins for profile "{profile.scheduler_name}"'
            errors.append(
                invalid(child(path, "plugins.queueSort"), sorter.name, f"{rule}, first: {sorters[0].name}")
            )
    return errors


def _quota_rules(profile: ProfileConfig) -> dict[str, object]:
    """The arguments that every profile must have alike, by field."""
    found = plugin_args(profile, CAPACITY_SCHEDULING)
    args = found if isinstance(found, CapacitySchedulingArgs) else CapacitySchedulingArgs()
    borrowing = args.borrowing
    return {
        "aggregate": args.aggregate,
        "borrowing.order": borrowing.order,
        "borrowing.preemption": borrowing.preemption,
        "borrowing.historyHalfLife": format_duration(borrowing.history_half_life),
        "evictionGraceLimitSeconds": args.eviction_grace_limit_seconds,
        "namesInEvents": args.names_in_events,
    }


def _quota_rules_errors(path: str, readings: list[dict[str, object]]) -> list[ConfigError]:
    """Quotas share one sum of min and what is borrowed of it, so all profiles with the plugin must agree."""
    place = child(path, f"{CAPACITY_SCHEDULING}.args")
    return [
        invalid(child(place, name), value, f"must be the same for all profiles, first: {readings[0][name]}")
        for name, value in readings[-1].items()
        if value != readings[0][name]
    ]


def plugin_args(profile: ProfileConfig, name: str) -> PluginArgs | object | None:
    """The arguments of a plugin in this profile, None if it has none.

    Typed for the plugins that Muster knows, the raw value of the file for others.
    """
    entry: PluginConfig | None = next((e for e in profile.plugin_config if e.name == name), None)
    if entry is None or entry.args is None:
        return None
    return entry.args if isinstance(entry.args, PluginArgs) else entry.args.raw


class _Expansion:
    """One profile's expansion; collects errors so that all of them are reported."""

    def __init__(self, profile: ProfileConfig, registry: Registry, listed_only: Registry, path: str) -> None:
        self.errors: list[ConfigError] = []
        self._plugins = profile.plugins
        self._registry = registry
        self._listed_only = listed_only
        self._path = path
        self._multi_point = profile.plugins.get(MULTI_POINT, PluginSet()).enabled
        self._twice: set[tuple[str, str]] = set()
        self._check_exist(MULTI_POINT, self._multi_point)

    def at(self, point: str) -> list[PluginRef]:
        """Listed plugins that multiPoint has too, other multiPoint plugins, then listed ones alone."""
        lists = self._plugins.get(point, PluginSet())
        listed = self._listed(point, lists.enabled)
        disabled = {plugin.name for plugin in lists.disabled}
        if ALL in disabled:
            return [PluginRef(name) for name in listed]
        overridden: set[str] = set()
        expanded: dict[str, None] = {}
        for plugin in self._multi_point:
            name = plugin.name
            if not self._reaches(name, point) or name in disabled:
                continue
            if name in listed:
                overridden.add(name)
            elif name in expanded:
                self._note_twice(MULTI_POINT, name, point)
            else:
                expanded[name] = None
        first = [name for name in listed if name in overridden]
        last = [name for name in listed if name not in overridden]
        return [PluginRef(name) for name in (*first, *expanded, *last)]

    def _reaches(self, name: str, point: str) -> bool:
        has_point = point in self._registry.get(name, frozenset())
        return has_point and point not in self._listed_only.get(name, frozenset())

    def _listed(self, point: str, plugins: Iterable[PluginEntry]) -> dict[str, None]:
        listed: dict[str, None] = {}
        self._check_exist(point, plugins)
        for plugin in plugins:
            points = self._registry.get(plugin.name)
            if points is None:
                continue
            if point not in points:
                known = ", ".join(p for p in EXTENSION_POINTS if p in points)
                rule = f'plugin "{plugin.name}" does not extend {_type_name(point)} plugin (it has: {known})'
                self.errors.append(ConfigError(child(self._path, point), rule, kind="Invalid"))
            elif plugin.name in listed:
                self._note_twice(point, plugin.name, point)
            listed[plugin.name] = None
        return listed

    def _check_exist(self, point: str, plugins: Iterable[PluginEntry]) -> None:
        for plugin in plugins:
            if plugin.name in self._registry:
                continue
            reason = NOT_IMPLEMENTED.get(plugin.name)
            problem = f'{_type_name(point)} "{plugin.name}" does not exist'
            if reason:
                problem += f" in Muster: {reason}"
            else:
                problem += f" (known plugins: {', '.join(sorted(self._registry))})"
            self.errors.append(not_found(child(self._path, point), problem))

    def _note_twice(self, listed_at: str, name: str, point: str) -> None:
        problem = f'plugin "{name}" already registered as "{_type_name(point)}"'
        if (listed_at, name) not in self._twice:
            self._twice.add((listed_at, name))
            self.errors.append(ConfigError(child(self._path, listed_at), problem, kind="Duplicate"))


def _type_name(point: str) -> str:
    return f"{point[0].upper()}{point[1:]}Plugin"


def _count_errors(name: str, plugins: Mapping[str, list[PluginRef]], path: str) -> Iterable[ConfigError]:
    sorters = plugins["queueSort"]
    if len(sorters) != 1:
        named = ", ".join(ref.name for ref in sorters) or "none"
        problem = (
            f'only one queue sort plugin required for profile with scheduler name "{name}", '
            f"but got {len(sorters)} ({named})"
        )
        yield ConfigError(child(path, "queueSort"), problem, kind="Invalid")
    if not plugins["bind"]:
        problem = f'at least one bind plugin is needed for profile with scheduler name "{name}"'
        yield ConfigError(child(path, "bind"), problem, kind="Required")


def _score_weights(profile: ProfileConfig) -> dict[str, int]:
    """The first weight that score, then multiPoint, gives a plugin; 0 counts as 1."""
    weights: dict[str, int] = {}
    for point in ("score", MULTI_POINT):
        for plugin in profile.plugins.get(point, PluginSet()).enabled:
            weights.setdefault(plugin.name, plugin.weight or 1)
    return weights
