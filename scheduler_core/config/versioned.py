"""The versioned types of KubeSchedulerConfiguration: one struct per API version, as a file is written."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import field, structs

from scheduler_core.config.decode import Int32, Int64
from scheduler_core.config.schema import ClientConnection, Extender, LeaderElection, PluginSet

_NONE = PluginSet()


class PluginLists(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of the lists per extension point."""

    def by_point(self) -> dict[str, PluginSet]:
        """Each extension point of this version with its lists."""
        return {field.encode_name: getattr(self, field.name) for field in structs.fields(self)}


class PluginsV1Alpha1(PluginLists, frozen=True, kw_only=True, rename="camel"):
    """The lists of v1alpha1, where postFilter is what later versions call preScore."""

    queue_sort: PluginSet = _NONE
    pre_filter: PluginSet = _NONE
    filter: PluginSet = _NONE
    post_filter: PluginSet = _NONE
    score: PluginSet = _NONE
    reserve: PluginSet = _NONE
    permit: PluginSet = _NONE
    pre_bind: PluginSet = _NONE
    bind: PluginSet = _NONE
    post_bind: PluginSet = _NONE
    unreserve: PluginSet = _NONE


class PluginsV1Alpha2(PluginsV1Alpha1, frozen=True, kw_only=True, rename="camel"):
    pre_score: PluginSet = _NONE


class PluginsV1Beta1(PluginLists, frozen=True, kw_only=True, rename="camel"):
    queue_sort: PluginSet = _NONE
    pre_filter: PluginSet = _NONE
    filter: PluginSet = _NONE
    post_filter: PluginSet = _NONE
    pre_score: PluginSet = _NONE
    score: PluginSet = _NONE
    reserve: PluginSet = _NONE
    permit: PluginSet = _NONE
    pre_bind: PluginSet = _NONE
    bind: PluginSet = _NONE
    post_bind: PluginSet = _NONE


class PluginsV1Beta2(PluginsV1Beta1, frozen=True, kw_only=True, rename="camel"):
    pre_enqueue: PluginSet = _NONE


class PluginsV1Beta3(PluginsV1Beta2, frozen=True, kw_only=True, rename="camel"):
    multi_point: PluginSet = _NONE


class PluginsV1(PluginsV1Beta3, frozen=True, kw_only=True, rename="camel"):
    """The lists of v1. The last two points are of Kubernetes 1.36; Muster does not have them."""

    placement_generate: PluginSet = _NONE
    placement_score: PluginSet = _NONE


class VersionedPluginConfig(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str = ""
    args: Any = None


class _VersionedProfile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    scheduler_name: str | None = None
    plugins: PluginLists = PluginLists()
    plugin_config: tuple[VersionedPluginConfig, ...] = ()


class ProfileV1Alpha2(_VersionedProfile, frozen=True, kw_only=True, rename="camel"):
    plugins: PluginsV1Alpha2 = PluginsV1Alpha2()


class ProfileV1Beta1(_VersionedProfile, frozen=True, kw_only=True, rename="camel"):
    plugins: PluginsV1Beta1 = PluginsV1Beta1()


class ProfileV1Beta2(_VersionedProfile, frozen=True, kw_only=True, rename="camel"):
    plugins: PluginsV1Beta2 = PluginsV1Beta2()


class ProfileV1Beta3(_VersionedProfile, frozen=True, kw_only=True, rename="camel"):
    plugins: PluginsV1Beta3 = PluginsV1Beta3()


class ProfileV1(_VersionedProfile, frozen=True, kw_only=True, rename="camel"):
    plugins: PluginsV1 = PluginsV1()
    percentage_of_nodes_to_score: Int32 | None = None


class _CommonFields(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10


class _ConfigSinceBeta1(_CommonFields, frozen=True, kw_only=True, rename="camel"):
    """The fields of v1beta1 and all later versions, without profiles."""

    parallelism: Int32 = 16
    extenders: tuple[Extender, ...] = ()


class ConfigV1Beta3(_ConfigSinceBeta1, frozen=True, kw_only=True, rename="camel"):
    profiles: tuple[ProfileV1Beta3, ...] = ()


class ConfigV1(_ConfigSinceBeta1, frozen=True, kw_only=True, rename="camel"):
    delay_cache_until_active: bool = False
    profiles: tuple[ProfileV1, ...] = ()


class _ConfigOfFirstBetas(_ConfigSinceBeta1, frozen=True, kw_only=True, rename="camel"):
    """The fields of v1beta1 and v1beta2, without profiles."""

    healthz_bind_address: str = ""
    metrics_bind_address: str = ""


class ConfigV1Beta2(_ConfigOfFirstBetas, frozen=True, kw_only=True, rename="camel"):
    profiles: tuple[ProfileV1Beta2, ...] = ()


class ConfigV1Beta1(_ConfigOfFirstBetas, frozen=True, kw_only=True, rename="camel"):
    profiles: tuple[ProfileV1Beta1, ...] = ()


class LegacyExtender(Extender, frozen=True, kw_only=True, rename="camel"):
    """The extender of v1alpha2 and of a Policy, which spells one field differently."""

    enable_https: bool = field(default=False, name="enableHttps")


class _ConfigOfAlphas(_CommonFields, frozen=True, kw_only=True, rename="camel"):
    """The fields of v1alpha1 and v1alpha2, without plugins and profiles."""

    healthz_bind_address: str = ""
    metrics_bind_address: str = ""
    disable_preemption: bool = False
    bind_timeout_seconds: Int64 | None = None


class ConfigV1Alpha2(_ConfigOfAlphas, frozen=True, kw_only=True, rename="camel"):
    profiles: tuple[ProfileV1Alpha2, ...] = ()
    extenders: tuple[LegacyExtender, ...] = ()


class LeaderElectionV1Alpha1(LeaderElection, frozen=True, kw_only=True, rename="camel"):
    lock_object_name: str = ""
    lock_object_namespace: str = ""


class PolicyFile(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    path: str = ""


class PolicyConfigMap(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    namespace: str = "kube-system"
    name: str = ""


class PolicySource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    file: PolicyFile | None = None
    config_map: PolicyConfigMap | None = None


class AlgorithmSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    policy: PolicySource | None = None
    provider: str | None = None


class ConfigV1Alpha1(_ConfigOfAlphas, frozen=True, kw_only=True, rename="camel"):
    scheduler_name: str | None = None
    algorithm_source: AlgorithmSource = AlgorithmSource()
    hard_pod_affinity_symmetric_weight: Int32 | None = None
    leader_election: LeaderElectionV1Alpha1 = LeaderElectionV1Alpha1()
    plugins: PluginsV1Alpha1 = PluginsV1Alpha1()
    plugin_config: tuple[VersionedPluginConfig, ...] = ()
