"""A profile: the plugins of one scheduler name, per extension point, in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scheduler_core.errors import ConfigError
from scheduler_core.framework.interface import (
    POINTS,
    BindPlugin,
    EventsPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueueSortPlugin,
    ReservePlugin,
    Scope,
    ScorePlugin,
)

Points = Mapping[str, Sequence[Plugin]]


class Profile:
    """Plugin instances of one scheduler name. A plugin that serves several points is one instance.

    `attempt_pre_filter` runs for every attempt, `class_pre_filter` once for a class of equal pods.
    Raises ConfigError for a plugin at a point that it does not implement, or without exactly one queue sort.
    """

    def __init__(self, name: str, points: Points, weights: Mapping[str, int] | None = None) -> None:
        self.name = name
        self.points = points
        self.weights = dict(weights or {})
        self.pre_enqueue: list[PreEnqueuePlugin] = _at(points, "preEnqueue")
        self.pre_filter: list[PreFilterPlugin] = _at(points, "preFilter")
        self.filter: list[FilterPlugin] = _at(points, "filter")
        self.post_filter: list[PostFilterPlugin] = _at(points, "postFilter")
        self.pre_score: list[PreScorePlugin] = _at(points, "preScore")
        self.score: list[ScorePlugin] = _at(points, "score")
        self.reserve: list[ReservePlugin] = _at(points, "reserve")
        self.permit: list[PermitPlugin] = _at(points, "permit")
        self.pre_bind: list[PreBindPlugin] = _at(points, "preBind")
        self.bind: list[BindPlugin] = _at(points, "bind")
        self.post_bind: list[PostBindPlugin] = _at(points, "postBind")
        sorters: list[QueueSortPlugin] = _at(points, "queueSort")
        if len(sorters) != 1:
            raise ConfigError(f"profiles[{name}].plugins.queueSort", f"{len(sorters)} plugins, not one")
        self.queue_sort = sorters[0]
        self.plugins = list({plugin.name: plugin for at in points.values() for plugin in at}.values())
        self.enabled = frozenset(plugin.name for plugin in self.plugins)
        self.events = [plugin for plugin in self.plugins if isinstance(plugin, EventsPlugin)]
        scopes = {plugin.name: plugin.scope for plugin in self.filter}
        per_attempt = [p for p in self.pre_filter if scopes.get(p.name, Scope.CLUSTER) is Scope.CLUSTER]
        self.attempt_pre_filter = per_attempt
        self.class_pre_filter = [plugin for plugin in self.pre_filter if plugin not in per_attempt]
        self.cluster_filter = [plugin for plugin in self.filter if plugin.scope is Scope.CLUSTER]
        scored = {plugin.name for plugin in self.score if plugin.scope is Scope.CLUSTER}
        self.cluster_pre_score = [plugin for plugin in self.pre_score if plugin.name in scored]
        self.cluster_score = [plugin for plugin in self.score if plugin.scope is Scope.CLUSTER]

    def weight(self, plugin: Plugin) -> int:
        """Weight of a score plugin, 1 unless configured."""
        return self.weights.get(plugin.name, 1) or 1


def _at(points: Points, point: str) -> list[Any]:
    for plugin in points.get(point, ()):
        if not isinstance(plugin, POINTS[point]):
            raise ConfigError(f"plugins.{point}", f"plugin {plugin.name} does not extend {point}")
    return list(points.get(point, ()))
