"""What STATIC plugins say of every node, shared by all pods that these plugins cannot tell apart."""

from __future__ import annotations

from itertools import count
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.changes import distinct
from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.profile import Profile, Scoring
from scheduler_core.framework.status import Bits, Code, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.state.cluster import ClusterState

Bool = NDArray[np.bool_]

_SERIALS: Final = count()


class Calls:
    """`now` is the plugin and the point that run for what is kept, so that broken code can be named."""

    __slots__ = ("now",)

    def __init__(self) -> None:
        self.now = ("", "")


class StaticScores:
    """Filter bits and raw scores of STATIC scope over all slots [N], kept current with labels, taints, nodes.

    `ok` is bool [N]: alive and passed by every static filter. `version` changes whenever anything here does,
    `serial` is another one for each such object;
    `depends_on_feasible` says that `combined` may also change when the set of feasible nodes does.
    `cycle` is that of the first such pod; its slots hold what the plugins left.
    """

    def __init__(self, profile: Profile, cycle: Cycle, calls: Calls) -> None:
        self.profile = profile
        self.cycle = cycle
        self.calls = calls
        self.status: Status | None = None
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
        for plugin in profile.static_pre_filter:
            calls.now = (plugin.name, "preFilter")
            self._pre_filter(plugin.name, plugin.pre_filter(cycle))
        self._filters = [plugin for plugin in profile.static_filter if plugin.name not in cycle.skipped]

    def _pre_filter(self, name: str, status: Status) -> None:
        if status.code is Code.SKIP or not status.ok:
            self.cycle.skipped.add(name)
        if not status.ok and self.status is None:
            self.status = status.of(name)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        columns = [*self.bits.values(), *self._raw.values(), self.ok]
        return sum(column.nbytes for column in columns) + 8 * len(self.ok)

    def is_current(self, state: ClusterState) -> bool:
        """Whether no node has changed since `refresh`."""
        return state.nodes.static_changes.position == self._seen

    def refresh(self, state: ClusterState) -> None:
        """Bring every column up to date with the node table."""
        table = state.nodes
        if table.static_changes.position == self._seen and len(table.names) == self._size:
            return
        changed = table.static_changes.since(self._seen) if self._size == table.size else None
        self._seen = table.static_changes.position
        self.version += 1
        if changed is None or len(changed) > table.size // 2 or self._choose_scores(state):
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
        self._choose_scores(state)
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

    def _choose_scores(self, state: ClusterState) -> bool:
        """Score plugins in play: not those that skip. True if they are others than before."""
        skipped = set()
        for plugin in self.profile.static_pre_score:
            self.calls.now = (plugin.name, "preScore")
            if plugin.pre_score(self.cycle, self.ok).code is Code.SKIP:
                skipped.add(plugin.name)
        before = self._scores
        self._scores = [scoring for scoring in self.profile.static_score if scoring.name not in skipped]
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
