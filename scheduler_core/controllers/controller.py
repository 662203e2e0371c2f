"""The interface of the reconcilers in this package."""

from __future__ import annotations

from typing import Protocol

from scheduler_core.model.writes import Write
from scheduler_core.state.cluster import ClusterState


class Controller(Protocol):
    """A reconciler: computes writes from the state, as the loop of a Kubernetes controller does.

    `now` is in seconds since the epoch.
    """

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """The writes that are due."""

    def next_time(self, state: ClusterState) -> float | None:
        """When `reconcile` has work without a new event, in seconds since the epoch; None for never."""
