"""Use above max, which no sum over several quotas contains: evictions free nothing there before it ends.

It counts against its own quota, or against the quotas of its own group (docs/quota.md#use-above-max,
docs/quota-trees.md#use-above-max).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler_core.arrays.index import MOST_COUNTED
from scheduler_core.arrays.types import Int64
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.group_accounts import NO_GROUPS, Ancestors
from scheduler_core.quota.policy import above_max
from scheduler_core.quota.tree import GroupAccount
from scheduler_core.state.cluster import ClusterState


def with_own(state: ClusterState, quota: ElasticQuota, need: Int64) -> Int64:
    """int64 [R]: what pods of a quota have to free so that what counts of it for others falls by `need`."""
    return _more(state, need, above_max(state.ledger, quota, after_leaving=True).items())


def with_groups(state: ClusterState, quota: ElasticQuota, need: Int64) -> Int64:
    """int64 [R]: what has to count less inside the groups above a quota so that the sum over all quotas falls
    by `need`.
    """
    return _more(
        state,
        need,
        (
            (name, group.above_max(name, after_leaving=True))
            for group in state.ledger.groups_above(quota.namespace)
            for name in group.group.max
        ),
    )


def with_own_and_groups(state: ClusterState, quota: ElasticQuota, need: Int64) -> Int64:
    """int64 [R]: what pods of a quota have to free so that the sum over all quotas falls by `need`."""
    return with_own(state, quota, with_groups(state, quota, need))


def _more(state: ClusterState, need: Int64, amounts: Iterable[tuple[str, int]]) -> Int64:
    lacking = need > 0
    for name, value in amounts:
        row = state.index.row(name)
        if row is not None and lacking[row]:
            need[row] = min(MOST_COUNTED, int(need[row]) + value)
    return need


def count_excess(
    state: ClusterState,
    quotas: Sequence[ElasticQuota],
    excess: Int64,
    hidden: Int64,
    taker: Ancestors = NO_GROUPS,
) -> None:
    """Add the use above max of quotas and their groups to `excess`, int64 [Q, R], and `hidden`, int64 [R].

    `excess` marks the quotas that give first. `hidden` is what has to end before the sum falls; use of pods
    without a node need not. Groups of the taker are left out: in them it needs all of what is above max.
    """
    ledger, index = state.ledger, state.index
    seen: set[str] = set()
    for number, quota in enumerate(quotas):
        fixed = ledger.fixed(quota.namespace)
        for name, value in above_max(ledger, quota, after_leaving=True).items():
            row = index.row(name)
            if row is not None:
                excess[number, row] = min(MOST_COUNTED, value)
                hidden[row] = min(MOST_COUNTED, int(hidden[row]) + max(0, value - fixed.get(name, 0)))
        for group in ledger.groups_above(quota.namespace):
            if group not in taker:
                _count_group(state, group, excess[number], hidden, first=group.name not in seen)
                seen.add(group.name)


def _count_group(
    state: ClusterState, group: GroupAccount, excess: Int64, hidden: Int64, *, first: bool
) -> None:
    """The same of one group above a quota, whose row of `excess` is int64 [R]; `hidden` once per group."""
    for name in group.group.max:
        value, row = group.above_max(name, after_leaving=True), state.index.row(name)
        if value and row is not None:
            excess[row] = max(int(excess[row]), min(MOST_COUNTED, value))
            more = group.above_max(name, after_leaving=True, guaranteed=True) if first else 0
            hidden[row] = min(MOST_COUNTED, int(hidden[row]) + more)
