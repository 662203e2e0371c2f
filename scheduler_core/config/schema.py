"""The internal configuration, after decoding, conversion and defaults; the rest of Muster reads only this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import field

from scheduler_core.config.decode import Int32, Int64, Seconds
from scheduler_core.errors import ConfigError
from scheduler_core.model.names import DEFAULT_SCHEDULER


class LeaderElection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Durations in seconds."""

    leader_elect: bool = True
    lease_duration: Seconds = 15.0
    renew_deadline: Seconds = 10.0
    retry_period: Seconds = 2.0
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """`qps` and `burst` limit the API calls of one process."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class ExtenderTLS(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ManagedResource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """An HTTP service that takes part in scheduling. `http_timeout` in seconds."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLS | None = None
    http_timeout: Seconds = 0.0
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class PluginEntry(msgspec.Struct, frozen=True, rename="camel"):
    """A plugin in a list; weight 0 means that none was given."""

    name: str = ""
    weight: Int32 = 0


class PluginSet(msgspec.Struct, frozen=True, rename="camel"):
    enabled: tuple[PluginEntry, ...] = ()
    disabled: tuple[PluginEntry, ...] = ()


# Extension point, or multiPoint, to its lists; a point without lists may be missing.
Plugins = Mapping[str, PluginSet]


class PluginArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the typed arguments of a plugin that Muster knows."""

    def filled(self) -> PluginArgs:
        """The same arguments with the defaults that depend on other fields filled in."""
        return self

    def problems(self, path: str) -> Iterable[ConfigError]:
        """The errors of the arguments at `path`."""
        return ()


class OpaqueArgs(msgspec.Struct, frozen=True):
    """The arguments of a plugin that Muster does not know, as written."""

    raw: Any = None


class PluginConfig(msgspec.Struct, frozen=True):
    name: str
    args: PluginArgs | OpaqueArgs | None = None


class ProfileConfig(msgspec.Struct, frozen=True, kw_only=True):
    """One scheduler name with its plugins. `plugins` is already merged with the defaults.

    `warnings` lists the settings that Muster does not apply as written, each with its path.
    """

    scheduler_name: str = DEFAULT_SCHEDULER
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = msgspec.field(default_factory=dict)
    plugin_config: tuple[PluginConfig, ...] = ()
    warnings: tuple[str, ...] = ()


class SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    """KubeSchedulerConfiguration, version-free. `api_version` is the version of the file it came from."""

    api_version: str = ""
    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    enable_profiling: bool = True
    enable_contention_profiling: bool = True
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    delay_cache_until_active: bool = False
    profiles: tuple[ProfileConfig, ...] = ()
    extenders: tuple[Extender, ...] = ()

    @property
    def warnings(self) -> list[str]:
        """The settings that Muster does not apply as written, each with its path."""
        return [warning for profile in self.profiles for warning in profile.warnings]
