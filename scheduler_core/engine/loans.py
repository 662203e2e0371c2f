"""Quotas that borrow more than before: whoever waits within its own min can reclaim more of their pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler_core.model.pod import Pod
from scheduler_core.quota.ledger import charged
from scheduler_core.quota.policy import borrowed
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened


def with_loans(state: ClusterState, events: list[ClusterEvent]) -> list[ClusterEvent]:
    """The events, and what pods that came with a node of their own mean for their quotas."""
    came = [event.pod for event in events if event.what is Happened.POD_ADD and event.pod is not None]
    return [*events, *_loans(state, came)]


def _loans(state: ClusterState, placed: Iterable[Pod]) -> Iterator[ClusterEvent]:
    came: dict[str, set[str]] = {}
    for pod in placed:
        came.setdefault(pod.namespace, set()).update(charged(pod.requests))
    for namespace, names in came.items():
        quota = state.ledger.quota_of(namespace)
        # What pods on their way out use is no loan any more.
        if quota is not None and not names.isdisjoint(borrowed(state.ledger, quota, after_leaving=True)):
            yield ClusterEvent(Happened.LOAN, namespace=namespace)
