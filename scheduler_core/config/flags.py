"""Applies command line flags to a configuration.

With a configuration file, only the leader election flags and `--also-known-as` apply. Without one, the flags
that Kubernetes deprecated act on the default profile and on the connection.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import structs

from scheduler_core.config.args.kubernetes import InterPodAffinityArgs, NodeResourcesFitArgs
from scheduler_core.config.args.typed import decode_args
from scheduler_core.config.load import default_config
from scheduler_core.config.old.policy import provider_algorithm
from scheduler_core.config.problems import ConfigErrors, invalid, required
from scheduler_core.config.qualified import qualified_name_problem
from scheduler_core.config.schema import PluginArgs, PluginConfig, ProfileConfig, SchedulerConfiguration
from scheduler_core.config.validation import validate
from scheduler_core.model.names import INTER_POD_AFFINITY


class Flags(msgspec.Struct, frozen=True, kw_only=True):
    """The values of the flags; None for a flag that is not given. Durations are in seconds."""

    leader_elect: bool | None = None
    leader_elect_lease_duration: float | None = None
    leader_elect_renew_deadline: float | None = None
    leader_elect_retry_period: float | None = None
    leader_elect_resource_lock: str | None = None
    leader_elect_resource_name: str | None = None
    leader_elect_resource_namespace: str | None = None
    kubeconfig: str | None = None
    kube_api_qps: float | None = None
    kube_api_burst: int | None = None
    kube_api_content_type: str | None = None
    profiling: bool | None = None
    contention_profiling: bool | None = None
    scheduler_name: str | None = None
    hard_pod_affinity_symmetric_weight: int | None = None
    algorithm_provider: str | None = None
    also_known_as: str | None = None


_ELECTION: Final = {
    "leader_elect": "leader_elect",
    "leader_elect_lease_duration": "lease_duration",
    "leader_elect_renew_deadline": "renew_deadline",
    "leader_elect_retry_period": "retry_period",
    "leader_elect_resource_lock": "resource_lock",
    "leader_elect_resource_name": "resource_name",
    "leader_elect_resource_namespace": "resource_namespace",
}
_BESIDE_A_FILE: Final = {*_ELECTION, "also_known_as"}
_CONNECTION: Final = {
    "kubeconfig": "kubeconfig",
    "kube_api_qps": "qps",
    "kube_api_burst": "burst",
    "kube_api_content_type": "content_type",
}
_DEBUGGING: Final = {"profiling": "enable_profiling", "contention_profiling": "enable_contention_profiling"}


def apply_flags(
    flags: Flags, config: SchedulerConfiguration | None = None, base: SchedulerConfiguration | None = None
) -> SchedulerConfiguration:
    """The configuration to run with; raises ConfigErrors.

    `config` is that of a file. Without it the flags act on `base`, which has one profile, or on Kubernetes'
    default configuration. `also_known_as`, names between commas, repeats the first profile under each.
    """
    if config is None:
        config = _deprecated(flags, base or default_config())
    config = _repeated(config, flags.also_known_as)
    config = structs.replace(config, leader_election=_over(config.leader_election, flags, _ELECTION))
    errors = validate(config)
    if errors:
        raise ConfigErrors(errors)
    return config


def ignored_flags(flags: Flags) -> list[str]:
    """The given flags that have no effect with a configuration file."""
    given = (field.name for field in structs.fields(flags) if getattr(flags, field.name) is not None)
    return [f"--{name.replace('_', '-')}" for name in given if name not in _BESIDE_A_FILE]


def _repeated(config: SchedulerConfiguration, names: str | None) -> SchedulerConfiguration:
    """The first profile once more under each name, for pods that name another installation's scheduler."""
    if names is None or not config.profiles:
        return config
    profiles = list(config.profiles)
    for name in filter(None, (part.strip() for part in names.split(","))):
        if any(profile.scheduler_name == name for profile in profiles):
            raise ConfigErrors([invalid("--also-known-as", name, "there is a profile of this name")])
        problem = qualified_name_problem(name)  # events carry the name, and the API server asks that of it
        if problem:
            raise ConfigErrors([invalid("--also-known-as", name, problem)])
        profiles.append(structs.replace(profiles[0], scheduler_name=name))
    return structs.replace(config, profiles=tuple(profiles))


def _over(target: Any, flags: Flags, fields: dict[str, str]) -> Any:
    values = {name: getattr(flags, flag) for flag, name in fields.items()}
    return structs.replace(target, **{name: value for name, value in values.items() if value is not None})


def _deprecated(flags: Flags, config: SchedulerConfiguration) -> SchedulerConfiguration:
    config = _over(config, flags, _DEBUGGING)
    (profile,) = config.profiles
    return structs.replace(
        config,
        client_connection=_over(config.client_connection, flags, _CONNECTION),
        profiles=(_profile(flags, profile),),
    )


def _profile(flags: Flags, profile: ProfileConfig) -> ProfileConfig:
    if flags.scheduler_name is not None:
        if not flags.scheduler_name:
            raise ConfigErrors([required("--scheduler-name")])
        profile = structs.replace(profile, scheduler_name=flags.scheduler_name)
    weight = flags.hard_pod_affinity_symmetric_weight
    if weight is not None:
        if not 0 <= weight <= 100:
            rule = "not in valid range [0, 100]"
            raise ConfigErrors([invalid("--hard-pod-affinity-symmetric-weight", weight, rule)])
        args = InterPodAffinityArgs(hard_pod_affinity_weight=weight)
        profile = _with_args(profile, INTER_POD_AFFINITY, args)
    if flags.algorithm_provider is not None:
        algorithm = provider_algorithm(flags.algorithm_provider, "--algorithm-provider")
        for name, raw in algorithm.args.items():
            fit = decode_args(name, raw, "--algorithm-provider", [])
            assert isinstance(fit, NodeResourcesFitArgs)
            profile = _with_args(profile, name, fit)
    return profile


def _with_args(profile: ProfileConfig, name: str, args: PluginArgs) -> ProfileConfig:
    entries = tuple(
        PluginConfig(name, args) if entry.name == name else entry for entry in profile.plugin_config
    )
    return structs.replace(profile, plugin_config=entries)
