"""Trials: change the state as if, look, and take it back exactly.

An undo log over placements; nodes, quotas and every count follow from them. This replaces the AddPod and
RemovePod extensions of kube-scheduler: inside a trial the arrays already say what would be true.
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

from scheduler_core.arrays.index import Int64
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.placement import Placement


class _Entry(NamedTuple):
    """A pod that was placed (`lifted` is None), or taken away with what its row in the table said."""

    uid: str
    lifted: Placement | None = None
    going: bool = False
    start: float = 0.0


class Trial:
    """A context in which pods are placed and lifted. Left, it restores the state."""

    def __init__(self, state: ClusterState, now: float) -> None:
        self.state = state
        self.now = now
        self._log: list[_Entry] = []

    def __enter__(self) -> Trial:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.rollback(0)

    def checkpoint(self) -> int:
        """A point to come back to."""
        return len(self._log)

    def place(self, pod: Pod, slot: int, vector: Int64 | None = None) -> None:
        """Assume a pod on a node, with its requests or what is given of them."""
        self.state.assume(pod, slot, self.now, vector)
        self._log.append(_Entry(pod.uid))

    def lift(self, uid: str) -> None:
        """Take a placed pod away, as if it had been evicted."""
        row, table = self.state.placed[uid].row, self.state.table
        going, start = bool(table.going[row]), float(table.start[row])
        self._log.append(_Entry(uid, self.state.lift(uid), going, start))

    def rollback(self, checkpoint: int) -> None:
        """Undo everything since the checkpoint, newest first."""
        while len(self._log) > checkpoint:
            self._undo(self._log.pop())

    def restore(self, uid: str) -> None:
        """Give one lifted pod back (reprieve); later rollbacks no longer concern it."""
        for position in range(len(self._log) - 1, -1, -1):
            entry = self._log[position]
            if entry.uid == uid and entry.lifted is not None:
                del self._log[position]
                self._undo(entry)
                return
        raise KeyError(uid)

    def _undo(self, entry: _Entry) -> None:
        if entry.lifted is None:
            self.state.forget(entry.uid)
        else:
            self.state.put_back(entry.lifted, entry.going, entry.start)
