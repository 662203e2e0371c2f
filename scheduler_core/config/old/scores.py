"""Translates score plugins that existed before v1beta2 to scoring strategies of NodeResourcesFit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from msgspec import structs

from scheduler_core.config.args.kubernetes import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    REQUESTED_TO_CAPACITY_RATIO,
    NodeResourcesFitArgs,
    RequestedToCapacityRatio,
    ResourceSpec,
    ScoringStrategy,
    ShapePoint,
)
from scheduler_core.config.plugins import ALL
from scheduler_core.config.problems import child, duplicate, index
from scheduler_core.config.schema import PluginArgs, PluginConfig, PluginEntry, Plugins, PluginSet
from scheduler_core.errors import ConfigError
from scheduler_core.model import names

OLD_SCORES: Final[Mapping[str, str]] = {
    names.NODE_RESOURCES_LEAST_ALLOCATED: LEAST_ALLOCATED,
    names.NODE_RESOURCES_MOST_ALLOCATED: MOST_ALLOCATED,
    names.REQUESTED_TO_CAPACITY_RATIO: REQUESTED_TO_CAPACITY_RATIO,
}
_FIT: Final = names.NODE_RESOURCES_FIT
_SCORE: Final = "score"


class OldScoreArgs(PluginArgs, frozen=True, kw_only=True, rename="camel"):
    """Arguments of NodeResourcesLeastAllocated and NodeResourcesMostAllocated."""

    resources: tuple[ResourceSpec, ...] = ()


class OldRatioArgs(OldScoreArgs, frozen=True, kw_only=True, rename="camel"):
    """Arguments of RequestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()


OLD_SCORE_ARGS: Final[Mapping[str, type[OldScoreArgs]]] = {
    names.NODE_RESOURCES_LEAST_ALLOCATED: OldScoreArgs,
    names.NODE_RESOURCES_MOST_ALLOCATED: OldScoreArgs,
    names.REQUESTED_TO_CAPACITY_RATIO: OldRatioArgs,
}


class Translated(NamedTuple):
    """The translated lists and arguments of a profile, with a warning for each translation."""

    plugins: Plugins
    entries: tuple[PluginConfig, ...]
    warnings: tuple[str, ...] = ()


def translated(
    plugins: Plugins, entries: tuple[PluginConfig, ...], path: str, errors: list[ConfigError]
) -> Translated:
    """The own lists of a profile at `path`, before defaults, with NodeResourcesFit in place of old scores.

    Of several old scores the one with the largest weight stays, the first of equal ones; it also goes before
    the default score, which is LeastAllocated. Arguments that are given twice go to `errors`.
    """
    score = plugins.get(_SCORE, PluginSet())
    names = {plugin.name for plugin in score.enabled + score.disabled} | {entry.name for entry in entries}
    if names.isdisjoint(OLD_SCORES):
        return Translated(plugins, entries)
    errors.extend(_twice(entries, child(path, "pluginConfig")))
    own = next((entry.args for entry in entries if entry.name == _FIT), None)
    fit = own if isinstance(own, NodeResourcesFitArgs) else NodeResourcesFitArgs().filled()
    usual = fit.strategy.type
    lists, chosen, warnings = _lists(score, usual)
    source = chosen or next((old for old, kind in OLD_SCORES.items() if kind == usual), "")
    if chosen or any(entry.name == source for entry in entries):
        fit = structs.replace(fit, scoring_strategy=_strategy(source, entries)).filled()
    entries, said = _entries(entries, source, fit, bool(chosen))
    places = tuple(child(path, warning) for warning in (*warnings, *said))
    return Translated({**plugins, _SCORE: lists}, entries, places)


def _twice(entries: tuple[PluginConfig, ...], path: str) -> list[ConfigError]:
    names = [entry.name for entry in entries]
    return [
        duplicate(index(path, i), name)
        for i, name in enumerate(names)
        if name in OLD_SCORES and name in names[:i]
    ]


def _lists(score: PluginSet, usual: str) -> tuple[PluginSet, str, list[str]]:
    """Today's lists of the score, the old plugin that stays ("" for none), and warnings.

    `usual` is the strategy by which NodeResourcesFit scores where no old plugin is listed.
    """
    warnings: list[str] = []
    listed = [plugin for plugin in score.enabled if plugin.name in OLD_SCORES]
    chosen = max(listed, key=lambda plugin: plugin.weight or 1, default=None)
    enabled = []
    for plugin in score.enabled:
        if plugin is chosen:
            kind = OLD_SCORES[plugin.name]
            warnings.append(f"plugins.score: {plugin.name} becomes {_FIT} with the scoring strategy {kind}")
            enabled.append(PluginEntry(_FIT, plugin.weight))
        elif chosen is not None and (plugin.name in OLD_SCORES or plugin.name == _FIT):
            rule = f"{_FIT} scores by one strategy, that of {chosen.name}"
            warnings.append(f"plugins.score: {plugin.name} (weight {plugin.weight or 1}) is left out: {rule}")
        else:
            enabled.append(plugin)
    disabled = []
    for plugin in score.disabled:
        if plugin.name not in OLD_SCORES:
            disabled.append(plugin)
        elif OLD_SCORES[plugin.name] == usual:
            warnings.append(f"plugins.score: {plugin.name}, which is disabled, is the score of {_FIT} today")
            disabled.append(PluginEntry(_FIT))
    off = {plugin.name for plugin in disabled}
    if chosen is not None and OLD_SCORES[chosen.name] != usual and not off & {ALL, _FIT}:
        warnings.append(f"plugins.score: the default score {usual} gives way to {chosen.name}")
    return PluginSet(tuple(enabled), tuple(disabled)), chosen.name if chosen else "", warnings


def _strategy(name: str, entries: tuple[PluginConfig, ...]) -> ScoringStrategy:
    """What an old plugin does with the arguments that it has in `entries`."""
    args = next((entry.args for entry in entries if entry.name == name), None)
    resources = args.resources if isinstance(args, OldScoreArgs) else ()
    ratio = RequestedToCapacityRatio(args.shape) if isinstance(args, OldRatioArgs) else None
    return ScoringStrategy(type=OLD_SCORES[name], resources=resources, requested_to_capacity_ratio=ratio)


def _entries(
    entries: tuple[PluginConfig, ...], source: str, fit: NodeResourcesFitArgs, needed: bool
) -> tuple[tuple[PluginConfig, ...], list[str]]:
    """The arguments with `fit` for NodeResourcesFit, in its place or in that of the old plugin `source`.

    Without such a place they are added where they are `needed`.
    """
    warnings: list[str] = []
    names = {entry.name for entry in entries}
    place = _FIT if _FIT in names else source
    kept = []
    for entry in entries:
        if entry.name == place:
            kept.append(PluginConfig(_FIT, fit))
        elif entry.name not in OLD_SCORES:
            kept.append(entry)
        if entry.name == source:
            warnings.append(f"pluginConfig: the arguments of {source} become the scoringStrategy of {_FIT}")
        elif entry.name in OLD_SCORES:
            warnings.append(f"pluginConfig: the arguments of {entry.name} are left out: it does not score")
    if needed and place not in names:
        kept.append(PluginConfig(_FIT, fit))
    return tuple(kept), warnings
