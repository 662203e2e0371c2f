"""Converts a configuration document of any known version to the internal configuration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from msgspec import structs

from scheduler_core.config.args.kubernetes import LIST_DEFAULTING
from scheduler_core.config.args.typed import GROUP, decode_args
from scheduler_core.config.decode import decode
from scheduler_core.config.defaults import (
    MULTI_POINT_DEFAULTS,
    PER_POINT_DEFAULTS,
    merge_plugins,
    with_default_args,
    without_left_out,
)
from scheduler_core.config.old.policy_source import NO_READERS, PolicyReaders
from scheduler_core.config.old.scores import translated
from scheduler_core.config.old.spread import with_owners_spread
from scheduler_core.config.old.v1alpha1 import to_v1alpha2
from scheduler_core.config.plugins import OLD_LEFT_OUT
from scheduler_core.config.problems import ConfigErrors, child, index
from scheduler_core.config.schema import (
    ClientConnection,
    Extender,
    LeaderElection,
    PluginConfig,
    PluginEntry,
    Plugins,
    PluginSet,
    ProfileConfig,
    SchedulerConfiguration,
)
from scheduler_core.config.versioned import (
    ConfigV1,
    ConfigV1Alpha2,
    ConfigV1Beta1,
    ConfigV1Beta2,
    ConfigV1Beta3,
    VersionedPluginConfig,
)
from scheduler_core.errors import ConfigError
from scheduler_core.model.names import (
    DEFAULT_PREEMPTION,
    DEFAULT_SCHEDULER,
    POD_TOPOLOGY_SPREAD,
    VOLUME_BINDING,
)

KIND: Final = "KubeSchedulerConfiguration"
# From the oldest to the newest.
VERSIONS: Final = tuple(
    f"{GROUP}/{v}" for v in ("v1alpha1", "v1alpha2", "v1beta1", "v1beta2", "v1beta3", "v1")
)
V1ALPHA1, V1ALPHA2, V1BETA1, V1BETA2, V1BETA3, V1 = VERSIONS

VersionedConfig = ConfigV1 | ConfigV1Beta3 | ConfigV1Beta2 | ConfigV1Beta1 | ConfigV1Alpha2
_VERSIONED: Final[Mapping[str, type[VersionedConfig]]] = {
    V1ALPHA2: ConfigV1Alpha2,
    V1BETA1: ConfigV1Beta1,
    V1BETA2: ConfigV1Beta2,
    V1BETA3: ConfigV1Beta3,
    V1: ConfigV1,
}
_OLD_LOCKS: Final = frozenset({"endpointsleases", "configmapsleases"})


def check_header(raw: Any) -> str:
    """The document's apiVersion; raises ConfigErrors if it is not one of `VERSIONS` or the kind is wrong."""
    if not isinstance(raw, dict):
        raise ConfigErrors([ConfigError("", f"expected a {KIND} document")])
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if not kind or not isinstance(kind, str):
        raise ConfigErrors([ConfigError("kind", f"Object 'Kind' is missing (expected {KIND})")])
    known = ", ".join(VERSIONS)
    if not version or not isinstance(version, str):
        raise ConfigErrors(
            [ConfigError("apiVersion", f"Object 'apiVersion' is missing (known versions: {known})")]
        )
    if version not in VERSIONS or kind != KIND:
        problem = f'no kind "{kind}" is registered for version "{version}" (known: kind {KIND} of {known})'
        raise ConfigErrors([ConfigError("apiVersion" if kind == KIND else "kind", problem)])
    return version


def read_document(raw: Any, readers: PolicyReaders = NO_READERS) -> SchedulerConfiguration:
    """The internal configuration of a document, with defaults, not validated; raises ConfigErrors."""
    version = check_header(raw)
    if version == V1ALPHA1:
        raw = to_v1alpha2(raw, readers)
    errors: list[ConfigError] = []
    versioned = decode(raw, _VERSIONED[V1ALPHA2 if version == V1ALPHA1 else version], "", errors)
    config = _internal(versioned, version, errors)
    if errors:
        raise ConfigErrors(errors)
    return config


def _internal(versioned: VersionedConfig, version: str, errors: list[ConfigError]) -> SchedulerConfiguration:
    contention = versioned.enable_contention_profiling
    config = SchedulerConfiguration(
        api_version=version,
        leader_election=_election(versioned),
        client_connection=_connection(versioned.client_connection),
        enable_profiling=versioned.enable_profiling,
        enable_contention_profiling=versioned.enable_profiling if contention is None else contention,
        percentage_of_nodes_to_score=versioned.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds=versioned.pod_initial_backoff_seconds,
        pod_max_backoff_seconds=versioned.pod_max_backoff_seconds,
        profiles=_profiles(versioned, errors),
        extenders=tuple(_extender(extender) for extender in versioned.extenders),
    )
    if not isinstance(versioned, ConfigV1Alpha2):
        config = structs.replace(config, parallelism=versioned.parallelism)
    if isinstance(versioned, ConfigV1):
        config = structs.replace(config, delay_cache_until_active=versioned.delay_cache_until_active)
    if isinstance(versioned, ConfigV1Alpha2 | ConfigV1Beta1 | ConfigV1Beta2):
        config = structs.replace(
            config,
            healthz_bind_address=versioned.healthz_bind_address,
            metrics_bind_address=versioned.metrics_bind_address,
        )
    return config


def _profiles(versioned: VersionedConfig, errors: list[ConfigError]) -> tuple[ProfileConfig, ...]:
    given = versioned.profiles
    if not given:
        return (_profile(versioned, None, {}, (), "", errors),)
    profiles = []
    for i, item in enumerate(given):
        name = item.scheduler_name
        if name is None and len(given) > 1:
            name = ""
        plugins = item.plugins.by_point()
        profile = _profile(versioned, name, plugins, item.plugin_config, index("profiles", i), errors)
        percentage = getattr(item, "percentage_of_nodes_to_score", None)
        profiles.append(structs.replace(profile, percentage_of_nodes_to_score=percentage))
    return tuple(profiles)


def _profile(
    versioned: VersionedConfig,
    name: str | None,
    custom: Plugins,
    entries: Iterable[VersionedPluginConfig],
    path: str,
    errors: list[ConfigError],
) -> ProfileConfig:
    if isinstance(versioned, ConfigV1 | ConfigV1Beta3):
        defaults = MULTI_POINT_DEFAULTS
    else:
        defaults = PER_POINT_DEFAULTS
    place = child(path, "pluginConfig")
    before_v1beta2 = isinstance(versioned, ConfigV1Alpha2 | ConfigV1Beta1)
    config = tuple(
        PluginConfig(
            entry.name, decode_args(entry.name, _args(entry, before_v1beta2), index(place, i), errors)
        )
        for i, entry in enumerate(entries)
    )
    custom, warnings = without_left_out(custom, path, OLD_LEFT_OUT if before_v1beta2 else {})
    if before_v1beta2:
        custom, config, of_scores = translated(custom, config, path, errors)
        custom, config, of_spread = with_owners_spread(custom, config, path)
        warnings += of_scores + of_spread
    if isinstance(versioned, ConfigV1Alpha2):
        custom = _old_lists(custom, versioned.disable_preemption)
        config = _old_bind_timeout(config, versioned.bind_timeout_seconds)
    plugins = merge_plugins(defaults, custom)
    return ProfileConfig(
        scheduler_name=DEFAULT_SCHEDULER if name is None else name,
        plugins=plugins,
        plugin_config=with_default_args(config, plugins),
        warnings=warnings,
    )


def _args(entry: VersionedPluginConfig, before_v1beta2: bool) -> Any:
    """The arguments as written; constraints of PodTopologySpread needed no type before v1beta2."""
    args = entry.args
    if not before_v1beta2 or entry.name != POD_TOPOLOGY_SPREAD or not isinstance(args, dict):
        return args
    untyped = args.get("defaultConstraints") and not args.get("defaultingType")
    return {**args, "defaultingType": LIST_DEFAULTING} if untyped else args


def _old_lists(custom: Plugins, disable_preemption: bool) -> dict[str, PluginSet]:
    """v1alpha2's lists: unreserve is part of reserve today, and preemption is a plugin."""
    lists = dict(custom)
    unreserve = lists.pop("unreserve", PluginSet())
    reserve = lists.get("reserve", PluginSet())
    seen = {plugin.name for plugin in reserve.enabled}
    more = tuple(plugin for plugin in unreserve.enabled if plugin.name not in seen)
    lists["reserve"] = PluginSet(reserve.enabled + more, reserve.disabled)
    if disable_preemption:
        post = lists.get("postFilter", PluginSet())
        lists["postFilter"] = PluginSet(post.enabled, (*post.disabled, PluginEntry(DEFAULT_PREEMPTION)))
    return lists


def _old_bind_timeout(config: tuple[PluginConfig, ...], seconds: int | None) -> tuple[PluginConfig, ...]:
    if seconds is None or any(entry.name == VOLUME_BINDING for entry in config):
        return config
    args = decode_args(VOLUME_BINDING, {"bindTimeoutSeconds": seconds}, "", [])
    return (*config, PluginConfig(VOLUME_BINDING, args))


def _election(versioned: VersionedConfig) -> LeaderElection:
    """Empty and zero fields are unset fields; the lock of old versions also wrote a lease."""
    given, default = versioned.leader_election, LeaderElection()
    lock = given.resource_lock or default.resource_lock
    if isinstance(versioned, ConfigV1Alpha2 | ConfigV1Beta1) and lock in _OLD_LOCKS:
        lock = default.resource_lock
    return LeaderElection(
        leader_elect=given.leader_elect,
        lease_duration=given.lease_duration or default.lease_duration,
        renew_deadline=given.renew_deadline or default.renew_deadline,
        retry_period=given.retry_period or default.retry_period,
        resource_lock=lock,
        resource_name=given.resource_name or default.resource_name,
        resource_namespace=given.resource_namespace or default.resource_namespace,
    )


def _connection(given: ClientConnection) -> ClientConnection:
    default = ClientConnection()
    return structs.replace(
        given,
        content_type=given.content_type or default.content_type,
        qps=given.qps or default.qps,
        burst=given.burst or default.burst,
    )


def _extender(given: Extender) -> Extender:
    return Extender(**{field.name: getattr(given, field.name) for field in structs.fields(Extender)})
