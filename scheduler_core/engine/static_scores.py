"""What STATIC plugins say of every node, shared by all pods that these plugins cannot tell apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import NormalizePlugin, Scope, ScorePlugin
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits, Code, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.state.cluster import ClusterState

Bool = NDArray[np.bool_]


class StaticScores:
    """Filter bits and raw scores of STATIC scope over all slots [N], kept current with labels, taints, nodes.

    `ok` is bool [N]: alive and passed by every static filter. `version` changes whenever anything here does.
    `cycle` is that of the first such pod; its slots hold what the plugins left.
    """

    def __init__(self, profile: Profile, cycle: Cycle) -> None:
        self.profile = profile
        self.cycle = cycle
        self.status: Status | None = None
        self.version = 0
        self.bits: dict[str, Bits] = {}
        self.ok: Bool = np.zeros(0, dtype=np.bool_)  # [N]
        self._raw: dict[str, Int64] = {}
        self._scores: list[ScorePlugin] = []
        self._size = -1
        self._seen = -1
        scopes = {plugin.name: plugin.scope for plugin in profile.filter}
        for plugin in profile.class_pre_filter:
            if scopes[plugin.name] is Scope.STATIC:
                self._pre_filter(plugin.name, plugin.pre_filter(cycle))
        self._filters = [f for f in profile.filter if f.scope is Scope.STATIC and f.name not in cycle.skipped]

    def _pre_filter(self, name: str, status: Status) -> None:
        if status.code is Code.SKIP or not status.ok:
            self.cycle.skipped.add(name)
        if not status.ok and self.status is None:
            self.status = status.of(name)

    def refresh(self, state: ClusterState) -> None:
        """Bring every column up to date with the node table."""
        table = state.nodes
        changed = table.static_changes.since(self._seen) if self._size == table.size else None
        self._seen = table.static_changes.position
        if changed is not None and not changed:
            return
        self.version += 1
        if changed is None or len(changed) > table.size // 2 or self._choose_scores(state):
            self._rebuild(state)
        else:
            self._update(state, np.unique(np.array(changed, dtype=np.int64)))

    def _rebuild(self, state: ClusterState) -> None:
        self._size = state.nodes.size
        view = NodeView.all(state.nodes)
        for plugin in self._filters:
            self.cycle.calling = (plugin.name, "filter")
            self.bits[plugin.name] = plugin.filter(self.cycle, view)
        self._set_ok(state)
        self._choose_scores(state)
        for score in self._scores:
            self.cycle.calling = (score.name, "score")
            self._raw[score.name] = score.score(self.cycle, view)

    def _update(self, state: ClusterState, slots: NDArray[np.int64]) -> None:
        view = NodeView(state.nodes, slots)
        for plugin in self._filters:
            self.cycle.calling = (plugin.name, "filter")
            self.bits[plugin.name][slots] = plugin.filter(self.cycle, view)
        self._set_ok(state)
        for score in self._scores:
            self.cycle.calling = (score.name, "score")
            self._raw[score.name][slots] = score.score(self.cycle, view)

    def _set_ok(self, state: ClusterState) -> None:
        self.ok = state.nodes.alive[: self._size].copy()  # [N]
        for bits in self.bits.values():
            self.ok &= bits == 0

    def _choose_scores(self, state: ClusterState) -> bool:
        """Score plugins in play: not those that skip. True if they are others than before."""
        skipped = set()
        for plugin in self.profile.pre_score:
            if getattr(plugin, "scope", Scope.CLUSTER) is Scope.STATIC:
                self.cycle.calling = (plugin.name, "preScore")
                if plugin.pre_score(self.cycle, self.ok).code is Code.SKIP:
                    skipped.add(plugin.name)
        before = self._scores
        self._scores = [s for s in self.profile.score if s.scope is Scope.STATIC and s.name not in skipped]
        return self._scores != before

    @property
    def depends_on_feasible(self) -> bool:
        """Whether `combined` may change when the set of feasible nodes does."""
        return any(
            isinstance(score, NormalizePlugin) and getattr(score, "looks_at_feasible", True)
            for score in self._scores
        )

    def combined(self, feasible: Bool) -> Int64:
        """int64 [N]: weighted sum of the static scores, normalised over the feasible nodes."""
        part: Int64 = np.zeros(self._size, dtype=np.int64)  # [N]
        for plugin in self._scores:
            raw = self._raw[plugin.name]
            if isinstance(plugin, NormalizePlugin):
                self.cycle.calling = (plugin.name, "normalize")
                raw = plugin.normalize(self.cycle, raw, feasible)
            part += self.profile.weight(plugin) * raw
        return part
