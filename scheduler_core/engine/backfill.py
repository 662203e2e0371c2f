"""Backfill: who has ended before a kept gang can start is tried as if nothing were kept.

Only starting is backfill. Victims take time to end, and who evicts goes before what is kept: so evictions are
looked for with all that is kept, by the rights that there are beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from scheduler_core.state.nominations import Nominations


class Backfill:
    """What is put aside while one unit is tried."""

    def __init__(self, nominations: Nominations) -> None:
        self._nominations = nominations
        self._kept: Collection[str] = ()
        self._keep: Callable[[], None] | None = None

    @contextmanager
    def aside(self, kept: Collection[str], keep: Callable[[], None]) -> Iterator[None]:
        """Without what is kept for some pods (uids); `keep` keeps it for them again."""
        self._remove(kept)
        self._kept, self._keep = kept, keep
        try:
            yield
        finally:
            self._kept, self._keep = (), None
            keep()

    @contextmanager
    def all_kept(self) -> Iterator[None]:
        """With all that is kept, also while some of it is put aside."""
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
