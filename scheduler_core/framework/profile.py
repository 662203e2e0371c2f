"""Profiles: the plugins of one scheduler name per extension point, and those of them that a pod concerns.

Most pods concern only a few plugins, and calling the others is most of the cost of an attempt. A plugin that
can tell from the pod and the state that it has nothing to do (`ConcernPlugin`) is therefore left out of every
extension point that runs for each attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from scheduler_core.errors import ConfigError, PluginError
from scheduler_core.framework.interface import (
    POINTS,
    BindPlugin,
    ConcernPlugin,
    EventsPlugin,
    FilterPlugin,
    MeetsOthersPlugin,
    NormalizePlugin,
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
    implements,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState

Points = Mapping[str, Sequence[Plugin]]
P = TypeVar("P", bound=Plugin)
Concerns = Callable[[ClusterState, Pod], bool]


class Scoring(NamedTuple):
    """A score plugin in a profile: its weight, and how its raw scores become 0..100 where they are not.

    `by_feasible`: what `normalize` answers depends on which nodes are feasible.
    """

    name: str
    plugin: ScorePlugin
    weight: int
    normalize: NormalizePlugin | None
    by_feasible: bool


class Profile:
    """Plugin instances of one scheduler name. A plugin that serves several points is one instance.

    `attempt_pre_filter` runs for every attempt, `static_pre_filter` and `usage_pre_filter` once for a class
    of equal pods; `agendas` selects the plugins that run for one pod.
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
        by_name = {plugin.name: plugin for at in points.values() for plugin in at}
        self.plugins = list(by_name.values())
        for plugin in self.plugins:
            if implements(plugin, MeetsOthersPlugin):
                plugin.meet(by_name)
        self.enabled = frozenset(plugin.name for plugin in self.plugins)
        # Where a profile wants victims on one node only, that holds for all of its plugins.
        self.across_nodes = all(getattr(plugin, "cross_node", True) for plugin in self.post_filter)
        self.events = [plugin for plugin in self.plugins if implements(plugin, EventsPlugin)]
        self._sort_by_scope()
        self.agendas = Agendas(self)

    def _sort_by_scope(self) -> None:
        """PreFilter goes with the scope of the plugin's Filter, PreScore with that of its Score."""
        filters = {plugin.name: plugin.scope for plugin in self.filter}
        scores = {plugin.name: _score_scope(plugin) for plugin in self.score}

        def of(scope: Scope, plugins: Sequence[P], scopes: Mapping[str, Scope]) -> list[P]:
            return [plugin for plugin in plugins if scopes.get(plugin.name) is scope]

        self.static_pre_filter = of(Scope.STATIC, self.pre_filter, filters)
        self.usage_pre_filter = of(Scope.USAGE, self.pre_filter, filters)
        shared = (*self.static_pre_filter, *self.usage_pre_filter)
        self.attempt_pre_filter = [plugin for plugin in self.pre_filter if plugin not in shared]
        self.static_filter = of(Scope.STATIC, self.filter, filters)
        self.usage_filter = of(Scope.USAGE, self.filter, filters)
        self.cluster_filter = of(Scope.CLUSTER, self.filter, filters)
        self.static_pre_score = of(Scope.STATIC, self.pre_score, scores)
        self.usage_pre_score = of(Scope.USAGE, self.pre_score, scores)
        self.cluster_pre_score = of(Scope.CLUSTER, self.pre_score, scores)
        scoring = [self._scoring(plugin) for plugin in self.score]
        self.static_score = of(Scope.STATIC, scoring, scores)
        self.usage_score = of(Scope.USAGE, scoring, scores)
        self.cluster_score = of(Scope.CLUSTER, scoring, scores)

    def _scoring(self, plugin: ScorePlugin) -> Scoring:
        normalize = plugin if implements(plugin, NormalizePlugin) else None
        by_feasible = normalize is not None and getattr(plugin, "looks_at_feasible", True)
        return Scoring(plugin.name, plugin, self.weight(plugin), normalize, by_feasible)

    def weight(self, plugin: Plugin) -> int:
        """Weight of a score plugin, 1 unless configured."""
        return self.weights.get(plugin.name, 1) or 1


def _score_scope(plugin: ScorePlugin) -> Scope:
    """One node's own use is no longer enough where scores are normalized over all nodes."""
    normalizes = plugin.scope is Scope.USAGE and implements(plugin, NormalizePlugin)
    return Scope.CLUSTER if normalizes else plugin.scope


def _at(points: Points, point: str) -> list[Any]:
    for plugin in points.get(point, ()):
        if not implements(plugin, POINTS[point]):
            raise ConfigError(f"plugins.{point}", f"plugin {plugin.name} does not extend {point}")
    return list(points.get(point, ()))


class Agenda:
    """The plugins that run for a pod, per extension point, in the profile's order.

    `idle` are the names of all other plugins. PreFilter, Filter and Score are those that run for every
    attempt; STATIC and USAGE answers are cached per class of equal pods and are not part of an agenda.
    """

    def __init__(self, profile: Profile, idle: frozenset[str]) -> None:
        def busy(plugins: Sequence[P]) -> tuple[P, ...]:
            return tuple(plugin for plugin in plugins if plugin.name not in idle)

        self.idle = idle
        self.pre_filter = busy(profile.attempt_pre_filter)
        self.filter = busy(profile.cluster_filter)
        self.pre_score = busy(profile.cluster_pre_score)
        self.score = tuple(scoring for scoring in profile.cluster_score if scoring.name not in idle)
        self.reserve = busy(profile.reserve)
        self.permit = busy(profile.permit)
        self.pre_bind = busy(profile.pre_bind)
        self.post_bind = busy(profile.post_bind)


class Agendas:
    """The agendas of a profile, one per set of idle plugins."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        # Plugins that share a function: it is called once.
        asked: dict[Concerns, list[str]] = {}
        for plugin in profile.plugins:
            if implements(plugin, ConcernPlugin):
                asked.setdefault(plugin.concerns, []).append(plugin.name)
        self._names = list(asked.values())
        self._asked = [(concerns, 1 << bit) for bit, concerns in enumerate(asked)]
        self._by_mask: dict[int, Agenda] = {}
        self._by_names: dict[frozenset[str], Agenda] = {}

    def of(self, state: ClusterState, pod: Pod) -> Agenda:
        """The plugins that have something to do for a pod now. Raises PluginError for broken plugin code."""
        idle = bit = 0
        try:
            for concerns, bit in self._asked:
                if not concerns(state, pod):
                    idle |= bit
        except MemoryError:
            raise
        except Exception as error:
            raise PluginError(self._names[bit.bit_length() - 1][0], "concerns", pod.key, error) from error
        found = self._by_mask.get(idle)
        if found is None:
            groups = (group for number, group in enumerate(self._names) if idle >> number & 1)
            found = self._by_mask[idle] = self.without(frozenset(chain.from_iterable(groups)))
        return found

    def without(self, idle: frozenset[str]) -> Agenda:
        """The agenda that leaves out the plugins with these names."""
        found = self._by_names.get(idle)
        if found is None:
            found = self._by_names[idle] = Agenda(self._profile, idle)
        return found
