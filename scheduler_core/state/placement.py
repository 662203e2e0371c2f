"""Placement: a pod on a node, as the state stores it."""

from __future__ import annotations

import msgspec

from scheduler_core.arrays.types import Int64
from scheduler_core.model.pods.pod import Pod


class Placement(msgspec.Struct, eq=False):
    """A pod that holds a node: assumed by us (since `assumed_at`), or bound according to the API.

    `row` is its row in the table of placed pods, `vector` its requests, int64 [R] at the time of placing.
    `learned` is when we came to know; `estimated` is the form of the pod that its load was estimated from;
    `rank`, `late`, `since` and `ending` are those of the table, while a trial has removed the pod.
    """

    pod: Pod
    slot: int
    row: int
    vector: Int64
    assumed_at: float | None
    learned: float
    estimated: Pod
    rank: int = 0
    late: bool = False
    since: float = 0.0
    ending: bool = False

    @property
    def assumed(self) -> bool:
        """Decided by us and not confirmed by the API yet."""
        return self.assumed_at is not None
