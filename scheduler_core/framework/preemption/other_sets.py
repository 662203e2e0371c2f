"""Where the cheapest set of victims is refused as a whole, the next cheapest sets are tried.

Bounds of single quotas choose a set. Only then is it known whether all of it may go: whether it is a fair
set, and whether groups keep their min and quotas their min of each flavor. Each of these looks at what the
pods use together, so a set that has as many pods of each kind is refused as well, on whatever nodes they run.
So every other set has fewer pods of some kind than a refused one, and for each kind of it one search goes on
with fewer candidates. The searches are few (`most`), and the cheapest set that any of them finds goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec
import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.dry_run import disrupted_gangs
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.ranks import NO_GANG
from scheduler_core.state.placed.pods import PodTable

# Most searches with fewer candidates after the first one: for a pod, and for a group, which each one places.
MOST_SETS: Final = 16
MOST_SETS_OF_A_GROUP: Final = 4

Made = TypeVar("Made")


class TriedSet(NamedTuple, Generic[Made]):
    """A set of victims that a search found, and what it `made` of it: None if the set is refused.

    Sets with a lower `cost` go first, of equal ones those that were found first.
    """

    cost: tuple[float, ...]
    victims: Sequence[Pod]
    made: Made | None


def cheapest_admitted(
    state: ClusterState,
    demand: Demand,
    search: Callable[[Demand], Iterable[TriedSet[Made]]],
    most: int = MOST_SETS,
) -> Made | None:
    """What the search made of the cheapest set that is not refused, or None.

    `search` gives the cheapest sets of a demand: a refused one, an admitted one, both or none.
    """
    heap: list[tuple[tuple[float, ...], int, TriedSet[Made], Demand]] = []
    number, seen = count(), set[bytes]()

    def look(at: Demand) -> None:
        seen.add(at.eligible.tobytes())
        for found in search(at):
            heappush(heap, (found.cost, next(number), found, at))

    look(demand)
    while heap:
        _, _, tried, at = heappop(heap)
        if tried.made is not None:
            return tried.made
        for eligible in without_some(state, at.eligible, tried.victims):
            if len(seen) <= most and eligible.any() and eligible.tobytes() not in seen:
                look(msgspec.structs.replace(at, eligible=eligible))
    return None


def without_some(state: ClusterState, eligible: Bool, victims: Sequence[Pod]) -> Iterator[Bool]:
    """bool [rows]: the candidates of the searches that follow a refused set, one per kind of its victims.

    Pods of a kind have the same namespace and requests, and so have, one by one, gangs of a kind that go as a
    whole. All other candidates stay, and of the kind one fewer than in the set: pods on each node, if the set
    is on one node, or in all; and gangs of the set.
    """
    table, gangs = state.table, dict[bytes, list[Rows]]()
    for gang in disrupted_gangs(state, victims):
        rows = table.by_importance(_rows(state, gang.members))
        kinds = _kinds(table, rows)
        gangs.setdefault(kinds[:, np.lexsort(kinds)].tobytes(), []).append(rows)
    member: Bool = np.zeros(table.size, dtype=np.bool_)
    for kind in gangs.values():
        member[np.concatenate(kind)] = True
        yield _fewer_gangs(table, eligible, kind)
    rows = _rows(state, victims)
    single = rows[~member[rows]]
    for sample in _samples(table, single):
        alike = _alike(table, eligible, sample)
        chosen = single[alike[single]]
        if len(chosen):
            per_node = len(np.unique(table.slot[single])) == 1
            yield eligible & ~_beyond(table, alike, len(chosen) - 1, per_node=per_node)


def _fewer_gangs(table: PodTable, eligible: Bool, gangs: Sequence[Rows]) -> Bool:
    """bool [rows]: the candidates without gangs of a kind, but for all of the set (their rows) except one."""
    gone: Bool = np.zeros(len(eligible), dtype=np.bool_)
    for sample in _samples(table, gangs[0]):
        gone |= _alike(table, eligible, sample)
    gone &= table.rank[: len(eligible)] > NO_GANG
    kept = sorted(gangs, key=lambda rows: (int(table.priority[rows].max()), -float(table.since[rows].max())))
    for rows in kept[:-1]:
        gone[rows] = False
    return eligible & ~gone


def _rows(state: ClusterState, pods: Iterable[Pod]) -> Rows:
    return np.array([state.placed[pod.uid].row for pod in pods], dtype=np.int64)


def _kinds(table: PodTable, rows: Rows) -> Int64:
    """int64 [1 + R, M]: namespace and requests."""
    kinds: Int64 = np.vstack([table.namespace[rows], table.requests[:, rows]])
    return kinds


def _samples(table: PodTable, rows: Rows) -> list[int]:
    """One row of each kind."""
    _, first = np.unique(_kinds(table, rows), axis=1, return_index=True)
    return rows[np.sort(first)].tolist() if len(rows) else []


def _alike(table: PodTable, eligible: Bool, sample: int) -> Bool:
    """bool [rows]: the candidates of the kind of a pod."""
    size = len(eligible)
    rows = np.flatnonzero(eligible & (table.namespace[:size] == table.namespace[sample]))
    same = (table.requests[:, rows] == table.requests[:, sample, None]).all(axis=0)
    out: Bool = np.zeros(size, dtype=np.bool_)
    out[rows[same]] = True
    return out


def _beyond(table: PodTable, alike: Bool, most: int, *, per_node: bool) -> Bool:
    """bool [rows]: the pods of a kind but the `most` least important ones, of each node or of all."""
    rows = table.removal_order(alike)
    if per_node:
        rows = rows[np.argsort(table.slot[rows], kind="stable")]
        starts = np.flatnonzero(np.diff(table.slot[rows], prepend=-1))
        places = np.arange(len(rows)) - np.repeat(starts, np.diff(starts, append=len(rows)))
    else:
        places = np.arange(len(rows))
    out: Bool = np.zeros(len(alike), dtype=np.bool_)
    out[rows[places >= most]] = True
    return out
