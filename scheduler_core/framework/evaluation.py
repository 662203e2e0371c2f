"""The contract by which a plugin runs all filters again on the current state."""

from __future__ import annotations

from typing import Protocol

from scheduler_core.arrays.types import Bool


class Evaluation(Protocol):
    """Re-runs of PreFilter and Filter for one pod; inside a Trial the state says what would be true."""

    @property
    def across_nodes(self) -> bool:
        """Whether victims may be on several nodes."""

    def fits(self, slot: int) -> bool:
        """Whether the pod passes PreFilter and every filter on one node.

        Leaving pods count as gone; nominated pods of at least the pod's priority count as placed.
        """

    def unresolvable(self) -> Bool:
        """bool [N]: nodes on which no eviction can make the pod fit."""

    def beyond_resources(self) -> Bool:
        """bool [N]: nodes refused by a filter other than NodeResourcesFit, where evictions might help."""
