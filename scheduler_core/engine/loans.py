"""Quotas that begin to borrow: their pods can now be reclaimed by whoever waits within its own min."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler_core.engine.decisions import Decision, Placed
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, Happened


def with_loans(state: ClusterState, events: list[ClusterEvent]) -> list[ClusterEvent]:
    """The events, and what pods that came with a node of their own mean for their quotas."""
    came = [event.pod for event in events if event.what is Happened.POD_ADD and event.pod is not None]
    return [*events, *_begun(state, came)]


def loans_of(state: ClusterState, decisions: Iterable[Decision]) -> list[ClusterEvent]:
    """An event for every quota that borrows because of pods placed just now."""
    return list(_begun(state, [item.pod for item in decisions if isinstance(item, Placed)]))


def _begun(state: ClusterState, placed: Iterable[Pod]) -> Iterator[ClusterEvent]:
    came: dict[str, dict[str, int]] = {}
    awaited = set()
    for pod in placed:
        if state.ledger.quota_of(pod.namespace) is None:
            continue
        shift(came.setdefault(pod.namespace, {}), charged(pod.requests))
        if state.nominations.get(pod.uid) is not None:
            # Its node was kept for it, so nobody could count on its room; now it can be a victim.
            awaited.add(pod.namespace)
    for namespace, amounts in came.items():
        quota = state.ledger.quota_of(namespace)
        if quota is not None and _borrows_anew(state, quota, amounts, namespace in awaited):
            yield ClusterEvent(Happened.LOAN, namespace=namespace)


def _borrows_anew(state: ClusterState, quota: ElasticQuota, came: ResourceList, awaited: bool) -> bool:
    """Whether the quota borrows a resource of which, without what came, it would be within min.

    With `awaited` it is enough that it borrows. What pods on their way out use is no loan any more.
    """
    ledger = state.ledger
    used, leaving = ledger.used(quota.namespace), ledger.leaving(quota.namespace)
    for name, amount in came.items():
        over = used.get(name, 0) - leaving.get(name, 0) - quota.min.get(name, 0)
        if over > 0 and (over <= amount or awaited) and (name in ledger.total_min or name in quota.max):
            return True
    return False
