"""Backfill: a pod that ends before a gang can start may use the nodes that are kept for the gang.

Such a pod is tried as if no nodes were kept. Preemption is not backfill: victims take time to terminate, so
PostFilter runs with the kept nodes in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from scheduler_core.state.nominations import Nominations


class Backfill:
    """The nominations of kept nodes that are removed while one unit is tried."""

    def __init__(self, nominations: Nominations) -> None:
        self._nominations = nominations
        self._kept: Collection[str] = ()
        self._keep: Callable[[], None] | None = None

    @contextmanager
    def aside(self, kept: Collection[str], keep: Callable[[], None]) -> Iterator[None]:
        """Run without the kept nodes of some pods (uids); `keep` nominates them again afterwards."""
        self._remove(kept)
        self._kept, self._keep = kept, keep
        try:
            yield
        finally:
            self._kept, self._keep = (), None
            keep()

    @contextmanager
    def all_kept(self) -> Iterator[None]:
        """Run with all kept nodes in place, also inside `aside`."""
        keep = self._keep
        if keep is None:
            yield
            return
        self._keep = None
        keep()
        try:
            yield
        finally:
            self._remove(self._kept)
            self._keep = keep

    def _remove(self, kept: Collection[str]) -> None:
        freed = self._nominations.freed
        for uid in kept:
            self._nominations.remove(uid)
        self._nominations.freed = freed
