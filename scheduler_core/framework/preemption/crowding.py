"""Nominated pods whose wait helps no more: others with better rights were nominated or placed since."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.preemption.eligibility import awaited, room_after_leaving
from scheduler_core.model.pod import Pod
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.quota.policy import relevant
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nominations import Nomination, Standing


def crowded_out(state: ClusterState, given: Collection[str]) -> list[Pod]:
    """The pods that those nominated since the last time, and those placed just now have crowded out.

    `given` are the nodes of the latter. A quota that goes over its min with those nominated has no
    right any more towards pods within theirs: then room is freed, too. Pods that evicted for their room, and
    would not fit even when all that leaves is gone, are looked for only where nodes or quotas cannot hold all
    that is nominated.
    """
    added, state.nominations.added = state.nominations.added, {}
    state.nominations.freed |= _some_go_over_min(state, added.values())
    if not len(state.nominations):
        return []
    tight = bool(added or given) and _quotas_overbooked(state)
    if tight or (added and _nodes_overbooked(state)) or any(_overbooked(state, node) for node in given):
        return [item.pod for item in state.nominations.waiting(_paid) if not awaited(state, item.pod)]
    return []


def _some_go_over_min(state: ClusterState, added: Iterable[Nomination]) -> bool:
    """Whether a quota exceeds its min with all that is nominated for it, and did not without some pods."""
    asked: dict[str, dict[str, int]] = {}
    for item in added:
        if not item.kept:
            shift(asked.setdefault(item.pod.namespace, {}), charged(item.pod.requests))
    return any(_goes_over_min(state, namespace, more) for namespace, more in asked.items())


def _goes_over_min(state: ClusterState, namespace: str, more: ResourceList) -> bool:
    quota = state.ledger.quota_of(namespace)
    if quota is None:
        return False
    nominated: dict[str, int] = {}
    for standing, sums in state.nominations.sums.items():
        if standing.namespace == namespace and not standing.kept:
            shift(nominated, sums)
    used, leaving = state.ledger.used(namespace), state.ledger.leaving(namespace)
    for name in relevant(state.ledger, quota) & nominated.keys():
        over = used.get(name, 0) - leaving.get(name, 0) + nominated[name] - quota.min.get(name, 0)
        if 0 < over <= more.get(name, 0):
            return True
    return False


def _paid(standing: Standing) -> bool:
    return not standing.kept


def _quotas_overbooked(state: ClusterState) -> bool:
    ledger = state.ledger
    total: dict[str, int] = {}
    own: dict[str, dict[str, int]] = {}
    for standing, sums in state.nominations.sums.items():
        if not standing.kept and ledger.quota_of(standing.namespace) is not None:
            shift(total, sums)
            shift(own.setdefault(standing.namespace, {}), sums)
    for namespace, sums in own.items():
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
    kept = list(state.nominations.waiting(lambda standing: standing.kept))
    room = state.nominations.room(kept)  # [R, N]
    state.table.cover(len(nodes.allocatable))
    free = (nodes.allocatable - nodes.requested)[:, : nodes.size]
    free = free + state.table.leaving(nodes.size)[: len(free)]
    return bool(((room > free) & (room > 0)).any())


def _overbooked(state: ClusterState, node: str) -> bool:
    """Whether one node cannot hold all for whom it is nominated, once all that leaves it is gone."""
    slot = state.nodes.slot(node)
    waiting = [item for item in state.nominations.on_node(node) if not item.kept]
    if slot is None or not waiting:
        return False
    total: Int64 = np.zeros(len(state.index), dtype=np.int64)  # [R]
    for item in waiting:
        total[: len(item.vector)] += item.vector
    return not room_after_leaving(state, total, slot)
