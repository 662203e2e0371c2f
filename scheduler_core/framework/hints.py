"""Import path of hints for plugins of other packages: docs/queue.md#writing-a-hint."""

from __future__ import annotations

from scheduler_core.framework.queueing.hints import (
    EVERYBODY,
    NOBODY,
    NOMINATED,
    Band,
    EvictableRequests,
    FindEvictableRequests,
    Hint,
    NarrowHint,
    Neighbour,
    Reach,
    Room,
    StandingHint,
    to_all_pods,
)

__all__ = [
    "EVERYBODY",
    "NOBODY",
    "NOMINATED",
    "Band",
    "EvictableRequests",
    "FindEvictableRequests",
    "Hint",
    "NarrowHint",
    "Neighbour",
    "Reach",
    "Room",
    "StandingHint",
    "to_all_pods",
]
