"""Decodes the raw `args` of a pluginConfig entry to typed arguments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from scheduler_core.config.args.kubernetes import (
    DefaultPreemptionArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    VolumeBindingArgs,
)
from scheduler_core.config.args.muster import (
    CapacitySchedulingArgs,
    ClusterTopologyPlacementGroupArgs,
    CoschedulingArgs,
    LoadAwareSchedulingArgs,
)
from scheduler_core.config.args.spread import PodTopologySpreadArgs
from scheduler_core.config.decode import decode
from scheduler_core.config.old.scores import OLD_SCORE_ARGS
from scheduler_core.config.problems import child
from scheduler_core.config.schema import OpaqueArgs, PluginArgs
from scheduler_core.errors import ConfigError
from scheduler_core.model import names

GROUP: Final = "kubescheduler.config.k8s.io"

ARG_TYPES: Final[Mapping[str, type[PluginArgs]]] = {
    names.DEFAULT_PREEMPTION: DefaultPreemptionArgs,
    names.INTER_POD_AFFINITY: InterPodAffinityArgs,
    names.NODE_AFFINITY: NodeAffinityArgs,
    names.NODE_RESOURCES_BALANCED_ALLOCATION: NodeResourcesBalancedAllocationArgs,
    names.NODE_RESOURCES_FIT: NodeResourcesFitArgs,
    names.POD_TOPOLOGY_SPREAD: PodTopologySpreadArgs,
    names.VOLUME_BINDING: VolumeBindingArgs,
    names.CAPACITY_SCHEDULING: CapacitySchedulingArgs,
    names.COSCHEDULING: CoschedulingArgs,
    names.LOAD_AWARE_SCHEDULING: LoadAwareSchedulingArgs,
    names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP: ClusterTopologyPlacementGroupArgs,
}


def default_args(plugin: str) -> PluginArgs | None:
    """The default arguments of `plugin`; None for a plugin without arguments."""
    kind = ARG_TYPES.get(plugin)
    return kind().filled() if kind else None


def decode_args(
    plugin: str, raw: Any, path: str, errors: list[ConfigError]
) -> PluginArgs | OpaqueArgs | None:
    """The typed arguments of a plugin, or those of an unknown plugin as they are.

    `path` is that of the pluginConfig entry. The arguments may carry apiVersion and kind, which then must
    be those of the plugin.
    """
    kind = ARG_TYPES.get(plugin) or OLD_SCORE_ARGS.get(plugin)
    if kind is None:
        return OpaqueArgs(raw) if raw is not None else None
    if raw is None:
        return kind().filled()
    fields = raw
    if isinstance(raw, dict):
        wrong = _wrong_type(plugin, raw)
        if wrong:
            errors.append(ConfigError(path, wrong))
            return None
        fields = {key: value for key, value in raw.items() if key not in ("apiVersion", "kind")}
    found: list[ConfigError] = []
    args = decode(fields, kind, child(path, "args"), found)
    errors.extend(
        ConfigError(e.path, f"decoding args for plugin {plugin}: {e.problem}", kind=e.kind) for e in found
    )
    return args.filled()


def _wrong_type(plugin: str, raw: Mapping[str, Any]) -> str | None:
    expected = f"{plugin}Args"
    kind = raw.get("kind") or expected
    version = raw.get("apiVersion") or GROUP
    group = str(version).partition("/")[0]
    if kind == expected and group == GROUP:
        return None
    return (
        f"args for plugin {plugin} were not of type {expected}.{GROUP}, got {kind}.{group}"
        f' (allowed: kind "{expected}", apiVersion "{GROUP}/v1")'
    )
