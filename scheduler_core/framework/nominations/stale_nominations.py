"""Stale nominations: nominated pods for which waiting is of no use any more.

Other pods with better rights were nominated or placed since, or the node is lost. kube-scheduler clears the
nominations of less important pods likewise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.nominations.nominated_sums import nominated_by_namespace, nominated_of_quotas
from scheduler_core.framework.preemption.eligibility import awaited, lost_its_node, room_after_leaving
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import relevant
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination, NominationRights


def stale_nominations(state: ClusterState, given: Collection[str]) -> list[Pod]:
    """Pods whose nominations became stale by pods that were nominated since the last call or placed just now.

    `given` are the nodes of the pods placed just now. Only nodes and quotas that cannot hold all nominated
    pods are examined, for preemptors that would not fit even once all leaving pods are gone. A quota that
    exceeds its min with the nominated pods loses its precedence over pods within their min: this frees room,
    too.
    """
    added, state.nominations.added = state.nominations.added, {}
    state.nominations.freed |= _some_go_over_min(state, added.values())
    if not len(state.nominations):
        return []
    tight = bool(added or given) and _quotas_overbooked(state)
    if tight or (added and _nodes_overbooked(state)) or any(_overbooked(state, node) for node in given):
        return [item.pod for item in state.nominations.waiting(_preempted) if not awaited(state, item.pod)]
    return []


def release_lost(state: ClusterState, node: str) -> list[Pod]:
    """Remove the nominations of a node that is gone or that their pods cannot use any more; gives these pods.

    Else they would count against whoever is tried before them. Of members nominated together all are removed.
    """
    lost = [
        item for item in state.nominations.on_node(node) if not item.kept and lost_its_node(state, item.pod)
    ]
    for item in lost:
        if item.group:
            state.nominations.remove_group(item.group)
        else:
            state.nominations.remove(item.pod.uid)
    return [item.pod for item in lost]


def _some_go_over_min(state: ClusterState, added: Iterable[Nomination]) -> bool:
    """Whether a quota exceeds its min with all its nominated pods, but not without the added ones."""
    asked: dict[str, dict[str, int]] = {}
    for item in added:
        if not item.kept:
            shift(asked.setdefault(item.pod.namespace, {}), charged(item.charge))
    return any(_goes_over_min(state, namespace, more) for namespace, more in asked.items())


def _goes_over_min(state: ClusterState, namespace: str, more: ResourceList) -> bool:
    quota = state.ledger.quota_of(namespace)
    if quota is None:
        return False
    nominated = nominated_by_namespace(state).get(namespace, {})
    used, leaving = state.ledger.used(namespace), state.ledger.leaving(namespace)
    for name in relevant(state.ledger, quota) & nominated.keys():
        over = used.get(name, 0) - leaving.get(name, 0) + nominated[name] - quota.min.get(name, 0)
        if 0 < over <= more.get(name, 0):
            return True
    return False


def _preempted(rights: NominationRights) -> bool:
    return not rights.kept


def _quotas_overbooked(state: ClusterState) -> bool:
    ledger = state.ledger
    total, _ = nominated_of_quotas(state)
    for namespace, sums in nominated_by_namespace(state).items():
        quota = ledger.quota_of(namespace)
        if quota is not None and _beyond(sums, ledger.used(namespace), ledger.leaving(namespace), quota.max):
            return True
    return _beyond(total, ledger.total_used, ledger.total_leaving, ledger.total_min)


def _beyond(more: ResourceList, used: ResourceList, leaving: ResourceList, limits: ResourceList) -> bool:
    return any(
        value > 0 and name in limits and used.get(name, 0) - leaving.get(name, 0) + value > limits[name]
        for name, value in more.items()
    )


def _nodes_overbooked(state: ClusterState) -> bool:
    nodes = state.nodes
    kept = list(state.nominations.waiting(lambda rights: rights.kept))
    room = state.nominations.room(kept)  # [R, N]
    state.table.cover(len(nodes.allocatable))
    free = (nodes.allocatable - nodes.requested)[:, : nodes.size]
    free = free + state.table.leaving_requests(nodes.size)[: len(free)]
    return bool(((room > free) & (room > 0)).any())


def _overbooked(state: ClusterState, node: str) -> bool:
    """Whether a node lacks room for all pods nominated for it once all leaving pods are gone."""
    slot = state.nodes.slot(node)
    waiting = [item for item in state.nominations.on_node(node) if not item.kept]
    if slot is None or not waiting:
        return False
    total: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    for item in waiting:
        total[: len(item.vector)] += item.vector
    return not room_after_leaving(state, total, slot)
