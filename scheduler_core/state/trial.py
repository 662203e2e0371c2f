"""Trials: hypothetical changes of the state that are rolled back exactly.

An undo log over placements; nodes, quotas and all counts follow from these. Replaces the AddPod and RemovePod
extensions of kube-scheduler: inside a trial the arrays show the hypothetical state.
"""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

from scheduler_core.arrays.types import Int64
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.placement import Placement


class _Entry(NamedTuple):
    """A pod that was placed (`removed` is None), or removed, with its values in the pod table."""

    uid: str
    removed: Placement | None = None
    leaving: bool = False
    start: float = 0.0


class Trial:
    """A context in which pods are placed and removed. Leaving it restores the state."""

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
        """A point to roll back to."""
        return len(self._log)

    def place(self, pod: Pod, slot: int, vector: Int64 | None = None) -> None:
        """Assume a pod on a node, with its own requests or `vector`."""
        self.state.assume(pod, slot, self.now, vector)
        self._log.append(_Entry(pod.uid))

    def remove_placed(self, uid: str) -> None:
        """Remove a placed pod, as if it had been evicted."""
        row, table = self.state.placed[uid].row, self.state.table
        leaving, start = bool(table.leaving[row]), float(table.start[row])
        self._log.append(_Entry(uid, self.state.remove_placed(uid), leaving, start))

    def rollback(self, checkpoint: int) -> None:
        """Undo everything since the checkpoint, newest first."""
        while len(self._log) > checkpoint:
            self._undo(self._log.pop())

    def restore(self, uid: str) -> None:
        """Give one removed pod back (reprieve); later rollbacks do not affect it."""
        for position in range(len(self._log) - 1, -1, -1):
            entry = self._log[position]
            if entry.uid == uid and entry.removed is not None:
                del self._log[position]
                self._undo(entry)
                return
        raise KeyError(uid)

    def _undo(self, entry: _Entry) -> None:
        if entry.removed is None:
            self.state.forget(entry.uid)
        else:
            self.state.put_back(entry.removed, entry.leaving, entry.start)
