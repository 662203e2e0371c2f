"""Per class of equal pods: which nodes fit and how good they are, kept current at a cost of what changed.

On top of the static part, which many classes share, this holds what depends on the use of nodes. A placement
or a cluster event recomputes only the changed nodes' columns. When a run of equal pods is placed, the usage
part is also computed for "one more of these pods on every node" in one go (a level), so that the common case
of placing the next pod touches no plugin at all.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.changes import distinct
from scheduler_core.arrays.index import Int64
from scheduler_core.engine.select import Leaders, best_slot
from scheduler_core.engine.static_scores import StaticScores
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits, Code, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.state.cluster import ClusterState

Bool = NDArray[np.bool_]

INFEASIBLE: Final = -1
# A level costs as much as refreshing some ten nodes one by one, so it must be earned by placements.
_PLACEMENTS_PER_LEVEL: Final = 8
_MAX_LEVELS: Final = 16
# Bytes of cycle, plugins' notes and the like, for each class.
_OBJECTS: Final = 4096


class _Level(NamedTuple):
    """The usage part after some more pods of the class, number by number: score and verdict of every slot."""

    score: memoryview[Any]
    ok: memoryview[Any]


class NodeScores:
    """Cached answers for one class of pods under one profile.

    `total` is int64 [N]: weighted score of every feasible slot, INFEASIBLE elsewhere, without the plugins
    of CLUSTER scope. `status` is the first PreFilter refusal that depends on the pod alone, or None.
    """

    def __init__(self, profile: Profile, cycle: Cycle, static: StaticScores) -> None:
        self.profile = profile
        self.cycle = cycle
        self.static = static
        self.calls = static.calls
        self.status: Status | None = static.status
        cycle.skipped |= static.cycle.skipped
        cycle.slots = {**static.cycle.slots, **cycle.slots}
        self._pre_filter()
        self._filters = [plugin for plugin in profile.usage_filter if plugin.name not in cycle.skipped]
        skipped = self._pre_score()
        self._scores = [scoring for scoring in profile.usage_score if scoring.name not in skipped]
        self.total: Int64 = np.zeros(0, dtype=np.int64)  # [N]
        self._static_part = self._usage_score = self.total  # [N] each
        self._usage_ok: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self._leaders = Leaders(self.total)
        self._size = -1
        self._static_version = -1
        self._usage_seen = -1
        # Up to this change of nodes, all since the last refresh were placements of the class.
        self._followed = -1
        self._reset_levels()

    @property
    def nbytes(self) -> int:
        """About how much memory it takes, without the static part."""
        columns: list[NDArray[Any] | memoryview[Any]] = [self.total, self._static_part, self._usage_score]
        if self._levels:
            columns += [self._cursor, self._depth, *(cells for level in self._levels[1:] for cells in level)]
        return sum(column.nbytes for column in columns) + self._leaders.nbytes + _OBJECTS

    def _pre_filter(self) -> None:
        for plugin in self.profile.usage_pre_filter:
            self.calls.now = (plugin.name, "preFilter")
            status = plugin.pre_filter(self.cycle)
            if status.code is Code.SKIP or not status.ok:
                self.cycle.skipped.add(plugin.name)
            if not status.ok and self.status is None:
                self.status = status.of(plugin.name)

    def _pre_score(self) -> set[str]:
        skipped = set()
        for plugin in self.profile.usage_pre_score:
            self.calls.now = (plugin.name, "preScore")
            if plugin.pre_score(self.cycle, self.static.ok).code is Code.SKIP:
                skipped.add(plugin.name)
        return skipped

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
            # Others changed nodes in between: a level would have had to be made anew.
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
        """New verdicts for some slots, whose usage scores are in place already."""
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
        self._leaders = Leaders(self.total)

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
        # What a single plugin gave may be its own; the sum is written to.
        return total.copy() if len(self._scores) == 1 else total

    def _fits(self, view: NodeView) -> Bool:
        fits: Bool | None = None  # [M]
        for plugin in self._filters:
            self.calls.now = (plugin.name, "filter")
            ok = plugin.filter(self.cycle, view) == 0
            fits = ok if fits is None else fits & ok
        return np.ones(len(view), dtype=np.bool_) if fits is None else fits

    def all_bits(self, state: ClusterState) -> dict[str, Bits]:
        """uint64 [N] per STATIC and USAGE filter; the usage filters are asked anew."""
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
        """Start without levels: they are made when a run of placements has earned them."""
        self._levels: list[_Level] = []
        self._earned = 0

    def _first_level(self) -> None:
        self._cursor: Int64 = np.zeros(self._size, dtype=np.int64)  # [N] own pods placed since the base
        self._depth: Int64 = np.ones(self._size, dtype=np.int64)  # [N] levels that are valid for the node
        self._cursor_cells, self._depth_cells = self._cursor.data, self._depth.data
        self._levels = [_Level(self._usage_score.data, self._usage_ok.data)]

    def placed(self, state: ClusterState, slot: int) -> None:
        """A pod of this class was put on `slot`: if nothing else changed, answer from a level.

        Without a level for it the column is left to the next refresh.
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
