"""Filter results and scores of all nodes for a class of equal pods, updated at the cost of what changed.

StaticScores: the part of STATIC plugins, shared by all classes with an equal static signature.
NodeScores: adds the part of USAGE plugins. A placement or a cluster event recomputes only the changed nodes.
When a run of equal pods is placed, the usage part is also computed for "one more of these pods on every node"
in one go (a level), so that placing the next pod calls no plugin at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.changes import distinct
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.engine.scores.select import BestSlots, best_slot
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import PreFilterPlugin, PreScorePlugin
from scheduler_core.framework.profile import Profile, Scoring
from scheduler_core.framework.status import Bits, Code, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.state.cluster import ClusterState

_SERIALS: Final = count()


class Calls:
    """`now`: (plugin, extension point) that is running, so that an error can name the plugin."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = ("", "")


def _run_pre_filters(plugins: Iterable[PreFilterPlugin], cycle: Cycle, calls: Calls) -> Status | None:
    """The first refusal, or None; the Filter of a plugin that skips or refuses is skipped."""
    first: Status | None = None
    for plugin in plugins:
        calls.now = (plugin.name, "preFilter")
        status = plugin.pre_filter(cycle)
        if status.code is Code.SKIP or not status.ok:
            cycle.skipped.add(plugin.name)
        if not status.ok and first is None:
            first = status.of(plugin.name)
    return first


def _not_skipped(
    scores: Iterable[Scoring], plugins: Iterable[PreScorePlugin], cycle: Cycle, feasible: Bool, calls: Calls
) -> list[Scoring]:
    """The scores that no PreScore skips."""
    skipped = set()
    for plugin in plugins:
        calls.now = (plugin.name, "preScore")
        if plugin.pre_score(cycle, feasible).code is Code.SKIP:
            skipped.add(plugin.name)
    return [scoring for scoring in scores if scoring.name not in skipped]


class StaticScores:
    """Filter bits and raw scores of STATIC scope over all slots [N], kept current with labels, taints, nodes.

    `ok`: bool [N], alive and passed by every static filter. `version` changes with the content; `serial` is
    unique per object. `depends_on_feasible`: `combined` may also change with the set of feasible nodes.
    `cycle`: that of the first pod of the class; its slots hold the plugins' data.
    """

    def __init__(self, profile: Profile, cycle: Cycle, calls: Calls) -> None:
        self.profile = profile
        self.cycle = cycle
        self.calls = calls
        self.status = _run_pre_filters(profile.static_pre_filter, cycle, calls)
        self.serial = next(_SERIALS)
        self.version = 0
        self.depends_on_feasible = False
        self.bits: dict[str, Bits] = {}
        self.ok: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self._raw: dict[str, Int64] = {}
        self._scores: list[Scoring] = []
        self._combined: tuple[int, Int64] | None = None
        self._size = -1
        self._seen = -1
        self._filters = [plugin for plugin in profile.static_filter if plugin.name not in cycle.skipped]

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes."""
        columns = [*self.bits.values(), *self._raw.values(), self.ok]
        return sum(column.nbytes for column in columns) + 8 * len(self.ok)

    def is_current(self, state: ClusterState) -> bool:
        """Whether no static property of a node has changed since `refresh`."""
        return state.nodes.static_changes.position == self._seen

    def refresh(self, state: ClusterState) -> None:
        """Bring every column up to date with the node table."""
        table = state.nodes
        if table.static_changes.position == self._seen and len(table.names) == self._size:
            return
        changed = table.static_changes.since(self._seen) if self._size == table.size else None
        self._seen = table.static_changes.position
        self.version += 1
        if changed is None or len(changed) > table.size // 2 or self._choose_scores():
            self._rebuild(state)
        else:
            self._update(state, distinct(changed))

    def _rebuild(self, state: ClusterState) -> None:
        self._size = state.nodes.size
        view = NodeView.all(state.nodes)
        for plugin in self._filters:
            self.calls.now = (plugin.name, "filter")
            self.bits[plugin.name] = plugin.filter(self.cycle, view)
        self._set_ok(state)
        self._choose_scores()
        for score in self._scores:
            self.calls.now = (score.name, "score")
            self._raw[score.name] = score.plugin.score(self.cycle, view)

    def _update(self, state: ClusterState, slots: NDArray[np.int64]) -> None:
        view = NodeView(state.nodes, slots)
        for plugin in self._filters:
            self.calls.now = (plugin.name, "filter")
            self.bits[plugin.name][slots] = plugin.filter(self.cycle, view)
        self._set_ok(state)
        for score in self._scores:
            self.calls.now = (score.name, "score")
            self._raw[score.name][slots] = score.plugin.score(self.cycle, view)

    def _set_ok(self, state: ClusterState) -> None:
        self.ok = state.nodes.alive[: self._size].copy()  # [N]
        for bits in self.bits.values():
            self.ok &= bits == 0

    def _choose_scores(self) -> bool:
        """Choose the score plugins that do not skip. True if the choice changed."""
        before, profile = self._scores, self.profile
        self._scores = _not_skipped(
            profile.static_score, profile.static_pre_score, self.cycle, self.ok, self.calls
        )
        self.depends_on_feasible = any(scoring.by_feasible for scoring in self._scores)
        return self._scores != before

    def combined(self, feasible: Bool) -> Int64:
        """int64 [N], read-only: weighted sum of the static scores, normalised over the feasible nodes."""
        known = self._combined
        if known is not None and known[0] == self.version and not self.depends_on_feasible:
            return known[1]
        part: Int64 = np.zeros(self._size, dtype=np.int64)  # [N]
        for name, _, weight, normalize, _ in self._scores:
            raw = self._raw[name]
            if normalize is not None:
                self.calls.now = (name, "normalize")
                raw = normalize.normalize(self.cycle, raw, feasible)
            part += weight * raw
        self._combined = self.version, part
        return part


INFEASIBLE: Final = -1
# A level costs as much as refreshing some ten nodes one by one, so it must be earned by placements.
_PLACEMENTS_PER_LEVEL: Final = 8
_MAX_LEVELS: Final = 16
# Bytes per class for the cycle, plugin data and other objects.
_OBJECTS: Final = 4096


class _Level(NamedTuple):
    """The usage part after k more pods of the class: score and filter result of every slot [N]."""

    score: memoryview[Any]
    ok: memoryview[Any]


class NodeScores:
    """Cached filter results and scores for one class of pods under one profile.

    `total`: int64 [N], the weighted score of every feasible slot, INFEASIBLE elsewhere, without the plugins
    of CLUSTER scope. `status`: the first PreFilter refusal that depends on the pod alone, or None.
    """

    def __init__(self, profile: Profile, cycle: Cycle, static: StaticScores) -> None:
        self.cycle = cycle
        self.static = static
        self.calls = static.calls
        cycle.skipped |= static.cycle.skipped
        cycle.slots = {**static.cycle.slots, **cycle.slots}
        refused = _run_pre_filters(profile.usage_pre_filter, cycle, self.calls)
        self.status = refused if static.status is None else static.status
        self._filters = [plugin for plugin in profile.usage_filter if plugin.name not in cycle.skipped]
        self._scores = _not_skipped(
            profile.usage_score, profile.usage_pre_score, cycle, static.ok, self.calls
        )
        self.total: Int64 = np.zeros(0, dtype=np.int64)  # [N]
        self._static_part = self._usage_score = self.total  # [N] each
        self._usage_ok: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self._leaders = BestSlots(self.total)
        self._size = -1
        self._static_version = -1
        self._usage_seen = -1
        # Up to this position of the change log all changes were placements of the class.
        self._followed = -1
        self._reset_levels()

    @property
    def nbytes(self) -> int:
        """Approximate memory in bytes, without the static part."""
        columns: list[NDArray[Any] | memoryview[Any]] = [self.total, self._static_part, self._usage_score]
        if self._levels:
            columns += [self._cursor, self._depth, *(cells for level in self._levels[1:] for cells in level)]
        return sum(column.nbytes for column in columns) + self._leaders.nbytes + _OBJECTS

    # Keeping current

    def refresh(self, state: ClusterState) -> None:
        """Bring every column up to date with the node table."""
        table = state.nodes
        if table.usage_changes.position != self._usage_seen or len(table.names) != self._size:
            self._refresh_usage(state)
        self.static.refresh(state)
        if self._static_version != self.static.version:
            self._static_version = self.static.version
            self._combine()

    def _refresh_usage(self, state: ClusterState) -> None:
        table = state.nodes
        if table.usage_changes.position != self._followed:
            # Other changes of nodes came in between: a level would have been recomputed.
            self._earned = 0
        usage = table.usage_changes.since(self._usage_seen) if self._size == table.size else None
        self._usage_seen = table.usage_changes.position
        if usage is None or len(usage) > table.size // 2:
            self._rebuild(state)
        elif usage:
            self._update(state, distinct(usage))

    def _rebuild(self, state: ClusterState) -> None:
        self._size = state.nodes.size
        view = NodeView.all(state.nodes)
        self._usage_ok = self._fits(view)
        self._usage_score = self._sum(view)
        self._reset_levels()
        self._static_version = -1

    def _update(self, state: ClusterState, slots: NDArray[np.int64]) -> None:
        view = NodeView(state.nodes, slots)
        self._usage_score[slots] = self._sum(view)
        if self._levels:
            self._cursor[slots] = 0
            self._depth[slots] = 1
        self._set_usage(slots, self._fits(view))

    def _set_usage(self, slots: NDArray[np.int64], ok: Bool) -> None:
        """Set the filter results of some slots; their usage scores are set already."""
        changed = np.count_nonzero(self._usage_ok[slots] != ok) > 0
        self._usage_ok[slots] = ok
        if self._static_version != self.static.version:
            return
        if changed and self.static.depends_on_feasible:
            self._combine()
            return
        feasible = ok & self.static.ok[slots]
        score = self._static_part[slots] + self._usage_score[slots]
        self.total[slots] = np.where(feasible, score, INFEASIBLE)
        self._leaders.forget()

    def _combine(self) -> None:
        feasible = self.static.ok & self._usage_ok
        self._static_part = self.static.combined(feasible)
        self.total = self._static_part + self._usage_score
        self.total[~feasible] = INFEASIBLE
        self._leaders = BestSlots(self.total)

    # Asking the plugins

    def _sum(self, view: NodeView) -> Int64:
        total: Int64 | None = None  # [M]
        for name, plugin, weight, _, _ in self._scores:
            self.calls.now = (name, "score")
            score = plugin.score(self.cycle, view)
            score = score if weight == 1 else weight * score
            total = score if total is None else total + score
        if total is None:
            return np.zeros(len(view), dtype=np.int64)
        # The array of a single plugin may be its own; the sum is written to.
        return total.copy() if len(self._scores) == 1 else total

    def _fits(self, view: NodeView) -> Bool:
        fits: Bool | None = None  # [M]
        for plugin in self._filters:
            self.calls.now = (plugin.name, "filter")
            ok = plugin.filter(self.cycle, view) == 0
            fits = ok if fits is None else fits & ok
        return np.ones(len(view), dtype=np.bool_) if fits is None else fits

    def all_bits(self, state: ClusterState) -> dict[str, Bits]:
        """uint64 [N] per STATIC and USAGE filter; the usage filters run again."""
        view = NodeView.all(state.nodes)
        bits = dict(self.static.bits)
        for plugin in self._filters:
            self.calls.now = (plugin.name, "filter")
            bits[plugin.name] = plugin.filter(self.cycle, view)
        return bits

    def best(self, start: int) -> int:
        """As `best_slot(self.total, start)`, quicker in a run of equal pods."""
        return self._leaders.best(start) if self._levels else best_slot(self.total, start)

    # Levels: the usage part after k more pods of this class

    def _reset_levels(self) -> None:
        """Drop all levels; a run of placements makes new ones."""
        self._levels: list[_Level] = []
        self._earned = 0

    def _first_level(self) -> None:
        self._cursor: Int64 = np.zeros(self._size, dtype=np.int64)  # [N] own pods placed since the base
        self._depth: Int64 = np.ones(self._size, dtype=np.int64)  # [N] levels that are valid for the node
        self._cursor_cells, self._depth_cells = self._cursor.data, self._depth.data
        self._levels = [_Level(self._usage_score.data, self._usage_ok.data)]

    def placed(self, state: ClusterState, slot: int) -> None:
        """Update `slot` after a pod of this class was placed there: from a level, if nothing else changed.

        Without a level the column is left to the next refresh.
        """
        table = state.nodes
        if self._usage_seen + 1 != table.usage_changes.position or self._size != len(table.names):
            return
        self._earned += 1
        self._followed = table.usage_changes.position
        cursor = self._cursor_cells[slot] + 1 if self._levels else 1
        if not self._levels or cursor >= self._depth_cells[slot]:
            if self._earned < _PLACEMENTS_PER_LEVEL:
                return
            if not self._levels or cursor >= _MAX_LEVELS or cursor < len(self._levels):
                self._first_level()
                cursor = 1
            self._add_level(state, cursor, slot)
        self._usage_seen += 1
        self._cursor_cells[slot] = cursor
        level, base = self._levels[cursor], self._levels[0]
        score, ok = level.score[slot], level.ok[slot]
        base.score[slot] = score
        if ok != base.ok[slot]:
            self._set_usage(np.array([slot], dtype=np.int64), np.array([ok]))
        elif ok and self.static.ok[slot]:
            self._leaders.set(slot, self._static_part.item(slot) + score)

    def _add_level(self, state: ClusterState, level: int, slot: int) -> None:
        """Compute the next level for all nodes; nodes that others changed keep their shallower depth."""
        times = np.maximum(level - self._cursor, 0)  # [N]
        times[slot] -= 1  # the pod just placed is in the table already
        view = NodeView.all(state.nodes).with_added(times, self.cycle.vector, self.cycle.pod.nonzero)
        while len(self._levels) <= level:
            self._levels.append(_Level(self._sum(view).data, self._fits(view).data))
        self._depth[self._depth == level] = level + 1
        self._earned = 0
