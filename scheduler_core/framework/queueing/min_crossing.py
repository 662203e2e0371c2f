"""Which waiting pods enter or leave the min of their quota by a pod that ends or comes.

Within the min of its quota a pod takes others' pods, beyond it less important ones of its own quota. So a pod
of the quota that comes or goes gives those other victims that it takes across the line, and no others. Of
thousands of waiting pods that are few. Pods that come or go at the same moment take them across together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np
from msgspec import structs

from scheduler_core.arrays.index import MOST_COUNTED
from scheduler_core.arrays.types import Int64
from scheduler_core.framework.queueing.hints import EVERYBODY, NOBODY, Band, Reach
from scheduler_core.model.names import ALL_RESOURCES
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import charged, less, shift
from scheduler_core.quota.policy import relevant
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind

_GOES: Final = EventKind.POD_DELETE | EventKind.POD_LEAVING
_Side = tuple[str, bool]
_UNBOUNDED: Final = np.iinfo(np.int64).max


def enter_the_min(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of the quota of a pod that ended or leaves which are within its min by that; all pods of the quota
    where more decides than its min.
    """
    gone = event.pod
    namespace = gone.namespace if gone is not None else event.namespace
    if not namespace:
        return EVERYBODY
    quota = state.ledger.quota_of(namespace)
    if gone is None or quota is None:
        return NOBODY if gone is not None else Reach(namespaces=frozenset({namespace}))
    if state.ledger.tree or state.nodes.flavors or state.ledger.aggregate != ALL_RESOURCES:
        return Reach(namespaces=frozenset({namespace}))
    left = _left_of_min(state, quota)
    before = dict(left)
    shift(before, moved_at_once(state, event), -1)
    shift(before, _nominated(state, namespace), -1)
    return _between(state, quota, left, before)


def leave_the_min(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods of the quota of an added pod that are above its min by that."""
    came = event.pod
    quota = state.ledger.quota_of(came.namespace) if came is not None else None
    if came is None or quota is None:
        return NOBODY
    if state.nodes.flavors:
        return Reach(namespaces=frozenset({came.namespace}))
    left = _left_of_min(state, quota)
    before = dict(left)
    shift(before, moved_at_once(state, event))
    shift(left, _nominated(state, came.namespace), -1)
    return _between(state, quota, before, left)


def moved_at_once(state: ClusterState, event: ClusterEvent) -> ResourceList:
    """The most by which the use of a quota changed with a pod, and those that came or went with it."""
    if event.together is not None:
        return event.together
    # Of a pod that was resized all that it had counts.
    pod = event.old_pod or event.pod
    return charged(state.charge_of(pod)) if pod is not None else {}


def told_together(state: ClusterState, events: Iterable[ClusterEvent]) -> list[ClusterEvent]:
    """Events of one moment; those of several pods that came to a quota, or went, with what all of them are
    charged.
    """
    made = list(events)
    if len(made) < 2:
        return made
    sides = [_side(event) for event in made]
    numbers, sums = Counter(sides), dict[_Side, dict[str, int]]()
    for side, event in zip(sides, made, strict=True):
        if side is not None and numbers[side] > 1:
            shift(sums.setdefault(side, {}), moved_at_once(state, event))
    return [
        structs.replace(event, together=sums[side]) if side in sums else event
        for side, event in zip(sides, made, strict=True)
    ]


def _side(event: ClusterEvent) -> _Side | None:
    """The quota of a pod that came or went, and whether it came."""
    if event.pod is None or not event.what & (EventKind.POD_ADD | _GOES):
        return None
    return event.pod.namespace, not event.what & _GOES


def _left_of_min(state: ClusterState, quota: ElasticQuota) -> dict[str, int]:
    """What a quota has left of its min, by resource; pods on their way out do not count."""
    ledger = state.ledger
    used = less(ledger.used(quota.namespace), ledger.leaving(quota.namespace))
    return {name: quota.min.get(name, 0) - used.get(name, 0) for name in relevant(ledger, quota)}


def _nominated(state: ClusterState, namespace: str) -> dict[str, int]:
    """The most that nominated pods of a quota take before a pod of it."""
    found: dict[str, int] = {}
    for rights, amounts in state.nominations.sums.items():
        if rights.namespace == namespace:
            shift(found, amounts)
    return found


def _between(
    state: ClusterState, quota: ElasticQuota, most: Mapping[str, int], least: Mapping[str, int]
) -> Reach:
    """The pods of a quota whose requests fit `most` and not `least`."""
    names = [name for name in relevant(state.ledger, quota) if state.index.row(name) is not None]
    if all(max(0, most[name]) == max(0, least[name]) for name in names):
        return NOBODY
    band = Band(_vector(state, names, most), _vector(state, names, least))
    return Reach(namespaces=frozenset({quota.namespace}), band=band)


def _vector(state: ClusterState, names: list[str], amounts: Mapping[str, int]) -> Int64:
    """int64 [R]: amounts by row of the resource index, unbounded where none is given."""
    found: Int64 = np.full(len(state.index), _UNBOUNDED, dtype=np.int64)
    for name in names:
        row = state.index.row(name)
        if row is not None:
            found[row] = max(0, min(MOST_COUNTED, amounts[name]))
    return found
