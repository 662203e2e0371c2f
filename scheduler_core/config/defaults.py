"""Default plugins per API version; merges the lists of a profile with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler_core.config.args.typed import default_args
from scheduler_core.config.plugins import ALL, EXTENSION_POINTS, IDLE, LEFT_OUT, LEFT_OUT_POINTS, MULTI_POINT
from scheduler_core.config.problems import child
from scheduler_core.config.schema import PluginConfig, PluginEntry, Plugins, PluginSet
from scheduler_core.model import names

_NO_POINT: Final = "Muster does not have this extension point"


def _listed(*plugins: str | tuple[str, int]) -> PluginSet:
    return PluginSet(tuple(PluginEntry(p) if isinstance(p, str) else PluginEntry(*p) for p in plugins))


# Kubernetes' defaults without the plugins that Muster does not implement.
MULTI_POINT_DEFAULTS: Final[Plugins] = {
    MULTI_POINT: _listed(
        names.SCHEDULING_GATES,
        names.PRIORITY_SORT,
        names.NODE_UNSCHEDULABLE,
        names.NODE_NAME,
        (names.TAINT_TOLERATION, 3),
        (names.NODE_AFFINITY, 2),
        names.NODE_PORTS,
        (names.NODE_RESOURCES_FIT, 1),
        names.VOLUME_RESTRICTIONS,
        names.NODE_VOLUME_LIMITS,
        names.VOLUME_BINDING,
        names.VOLUME_ZONE,
        (names.POD_TOPOLOGY_SPREAD, 2),
        (names.INTER_POD_AFFINITY, 2),
        names.DEFAULT_PREEMPTION,
        (names.NODE_RESOURCES_BALANCED_ALLOCATION, 1),
        (names.IMAGE_LOCALITY, 1),
        names.DEFAULT_BINDER,
    )
}

# Before v1beta3 every point had its own list, and user preferences weighed less.
PER_POINT_DEFAULTS: Final[Plugins] = {
    "preEnqueue": _listed(names.SCHEDULING_GATES),
    "queueSort": _listed(names.PRIORITY_SORT),
    "preFilter": _listed(
        names.NODE_RESOURCES_FIT,
        names.NODE_PORTS,
        names.VOLUME_RESTRICTIONS,
        names.NODE_VOLUME_LIMITS,
        names.POD_TOPOLOGY_SPREAD,
        names.INTER_POD_AFFINITY,
        names.VOLUME_BINDING,
        names.VOLUME_ZONE,
        names.NODE_AFFINITY,
    ),
    "filter": _listed(
        names.NODE_UNSCHEDULABLE,
        names.NODE_NAME,
        names.TAINT_TOLERATION,
        names.NODE_AFFINITY,
        names.NODE_PORTS,
        names.NODE_RESOURCES_FIT,
        names.VOLUME_RESTRICTIONS,
        names.NODE_VOLUME_LIMITS,
        names.VOLUME_BINDING,
        names.VOLUME_ZONE,
        names.POD_TOPOLOGY_SPREAD,
        names.INTER_POD_AFFINITY,
    ),
    "postFilter": _listed(names.DEFAULT_PREEMPTION),
    "preScore": _listed(
        names.INTER_POD_AFFINITY,
        names.POD_TOPOLOGY_SPREAD,
        names.TAINT_TOLERATION,
        names.NODE_AFFINITY,
        names.NODE_RESOURCES_FIT,
        names.NODE_RESOURCES_BALANCED_ALLOCATION,
    ),
    "score": _listed(
        (names.NODE_RESOURCES_BALANCED_ALLOCATION, 1),
        (names.IMAGE_LOCALITY, 1),
        (names.INTER_POD_AFFINITY, 1),
        (names.NODE_RESOURCES_FIT, 1),
        (names.NODE_AFFINITY, 1),
        (names.POD_TOPOLOGY_SPREAD, 2),
        (names.TAINT_TOLERATION, 1),
    ),
    "reserve": _listed(names.VOLUME_BINDING),
    "preBind": _listed(names.VOLUME_BINDING),
    "bind": _listed(names.DEFAULT_BINDER),
}


def without_left_out(plugins: Plugins, path: str, more: Mapping[str, str]) -> tuple[Plugins, tuple[str, ...]]:
    """The lists of the profile at `path` without plugins that Muster leaves out, and a warning for each.

    `more` maps further plugins that the version of the file leaves out to their reasons. Plugins at points
    where they have nothing to do are left out without a warning.
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
        enabled = tuple(p for p in lists.enabled if not reasons[p.name] and point not in IDLE.get(p.name, ()))
        kept[point] = PluginSet(enabled, lists.disabled)
    return kept, tuple(warnings)


def merge_plugins(defaults: Plugins, custom: Plugins) -> dict[str, PluginSet]:
    """The profile's lists over the defaults, point by point; empty points are left out."""
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
    enabled: list[PluginEntry] = []
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
    return PluginSet(tuple(enabled), tuple(PluginEntry(plugin.name) for plugin in disabled))


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
