"""A pod on a node, as the state keeps it."""

from __future__ import annotations

from scheduler_core.arrays.index import Int64
from scheduler_core.model.pod import Pod


class Placement:
    """A pod that holds a node: assumed by us, or bound according to the API.

    `learned` is when we came to know; `estimated` is the form of the pod that its load was estimated from.
    """

    __slots__ = ("assumed_at", "estimated", "learned", "pod", "row", "slot", "vector")

    def __init__(
        self, pod: Pod, slot: int, row: int, vector: Int64, assumed_at: float | None, learned: float
    ) -> None:
        self.pod = pod
        self.slot = slot
        self.row = row
        self.vector = vector  # [R] at the time of placing
        self.assumed_at = assumed_at
        self.learned = learned
        self.estimated = pod

    @property
    def assumed(self) -> bool:
        """Decided by us and not confirmed by the API yet."""
        return self.assumed_at is not None
