"""What the queue holds: a pod alone or a gang, with its history there."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from scheduler_core.engine.signature import signature
from scheduler_core.model.pod import Pod

if TYPE_CHECKING:
    from scheduler_core.engine.waiting import WaitingClass


class Part(StrEnum):
    """Where a unit is."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    ASKED = "asked"


class QueuedUnit:
    """A pod alone or a gang, with its history: when its first pod `came`, `since` when it fails."""

    __slots__ = (
        "attempts",
        "came",
        "created",
        "due",
        "entered",
        "entry",
        "failed_at",
        "failures",
        "gang",
        "gang_priority",
        "key",
        "kinds",
        "part",
        "plugins",
        "pods",
        "since",
        "stands_for",
        "waits_in",
    )

    def __init__(self, key: str, created: float, gang: bool = False, *, came: float = 0.0) -> None:
        self.key = key
        self.came = came
        self.created = created
        self.gang = gang
        self.gang_priority: int | None = None
        self.since: float | None = None
        self.pods: dict[str, Pod] = {}
        self.part = Part.GATED
        self.attempts = 0
        self.failed_at = 0.0
        # Tries that found no node, those of reviews as well.
        self.failures = 0
        # When it is to be tried whatever happens, as its last try said.
        self.due = math.inf
        self.entered = 0.0
        self.entry = -1
        # What `distinct` gives; emptied when a pod comes, changes or goes.
        self.kinds: dict[Hashable, Pod] = {}
        self.plugins: frozenset[str] = frozenset()
        # The class with which it waits for an event, or for which it is tried.
        self.waits_in: WaitingClass | None = None
        self.stands_for: WaitingClass | None = None

    def distinct(self) -> Iterable[Pod]:
        """One pod of each kind that plugins can tell apart."""
        if len(self.pods) == 1:
            return self.pods.values()
        if not self.kinds:
            self.kinds = {signature(pod, labels_matter=True): pod for pod in self.pods.values()}
        return self.kinds.values()

    @property
    def priority(self) -> int:
        """The group's own priority where it has one, else the highest of its pods."""
        if self.gang_priority is not None:
            return self.gang_priority
        return max((pod.priority for pod in self.pods.values()), default=0)
