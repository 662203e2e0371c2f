"""Validates a configuration with the paths and texts of Kubernetes; finds all errors, in field order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from scheduler_core.config.problems import (
    child,
    duplicate,
    index,
    invalid,
    required,
)
from scheduler_core.config.qualified import is_extended_resource, qualified_name_problem
from scheduler_core.config.schema import (
    Extender,
    LeaderElection,
    PluginArgs,
    PluginConfig,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)
from scheduler_core.config.versions import V1BETA2, V1BETA3, VERSIONS
from scheduler_core.errors import ConfigError
from scheduler_core.model import names
from scheduler_core.model.duration import format_duration

# Plugins that were removed, with the first version that calls them "invalid", as Kubernetes does.
_REMOVED: Final[Mapping[str, str]] = {
    names.NODE_LABEL: V1BETA2,
    names.SERVICE_AFFINITY: V1BETA2,
    names.NODE_PREFER_AVOID_PODS: V1BETA2,
    names.NODE_RESOURCES_LEAST_ALLOCATED: V1BETA2,
    names.NODE_RESOURCES_MOST_ALLOCATED: V1BETA2,
    names.REQUESTED_TO_CAPACITY_RATIO: V1BETA2,
    names.SELECTOR_SPREAD: V1BETA3,
}


def validate(config: SchedulerConfiguration) -> list[ConfigError]:
    """The errors of `config`, in field order."""
    return [*_errors(config)]


def _errors(config: SchedulerConfiguration) -> Iterator[ConfigError]:
    burst = config.client_connection.burst
    if burst < 0:
        yield invalid("clientConnection.burst", burst, "must be non-negative")
    if config.leader_election.leader_elect:
        yield from _election_errors(config.leader_election)
    yield from _address_errors(config)
    if config.parallelism <= 0:
        rule = "should be an integer value greater than zero"
        yield invalid("parallelism", config.parallelism, rule)
    yield from _profiles_errors(config)
    yield from _percentage_errors("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield invalid("podInitialBackoffSeconds", initial, "must be greater than 0")
    if longest < initial:
        rule = "must be greater than or equal to PodInitialBackoffSeconds"
        yield invalid("podMaxBackoffSeconds", longest, rule)
    yield from _extender_errors(config.extenders)


def _election_errors(election: LeaderElection) -> Iterator[ConfigError]:
    path = "leaderElection"
    positive = (
        ("leaseDuration", election.lease_duration),
        ("renewDeadline", election.renew_deadline),
        ("retryPeriod", election.retry_period),
    )
    for name, seconds in positive:
        if seconds <= 0:
            yield invalid(child(path, name), format_duration(seconds), "must be greater than zero")
    if election.lease_duration < election.renew_deadline:
        rule = "LeaseDuration must be greater than RenewDeadline"
        yield invalid(child(path, "leaseDuration"), format_duration(election.lease_duration), rule)
    if not election.resource_name:
        yield invalid(child(path, "resourceName"), election.resource_name, "resourceName is required")
    if not election.resource_namespace:
        rule = "resourceNamespace is required"
        yield invalid(child(path, "resourceNamespace"), election.resource_namespace, rule)
    if election.resource_lock != "leases":
        rule = 'resourceLock value must be "leases"'
        yield invalid(child(path, "resourceLock"), election.resource_lock, rule)


def _address_errors(config: SchedulerConfiguration) -> Iterator[ConfigError]:
    """v1beta2 kept the addresses only for files that switch them off."""
    if config.api_version != V1BETA2:
        return
    addresses = (
        ("healthzBindAddress", config.healthz_bind_address),
        ("metricsBindAddress", config.metrics_bind_address),
    )
    for name, address in addresses:
        if address and not address.endswith(":0"):
            yield invalid(name, address, "must be empty or with an explicit 0 port")


def _percentage_errors(path: str, percentage: int | None) -> Iterator[ConfigError]:
    if percentage is not None and not 0 <= percentage <= 100:
        yield invalid(path, percentage, "not in valid range [0-100]")


def _profiles_errors(config: SchedulerConfiguration) -> Iterator[ConfigError]:
    if not config.profiles:
        yield required("profiles")
        return
    names: dict[str, int] = {}
    for i, profile in enumerate(config.profiles):
        path = index("profiles", i)
        name_path = child(path, "schedulerName")
        if not profile.scheduler_name:
            yield required(name_path)
        yield from _percentage_errors(
            child(path, "percentageOfNodesToScore"), profile.percentage_of_nodes_to_score
        )
        yield from _removed_errors(path, profile, config.api_version)
        yield from _plugin_config_errors(child(path, "pluginConfig"), profile, config.api_version)
        if profile.scheduler_name in names:
            yield duplicate(name_path, profile.scheduler_name)
        names[profile.scheduler_name] = i
    yield from _queue_sort_errors(config.profiles)


def _removed_rule(name: str, version: str) -> str | None:
    since = _REMOVED.get(name)
    if since is None or version not in VERSIONS or VERSIONS.index(version) < VERSIONS.index(since):
        return None
    return f'was invalid in version "{since}" (KubeSchedulerConfiguration is version "{version}")'


def _removed_errors(path: str, profile: ProfileConfig, version: str) -> Iterator[ConfigError]:
    for point, lists in profile.plugins.items():
        for i, plugin in enumerate(lists.enabled):
            rule = _removed_rule(plugin.name, version)
            if rule:
                place = index(child(child(child(path, "plugins"), point), "enabled"), i)
                yield invalid(place, plugin.name, rule)


def _plugin_config_errors(path: str, profile: ProfileConfig, version: str) -> Iterator[ConfigError]:
    seen: set[str] = set()
    for i, entry in enumerate(profile.plugin_config):
        place = index(path, i)
        if not entry.name:
            yield required(child(place, "name"), "these arguments belong to no plugin")
        if entry.name in seen:
            yield duplicate(place, entry.name)
        seen.add(entry.name)
        rule = _removed_rule(entry.name, version)
        if rule:
            yield invalid(place, entry.name, rule)
        elif isinstance(entry.args, PluginArgs):
            yield from entry.args.problems(child(place, "args"))


def _queue_sort_errors(profiles: tuple[ProfileConfig, ...]) -> Iterator[ConfigError]:
    """There is one queue, so all profiles must sort it alike."""
    first, *others = profiles
    canon = first.plugins.get("queueSort", PluginSet())
    if len(canon.enabled) > 1:
        path = child(index("profiles", 0), "plugins.queueSort.Enabled")  # as Kubernetes spells it
        yield invalid(path, len(canon.enabled), "only one queue sort plugin can be enabled")
    sorter = canon.enabled[0].name if canon.enabled else ""
    canon_args = _args_of(first.plugin_config, sorter)
    for i, profile in enumerate(others, start=1):
        path = index("profiles", i)
        current = profile.plugins.get("queueSort", PluginSet())
        if current != canon:
            place = child(path, "plugins.queueSort")
            yield invalid(place, _names(current), "must be the same for all profiles")
        for entry in profile.plugin_config:
            if sorter and entry.name == sorter and entry.args != canon_args:
                place = child(path, "pluginConfig.args")
                yield invalid(place, entry.args, "queueSort must be the same for all profiles")


def _args_of(entries: tuple[PluginConfig, ...], name: str) -> Any:
    return next((entry.args for entry in entries if entry.name == name), None)


def _names(lists: PluginSet) -> dict[str, list[str]]:
    return {
        "enabled": [plugin.name for plugin in lists.enabled],
        "disabled": [plugin.name for plugin in lists.disabled],
    }


def _extender_errors(extenders: tuple[Extender, ...]) -> Iterator[ConfigError]:
    managed: set[str] = set()
    for i, extender in enumerate(extenders):
        path = index("extenders", i)
        if extender.prioritize_verb and extender.weight <= 0:
            rule = "must have a positive weight applied to it"
            yield invalid(child(path, "weight"), extender.weight, rule)
        for j, resource in enumerate(extender.managed_resources):
            place = child(index(child(path, "managedResources"), j), "name")
            problem = qualified_name_problem(resource.name)
            if problem:
                yield invalid(place, resource.name, problem)
            elif not is_extended_resource(resource.name):
                yield invalid(place, resource.name, "is an invalid extended resource name")
            if resource.name in managed:
                yield invalid(place, resource.name, "duplicate extender managed resource name")
            managed.add(resource.name)
    binders = sum(1 for extender in extenders if extender.bind_verb)
    if binders > 1:
        found = f"found {binders} extenders implementing bind"
        yield invalid("extenders", found, "only one extender can implement bind")
