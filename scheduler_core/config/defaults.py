"""Default plugins per API version, and how a profile's lists merge with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler_core.config.plugin_args import default_args
from scheduler_core.config.plugins import ALL, EXTENSION_POINTS, LEFT_OUT, LEFT_OUT_POINTS, MULTI_POINT
from scheduler_core.config.problems import child
from scheduler_core.config.schema import Plugin, PluginConfig, Plugins, PluginSet

_NO_POINT: Final = "Muster does not have this extension point"


def _listed(*plugins: str | tuple[str, int]) -> PluginSet:
    return PluginSet(tuple(Plugin(p) if isinstance(p, str) else Plugin(*p) for p in plugins))


# Kubernetes' defaults without the plugins that Muster does not implement.
MULTI_POINT_DEFAULTS: Final[Plugins] = {
    MULTI_POINT: _listed(
        "SchedulingGates",
        "PrioritySort",
        "NodeUnschedulable",
        "NodeName",
        ("TaintToleration", 3),
        ("NodeAffinity", 2),
        "NodePorts",
        ("NodeResourcesFit", 1),
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        ("PodTopologySpread", 2),
        ("InterPodAffinity", 2),
        "DefaultPreemption",
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        "DefaultBinder",
    )
}

# Before v1beta3 every point had its own list, and user preferences weighed less.
PER_POINT_DEFAULTS: Final[Plugins] = {
    "preEnqueue": _listed("SchedulingGates"),
    "queueSort": _listed("PrioritySort"),
    "preFilter": _listed(
        "NodeResourcesFit",
        "NodePorts",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "PodTopologySpread",
        "InterPodAffinity",
        "VolumeBinding",
        "VolumeZone",
        "NodeAffinity",
    ),
    "filter": _listed(
        "NodeUnschedulable",
        "NodeName",
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "VolumeRestrictions",
        "NodeVolumeLimits",
        "VolumeBinding",
        "VolumeZone",
        "PodTopologySpread",
        "InterPodAffinity",
    ),
    "postFilter": _listed("DefaultPreemption"),
    "preScore": _listed(
        "InterPodAffinity",
        "PodTopologySpread",
        "TaintToleration",
        "NodeAffinity",
        "NodeResourcesFit",
        "NodeResourcesBalancedAllocation",
    ),
    "score": _listed(
        ("NodeResourcesBalancedAllocation", 1),
        ("ImageLocality", 1),
        ("InterPodAffinity", 1),
        ("NodeResourcesFit", 1),
        ("NodeAffinity", 1),
        ("PodTopologySpread", 2),
        ("TaintToleration", 1),
    ),
    "reserve": _listed("VolumeBinding"),
    "preBind": _listed("VolumeBinding"),
    "bind": _listed("DefaultBinder"),
}


def without_left_out(plugins: Plugins, path: str, more: Mapping[str, str]) -> tuple[Plugins, tuple[str, ...]]:
    """The lists of the profile at `path` without plugins that do nothing here, and a warning for each.

    `more`: those of the file's version beside `LEFT_OUT`, with their reasons.
    """
    left_out = {**LEFT_OUT, **more}
    warnings = []
    kept = {}
    for point, lists in plugins.items():
        elsewhere = _NO_POINT if point in LEFT_OUT_POINTS else ""
        reasons = {p.name: left_out.get(p.name, elsewhere) for p in lists.enabled}
        for plugin, reason in reasons.items():
            if reason:
                warnings.append(f"{child(path, 'plugins')}.{point}: {plugin} is left out: {reason}")
        enabled = tuple(p for p in lists.enabled if not reasons[p.name])
        kept[point] = PluginSet(enabled, lists.disabled)
    return kept, tuple(warnings)


def merge_plugins(defaults: Plugins, custom: Plugins) -> dict[str, PluginSet]:
    """The profile's lists over the defaults, point by point; points with nothing are left out."""
    merged = {
        point: merge_plugin_set(defaults.get(point, PluginSet()), custom.get(point, PluginSet()))
        for point in (*EXTENSION_POINTS, MULTI_POINT)
    }
    return {point: lists for point, lists in merged.items() if lists.enabled or lists.disabled}


def merge_plugin_set(defaults: PluginSet, custom: PluginSet) -> PluginSet:
    """Defaults that are not disabled, then the custom plugins that replaced none of them.

    A default that is listed again keeps its place and takes the last listing's weight. Custom plugins that
    are listed twice stay twice: start-up refuses them.
    """
    disabled = custom.disabled + defaults.disabled
    names = {plugin.name for plugin in disabled}
    last = {plugin.name: i for i, plugin in enumerate(custom.enabled)}
    enabled: list[Plugin] = []
    replaced: set[int] = set()
    for plugin in () if ALL in names else defaults.enabled:
        if plugin.name in names:
            continue
        position = last.get(plugin.name)
        if position is not None:
            replaced.add(position)
            plugin = custom.enabled[position]
        enabled.append(plugin)
    enabled.extend(plugin for i, plugin in enumerate(custom.enabled) if i not in replaced)
    return PluginSet(tuple(enabled), tuple(Plugin(plugin.name) for plugin in disabled))


def with_default_args(given: Iterable[PluginConfig], plugins: Plugins) -> tuple[PluginConfig, ...]:
    """`given`, then default arguments for every enabled plugin without an entry, by name."""
    entries = tuple(given)
    named = {entry.name for entry in entries}
    enabled = {plugin.name for lists in plugins.values() for plugin in lists.enabled}
    added = []
    for name in sorted(enabled - named):
        args = default_args(name)
        if args is not None:
            added.append(PluginConfig(name, args))
    return entries + tuple(added)
