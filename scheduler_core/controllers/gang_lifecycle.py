"""Reports and restarts running gangs that fell below minMembers (docs/gangs.md#lifecycle).

An Unschedulable event on the PodGroup is written once per set of remaining pods. With the annotation
`muster.dev/lifecycle-policy: restart` all remaining pods are evicted, so that their owner starts the gang
again; without it nothing else is done. A gang with topology constraints has half a minute in which its owner
may replace the missing members: it is restarted sooner only if new members find no room where the constraints
allow it, and all of it could start elsewhere (`engine.gang.topology_repair`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.controllers.events import reference, warning
from scheduler_core.controllers.pacing import Portions
from scheduler_core.model.groups.gang import RESOURCES, Gang
from scheduler_core.model.names import REASON_GANG_RESTART, REASON_UNSCHEDULABLE
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Evict, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.due_times import DueTimes, earliest
from scheduler_core.state.gangs.gangs import Census, take_census
from scheduler_core.state.topology import is_constrained

RETRY_SECONDS: Final = 30.0
# A controller creates a new pod only after the old one is marked for deletion, or even gone.
REPLACEMENT_SECONDS: Final = 30.0


def is_below_min_members(gang: Gang, census: Census) -> bool:
    """Whether members run, but too few members are left to reach minMembers."""
    return census.running > 0 and census.succeeded + census.waiting + census.allocated < gang.min_members


class _Told(msgspec.Struct):
    """The members that were left when the gang was reported. `sent`: their evictions were written."""

    uids: frozenset[str]
    sent: bool = False


class GangLifecycle:
    """Reviews only gangs whose members or object changed (`state.gangs.unreviewed`), or evictions are due.

    An eviction without effect is repeated after half a minute.
    """

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}
        # When the evictions of gangs are due.
        self._evictions: DueTimes[str] = DueTimes()
        self._portions = Portions()

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Events and evictions for the gangs below minMembers."""
        writes: list[Write] = []
        due = set(self._evictions.take(now))
        for key in sorted(due.union(self._portions.take(state.gangs.unreviewed, now))):
            gang = state.gangs.gangs.get(key)
            census = take_census(state, key)
            left = _left(state, key)
            stuck = _stuck(state, key, left)
            if gang is None or not left or not (stuck or is_below_min_members(gang, census)):
                self._told.pop(key, None)
                self._evictions.drop(key)
                continue
            numbers = f"{gang.ref}: {stuck}" if stuck else _numbers(gang, census)
            patience = REPLACEMENT_SECONDS if is_constrained(gang) and not stuck else 0.0
            writes += self._review(gang, numbers, left, now, patience)
        return writes

    def _review(self, gang: Gang, numbers: str, left: list[Pod], now: float, patience: float) -> list[Write]:
        """The event and the evictions for what is left; `patience`: seconds until the first evictions."""
        uids = frozenset(pod.uid for pod in left)
        told = self._told.get(gang.key)
        # Evicted members go one by one: fewer of them is not reported again.
        known = told is not None and (uids <= told.uids if gang.restarts else uids == told.uids)
        if told is None or not known:
            told = self._told[gang.key] = _Told(uids)
            self._evictions.put(gang.key, now + patience)
        elif not (patience or told.sent):
            self._evictions.put(gang.key, now)
        writes: list[Write] = [] if known else [_event(gang, numbers, left, now, patience)]
        due = self._evictions.get(gang.key)
        if not gang.restarts:
            self._evictions.drop(gang.key)
        elif due is None or due <= now:
            told.sent = True
            self._evictions.put(gang.key, now + RETRY_SECONDS)
            message = f"{numbers}; restarted as a whole"
            writes += [Evict(pod.namespace, pod.name, pod.uid, REASON_GANG_RESTART, message) for pod in left]
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """When evictions are due, at once if gangs are left to review, or None."""
        return earliest(self._evictions.next_time(), self._portions.next_time(state.gangs.unreviewed))


def _left(state: ClusterState, key: str) -> list[Pod]:
    """The members that hold a node and stay, in order of uid."""
    members = state.gangs.members(key)
    pods = (members[uid] for uid in sorted(members))
    return [pod for pod in pods if not (pod.terminating or pod.finished) and _stays(state, pod.uid)]


def _stuck(state: ClusterState, key: str, left: list[Pod]) -> str:
    """Why members that are left must be restarted, although enough pods wait; empty if they need not."""
    run = state.topology.runs.get(key)
    repair = run.repair if run is not None else None
    if repair is None or repair.uids.isdisjoint(pod.uid for pod in left):
        return ""
    return repair.message


def _stays(state: ClusterState, uid: str) -> bool:
    """Whether a pod holds a node and is not being evicted."""
    placement = state.placed.get(uid)
    return placement is not None and not state.table.ending[placement.row]


def _numbers(gang: Gang, census: Census) -> str:
    return (
        f"{gang.ref} fell below minMembers {gang.min_members}: {census.allocated} have a node, "
        f"{census.waiting} wait, {census.succeeded} succeeded, {census.failed} failed"
    )


def _event(gang: Gang, note: str, left: list[Pod], now: float, patience: float) -> Write:
    regarding = reference(RESOURCES[gang.ref.dialect], gang.ref.namespace, gang.ref.name, gang.uid)
    if gang.restarts:
        note = f"{note}; the {len(left)} that are left are evicted (lifecycle policy restart)"
        if patience:
            note = f"{note} unless new members come within {patience:.0f} s"
    occurrence = " ".join((gang.uid, *(pod.uid for pod in left)))
    return warning(regarding, REASON_UNSCHEDULABLE, note, occurrence, now)
