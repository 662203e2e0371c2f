"""Nominated pods of one quota in line: who goes before whom, with sums over those before each.

An event asks every nominated pod whether it still waits, and its answer depends on all that go before it. So
the sums over the first 0, 1, 2, ... of them are computed once, and kept while no nomination changes.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

import numpy as np

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.nominations.covered_nominations import covered_nominations
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.nomination import Nomination

# Whether the min of the quota does not cover a nominated pod, and its rank.
Place = tuple[bool, tuple[int, float, str]]


class _ByRank(NamedTuple):
    """Nominated pods of a namespace by rank; what the first 0 to K of them will be charged."""

    ranks: list[tuple[int, float, str]]
    sums: list[ResourceList]


class NodeLine(NamedTuple):
    """Single nominated pods of one quota on one node, in line: their places, and what the first 0 to K
    of them request (int64 [K + 1, R]); `others` are all other nominated pods of the node.
    """

    places: list[Place]
    requests: Int64
    others: list[Nomination]

    def before(self, place: Place) -> Int64:
        """int64 [R]: what those before a place request. Read only."""
        found: Int64 = self.requests[bisect_left(self.places, place)]
        return found


def charged_before(state: ClusterState, itself: Nomination) -> ResourceList:
    """What nominated pods of the same namespace will be charged that come before one by rank. Read only.

    Pods for which nodes are merely kept do not count.
    """
    namespace, known = itself.pod.namespace, state.nominations.in_line
    line: _ByRank | None = known.get(namespace)
    if line is None:
        line = known[namespace] = _by_rank(state, namespace)
    return line.sums[bisect_left(line.ranks, itself.rank)]


def _by_rank(state: ClusterState, namespace: str) -> _ByRank:
    chosen = state.nominations.waiting(lambda rights: rights.namespace == namespace and not rights.kept)
    ranked = sorted(((item.rank, item.pod.uid, item) for item in chosen), key=lambda one: one[:2])
    sums: list[ResourceList] = [{}]
    for *_, item in ranked:
        total = dict(sums[-1])
        shift(total, charged(item.charge))
        sums.append(total)
    return _ByRank([rank for rank, *_ in ranked], sums)


def place_in_line(state: ClusterState, nominee: Nomination, quota: ElasticQuota) -> Place | None:
    """The place among single nominated pods of a quota; None for a gang's, or one for which a node is kept.

    Those that the min covers go before those that would borrow, whatever their rank (`Precedence`).
    """
    if nominee.kept or nominee.group or nominee.priority != nominee.pod.priority:
        return None
    covers = covered_nominations(state, quota).get(nominee.pod.uid)
    return (not covers, nominee.rank) if covers is not None else None


def line_on(state: ClusterState, node: str, quota: ElasticQuota) -> NodeLine:
    """The line of a quota on a node. Kept while no nomination and no use of quotas changes."""
    cache: dict[Any, Any] = state.nominations.cache(state.ledger.version)
    key = (NodeLine, node, quota.namespace)
    found: NodeLine | None = cache.get(key)
    if found is None:
        found = cache[key] = _line_on(state, node, quota)
    return found


def _line_on(state: ClusterState, node: str, quota: ElasticQuota) -> NodeLine:
    placed: list[tuple[Place, str, Nomination]] = []
    others = []
    for item in state.nominations.on_node(node):
        own = item.pod.namespace == quota.namespace
        place = place_in_line(state, item, quota) if own else None
        if place is None:
            others.append(item)
        else:
            placed.append((place, item.pod.uid, item))
    placed.sort(key=lambda one: one[:2])
    requests: Int64 = np.zeros((len(placed) + 1, len(state.index)), dtype=np.int64)  # [K + 1, R]
    for number, (*_, item) in enumerate(placed):
        requests[number + 1, : len(item.vector)] = item.vector
    return NodeLine([place for place, *_ in placed], requests.cumsum(axis=0), others)
