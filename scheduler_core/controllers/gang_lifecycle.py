"""Gangs that fell below minMembers while some of their pods run (coscheduling reference, item 7).

An Unschedulable event on the PodGroup tells its owner, once for every set of pods that is left. With the
annotation `muster.dev/lifecycle-policy: restart` those pods are evicted, all of them, and whoever owns them
starts the gang anew; without it nothing else is done.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.controllers.events import warning
from scheduler_core.controllers.portion import portion
from scheduler_core.model.gang import RESOURCES, Gang
from scheduler_core.model.names import REASON_GANG_RESTART, REASON_UNSCHEDULABLE
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Evict, Write
from scheduler_core.state.census import take_census
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census

RETRY_SECONDS: Final = 30.0


def torn(gang: Gang, census: Census) -> bool:
    """Whether members run but too few are left to ever be a gang again."""
    return census.running > 0 and census.succeeded + census.waiting + census.allocated < gang.min_members


class _Told(msgspec.Struct):
    """The members that were left when the gang was told of, and when their evictions are due again."""

    uids: frozenset[str]
    due: float = 0.0


class GangLifecycle:
    """Looks only at gangs whose members or object changed (`state.gangs.unreviewed`), or evictions are due.

    An eviction that had no effect for half a minute is asked for again.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        self._more = False

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Events and evictions for the gangs that are torn apart."""
        writes: list[Write] = []
        due = {key for key, told in self._told.items() if 0.0 < told.due <= now}
        for key in sorted(due.union(portion(state.gangs.unreviewed, lambda key: True))):
            gang = state.gangs.gangs.get(key)
            census = take_census(state, key)
            left = _left(state, key)
            if gang is None or not left or not torn(gang, census):
                self._told.pop(key, None)
                continue
            writes += self._review(gang, census, left, now)
        self._more = bool(state.gangs.unreviewed)
        return writes

    def _review(self, gang: Gang, census: Census, left: list[Pod], now: float) -> list[Write]:
        uids = frozenset(pod.uid for pod in left)
        told = self._told.get(gang.key)
        # Evicted members go one by one: fewer of them is then no news.
        known = told is not None and (uids <= told.uids if gang.restarts else uids == told.uids)
        if told is None or not known:
            told = self._told[gang.key] = _Told(uids)
        writes: list[Write] = [] if known else [_event(gang, census, left, now)]
        if gang.restarts and told.due <= now:
            told.due = now + RETRY_SECONDS
            message = f"{_numbers(gang, census)}; restarted as a whole"
            writes += [Evict(pod.namespace, pod.name, pod.uid, REASON_GANG_RESTART, message) for pod in left]
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When evictions that had no effect are due again, at once where there was too much, or None."""
        if self._more:
            return 0.0
        return min((told.due for told in self._told.values() if told.due), default=None)


def _left(state: ClusterState, key: str) -> list[Pod]:
    """The members that run or are about to, by uid."""
    members = state.gangs.members(key)
    pods = (members[uid] for uid in sorted(members))
    return [pod for pod in pods if not (pod.terminating or pod.finished) and _stays(state, pod.uid)]


def _stays(state: ClusterState, uid: str) -> bool:
    """Whether a pod holds a node and nobody has decided to evict it."""
    placement = state.placed.get(uid)
    return placement is not None and not state.table.going[placement.row]


def _numbers(gang: Gang, census: Census) -> str:
    return (
        f"{gang.ref} fell below minMembers {gang.min_members}: {census.allocated} have a node, "
        f"{census.waiting} wait, {census.succeeded} succeeded, {census.failed} failed"
    )


def _event(gang: Gang, census: Census, left: list[Pod], now: float) -> Write:
    resource = RESOURCES[gang.ref.dialect]
    regarding = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": gang.ref.namespace,
        "name": gang.ref.name,
        "uid": gang.uid,
    }
    note = _numbers(gang, census)
    if gang.restarts:
        note = f"{note}; the {len(left)} that are left are evicted (lifecycle policy restart)"
    occurrence = " ".join((gang.uid, *(pod.uid for pod in left)))
    return warning(regarding, REASON_UNSCHEDULABLE, note, occurrence, now)
