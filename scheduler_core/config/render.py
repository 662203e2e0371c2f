"""Renders a configuration as plain values for output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler_core.config.documents import plain
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.config.problems import index
from scheduler_core.config.profiles import PluginRef, Registry, effective_plugins
from scheduler_core.config.schema import (
    Extender,
    OpaqueArgs,
    PluginConfig,
    PluginEntry,
    ProfileConfig,
    SchedulerConfiguration,
)
from scheduler_core.model.duration import format_duration

_DURATIONS = frozenset(
    {
        "usageAggregatedDuration",
        "scoreAggregatedDuration",
        "leaseDuration",
        "renewDeadline",
        "retryPeriod",
        "historyHalfLife",
    }
)


def view(config: SchedulerConfiguration, registry: Registry = KNOWN_PLUGINS) -> dict[str, Any]:
    """The effective configuration: settings, and for each profile its plugins per extension point.

    Everything has its defaults. Raises ConfigErrors for a configuration that would not start.
    """
    profiles = [
        _profile(profile, effective_plugins(profile, registry, path=index("profiles", i)))
        for i, profile in enumerate(config.profiles)
    ]
    return {**_settings(config), "profiles": profiles}


def _settings(config: SchedulerConfiguration) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "parallelism": config.parallelism,
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
        "delayCacheUntilActive": config.delay_cache_until_active,
        "enableProfiling": config.enable_profiling,
        "enableContentionProfiling": config.enable_contention_profiling,
        "clientConnection": _without_empty(plain(config.client_connection)),
        "leaderElection": _without_empty(plain(config.leader_election)),
    }
    if config.extenders:
        settings["extenders"] = [extender_document(extender) for extender in config.extenders]
    return settings


def _profile(profile: ProfileConfig, plugins: Mapping[str, list[PluginRef]]) -> dict[str, Any]:
    shown: dict[str, Any] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        shown["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    shown["plugins"] = {point: [plugin_entry(ref) for ref in refs] for point, refs in plugins.items()}
    shown["pluginConfig"] = [plugin_config_entry(entry) for entry in profile.plugin_config]
    return shown


def plugin_entry(plugin: PluginRef | PluginEntry) -> dict[str, Any]:
    """A plugin as written in a list of plugins, without a weight of 0."""
    return {"name": plugin.name, "weight": plugin.weight} if plugin.weight else {"name": plugin.name}


def plugin_config_entry(entry: PluginConfig) -> dict[str, Any]:
    """A pluginConfig entry as written in a file, without fields that are empty."""
    if entry.args is None:
        return {"name": entry.name}
    if isinstance(entry.args, OpaqueArgs):
        return {"name": entry.name, "args": entry.args.raw}
    return {"name": entry.name, "args": _without_empty(plain(entry.args))}


def extender_document(extender: Extender) -> dict[str, Any]:
    """An extender as written in a file, without fields that are unset."""
    fields: dict[str, Any] = plain(extender)
    fields["httpTimeout"] = format_duration(extender.http_timeout)
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


def _without_empty(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        inner = {key: _without_empty(item, key) for key, item in value.items()}
        return {key: item for key, item in inner.items() if item not in (None, "", [], {})}
    if isinstance(value, list):
        return [_without_empty(item) for item in value]
    if name in _DURATIONS:
        return format_duration(value)
    return value
