"""Per class of equal pods: which nodes fit and how good they are, kept current at a cost of what changed.

For one class this holds, over all node slots [N]: the bits of every STATIC and USAGE filter, the static part
of the score, and the usage part. A placement or a cluster event recomputes only the changed nodes' columns.
When a run of equal pods is placed, the usage part is also computed for "one more of these pods on every node"
in one go (a level), so that the common case of placing the next pod touches no plugin at all.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import (
    NormalizePlugin,
    PreScorePlugin,
    Scope,
    ScorePlugin,
)
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits, Code, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.state.cluster import ClusterState

Bool = NDArray[np.bool_]

INFEASIBLE: Final = -1
# A level costs as much as refreshing some ten nodes one by one, so it must be earned by placements.
_PLACEMENTS_PER_LEVEL: Final = 8
_MAX_LEVELS: Final = 16


class NodeScores:
    """Cached answers for one class of pods under one profile.

    `total` is int64 [N]: weighted score of every feasible slot, INFEASIBLE elsewhere, without the plugins
    of CLUSTER scope. `status` is the first PreFilter refusal that depends on the pod alone, or None.
    """

    def __init__(self, profile: Profile, cycle: Cycle) -> None:
        self.profile = profile
        self.cycle = cycle
        self.status: Status | None = None
        self._pre_filter()
        filters = [f for f in profile.filter if f.name not in cycle.skipped]
        self.static_filters = [f for f in filters if f.scope is Scope.STATIC]
        self.usage_filters = [f for f in filters if f.scope is Scope.USAGE]
        self.static_bits: dict[str, Bits] = {}
        self.total: Int64 = np.zeros(0, dtype=np.int64)  # [N]
        self._static_part = self._usage_score = self.total  # [N] each
        self._alive: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self._static_ok = self._usage_ok = self._alive  # [N] each
        self._static_scores: list[ScorePlugin] = []
        self._usage_scores: list[ScorePlugin] = []
        self._raw: dict[str, Int64] = {}
        self._size = -1
        self._static_seen = -1
        self._usage_seen = -1
        self._reset_levels(0)

    def _pre_filter(self) -> None:
        for plugin in self.profile.class_pre_filter:
            self.cycle.calling = (plugin.name, "preFilter")
            status = plugin.pre_filter(self.cycle)
            if status.code is Code.SKIP:
                self.cycle.skipped.add(plugin.name)
            elif not status.ok and self.status is None:
                self.status = status.of(plugin.name)

    # Keeping current

    def refresh(self, state: ClusterState) -> None:
        """Bring every column up to date with the node table."""
        table = state.nodes
        static = table.static_changes.since(self._static_seen) if self._size == table.size else None
        usage = table.usage_changes.since(self._usage_seen) if static is not None else None
        self._static_seen = table.static_changes.position
        self._usage_seen = table.usage_changes.position
        if static is None or usage is None or len(static) + len(usage) > table.size // 2:
            self._rebuild(state)
            return
        if static:
            self._refresh_static(state, np.unique(np.array(static, dtype=np.int64)))
        if static or usage:
            self._refresh_usage(state, np.unique(np.array([*static, *usage], dtype=np.int64)))

    def _rebuild(self, state: ClusterState) -> None:
        size = state.nodes.size
        self._size = size
        view = NodeView.all(state.nodes)
        for plugin in self.static_filters:
            self.cycle.calling = (plugin.name, "filter")
            self.static_bits[plugin.name] = plugin.filter(self.cycle, view)
        self._alive = state.nodes.alive[:size].copy()  # [N]
        self._static_ok = self._static_clear()
        self._usage_ok = self._usage_fits(view)
        self._choose_scores(state)
        for score in self._static_scores:
            self.cycle.calling = (score.name, "score")
            self._raw[score.name] = score.score(self.cycle, view)
        self._usage_score = self._sum_usage(view)
        self._reset_levels(size)
        self._combine_all()

    def _refresh_static(self, state: ClusterState, slots: NDArray[np.int64]) -> None:
        view = NodeView(state.nodes, slots)
        before = [s.name for s in (*self._static_scores, *self._usage_scores)]
        self._choose_scores(state)
        if before != [s.name for s in (*self._static_scores, *self._usage_scores)]:
            # A score plugin came into or out of play (first or last soft taint): columns are missing.
            self._rebuild(state)
            return
        for plugin in self.static_filters:
            self.static_bits[plugin.name][slots] = plugin.filter(self.cycle, view)
        self._alive[slots] = state.nodes.alive[slots]
        self._static_ok = self._static_clear()
        for score in self._static_scores:
            self._raw[score.name][slots] = score.score(self.cycle, view)
        self._combine_all()

    def _refresh_usage(self, state: ClusterState, slots: NDArray[np.int64]) -> None:
        view = NodeView(state.nodes, slots)
        self._usage_score[slots] = self._sum_usage(view)
        self._cursor[slots] = 0
        self._depth[slots] = 1
        self._set_usage(slots, self._usage_fits(view))

    def _set_usage(self, slots: NDArray[np.int64], ok: Bool) -> None:
        changed = self._usage_ok[slots] != ok
        self._usage_ok[slots] = ok
        if changed.any() and self._normalized:
            self._combine_all()
            return
        feasible = ok & self._static_ok[slots]
        self.total[slots] = np.where(
            feasible, self._static_part[slots] + self._usage_score[slots], INFEASIBLE
        )

    # Scores

    def _choose_scores(self, state: ClusterState) -> None:
        """Score plugins in play for this class: not those of CLUSTER scope, not those that skip."""
        feasible = self._static_ok & self._usage_ok
        skipped = set()
        for plugin in self.profile.pre_score:
            if (
                _scope(plugin) is not Scope.CLUSTER
                and plugin.pre_score(self.cycle, feasible).code is Code.SKIP
            ):
                skipped.add(plugin.name)
        scores = [s for s in self.profile.score if s.name not in skipped]
        self._static_scores = [s for s in scores if s.scope is Scope.STATIC]
        self._usage_scores = [s for s in scores if s.scope is Scope.USAGE]
        self._normalized = [s for s in self._static_scores if isinstance(s, NormalizePlugin)]

    def _sum_usage(self, view: NodeView) -> Int64:
        total: Int64 = np.zeros(len(view), dtype=np.int64)  # [M]
        for plugin in self._usage_scores:
            self.cycle.calling = (plugin.name, "score")
            total += self.profile.weight(plugin) * plugin.score(self.cycle, view)
        return total

    def _combine_all(self) -> None:
        feasible = self._static_ok & self._usage_ok
        part: Int64 = np.zeros(self._size, dtype=np.int64)  # [N]
        for plugin in self._static_scores:
            raw = self._raw[plugin.name]
            if isinstance(plugin, NormalizePlugin):
                raw = plugin.normalize(self.cycle, raw, feasible)
            part += self.profile.weight(plugin) * raw
        self._static_part = part
        self.total = np.where(feasible, part + self._usage_score, INFEASIBLE)

    # Levels: the usage part after k more pods of this class

    def _reset_levels(self, size: int) -> None:
        self._cursor: Int64 = np.zeros(size, dtype=np.int64)  # [N] own pods placed since the base
        self._depth: Int64 = np.ones(size, dtype=np.int64)  # [N] levels that are valid for the node
        self._levels: list[tuple[Int64, Bool]] = [(self._usage_score, self._usage_ok)]
        self._earned = 0

    def placed(self, state: ClusterState, slot: int) -> None:
        """A pod of this class was put on `slot`: if nothing else changed, answer from a level.

        Without a level for it the column is left to the next refresh.
        """
        if self._usage_seen + 1 != state.nodes.usage_changes.position or self._size != state.nodes.size:
            return
        self._earned += 1
        cursor = int(self._cursor[slot]) + 1
        if cursor >= self._depth[slot]:
            if self._earned < _PLACEMENTS_PER_LEVEL:
                return
            if cursor >= _MAX_LEVELS or cursor < len(self._levels):
                self._reset_levels(self._size)
                cursor = 1
            self._add_level(state, cursor, slot)
        self._usage_seen += 1
        self._cursor[slot] = cursor
        score, ok = self._levels[cursor]
        self._usage_score[slot] = score[slot]
        if ok[slot] != self._usage_ok[slot]:
            self._set_usage(np.array([slot], dtype=np.int64), ok[slot : slot + 1])
        elif ok[slot] and self._static_ok[slot]:
            self.total[slot] = self._static_part[slot] + score[slot]

    def _add_level(self, state: ClusterState, level: int, slot: int) -> None:
        """Compute the next level for all nodes; nodes that others changed keep their shallower depth."""
        times = np.maximum(level - self._cursor, 0)  # [N]
        times[slot] -= 1  # the pod just placed is in the table already
        view = NodeView.all(state.nodes).with_added(times, self.cycle.vector, self.cycle.pod.nonzero)
        while len(self._levels) <= level:
            self._levels.append((self._sum_usage(view), self._usage_fits(view)))
        self._depth[self._depth == level] = level + 1
        self._earned = 0

    # Reading

    def _static_clear(self) -> Bool:
        clear = self._alive.copy()  # [N]
        for bits in self.static_bits.values():
            clear &= bits == 0
        return clear

    def _usage_fits(self, view: NodeView) -> Bool:
        fits: Bool = np.ones(len(view), dtype=np.bool_)  # [M]
        for plugin in self.usage_filters:
            self.cycle.calling = (plugin.name, "filter")
            fits &= plugin.filter(self.cycle, view) == 0
        return fits

    def all_bits(self, state: ClusterState) -> dict[str, Bits]:
        """uint64 [N] per filter, in the profile's order; the usage filters are asked anew."""
        view = NodeView.all(state.nodes)
        fresh = {f.name: f.filter(self.cycle, view) for f in self.usage_filters}
        known = self.static_bits | fresh
        return {f.name: known[f.name] for f in self.profile.filter if f.name in known}


def _scope(plugin: PreScorePlugin | ScorePlugin) -> Scope:
    scope: Scope = getattr(plugin, "scope", Scope.CLUSTER)
    return scope
