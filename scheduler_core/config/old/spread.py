"""Translates SelectorSpread, a plugin before v1beta2, to the defaults of PodTopologySpread."""

from __future__ import annotations

from typing import Final

from scheduler_core.config.args.kubernetes import LIST_DEFAULTING
from scheduler_core.config.args.spread import PodTopologySpreadArgs
from scheduler_core.config.old.scores import Translated
from scheduler_core.config.plugins import ALL
from scheduler_core.config.problems import child
from scheduler_core.config.schema import PluginConfig, PluginEntry, Plugins, PluginSet
from scheduler_core.model.names import DEFAULT_POD_TOPOLOGY_SPREAD, POD_TOPOLOGY_SPREAD, SELECTOR_SPREAD

OLD_SPREADS: Final = frozenset({DEFAULT_POD_TOPOLOGY_SPREAD, SELECTOR_SPREAD})
_SPREAD: Final = POD_TOPOLOGY_SPREAD
_DEFAULT_WEIGHT: Final = 2


def with_owners_spread(plugins: Plugins, entries: tuple[PluginConfig, ...], path: str) -> Translated:
    """The own lists of a profile at `path`, before defaults, with PodTopologySpread for the old plugin.

    Where the old plugin would not score, PodTopologySpread spreads only pods with constraints of their own,
    unless its arguments say otherwise.
    """
    warnings: list[str] = []
    lists = {point: _renamed(point, given, warnings) for point, given in plugins.items()}
    score, today = plugins.get("score", PluginSet()), lists.get("score", PluginSet())
    off = {plugin.name for plugin in score.disabled}
    spreads = any(plugin.name in OLD_SPREADS for plugin in score.enabled) or not off & {ALL, *OLD_SPREADS}
    scores = any(plugin.name == _SPREAD for plugin in today.enabled) or not off & {ALL, _SPREAD}
    if scores and not spreads and all(entry.name != _SPREAD for entry in entries):
        args = PodTopologySpreadArgs(defaulting_type=LIST_DEFAULTING).filled()
        entries = (*entries, PluginConfig(_SPREAD, args))
        warnings.append("plugins.score: without SelectorSpread only pods with constraints are spread")
    return Translated(lists, entries, tuple(child(path, warning) for warning in warnings))


def _renamed(point: str, lists: PluginSet, warnings: list[str]) -> PluginSet:
    """The lists with one entry for both plugins, where the first stands, with the larger weight."""
    both = [plugin for plugin in lists.enabled if plugin.name in OLD_SPREADS or plugin.name == _SPREAD]
    old = [plugin.name for plugin in both if plugin.name in OLD_SPREADS]
    if not old:
        return lists
    warnings += [f"plugins.{point}: {name} becomes {_SPREAD}" for name in old]
    weight = 0
    if point == "score":
        weight = max(plugin.weight or 1 for plugin in both)
        if not {plugin.name for plugin in lists.disabled} & {ALL, _SPREAD}:
            weight = max(weight, _DEFAULT_WEIGHT)
    kept = [
        PluginEntry(_SPREAD, weight) if plugin is both[0] else plugin
        for plugin in lists.enabled
        if plugin is both[0] or plugin not in both
    ]
    return PluginSet(tuple(kept), lists.disabled)
