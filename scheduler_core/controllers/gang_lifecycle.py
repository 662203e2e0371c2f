"""Gangs that fell below minMembers while some of their pods run (coscheduling reference, item 7).

An Unschedulable event on the PodGroup tells its owner, once for every set of pods that is left. With the
annotation `muster.dev/lifecycle-policy: restart` those pods are evicted, all of them, and whoever owns them
starts the gang anew; without it nothing else is done.
"""

from __future__ import annotations

from scheduler_core.controllers.events import warning
from scheduler_core.model.gang import RESOURCES, Gang
from scheduler_core.model.names import REASON_GANG_RESTART, REASON_UNSCHEDULABLE
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Evict, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census


def torn(gang: Gang, census: Census) -> bool:
    """Whether members run but too few are left to ever be a gang again."""
    return census.running > 0 and census.succeeded + census.waiting + census.allocated < gang.min_members


class GangLifecycle:
    """Looks only at gangs whose members or object changed (`state.gangs.unreviewed`)."""

    def __init__(self) -> None:
        self._told: dict[str, frozenset[str]] = {}

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """Events and evictions for the gangs that were torn apart since the last call."""
        writes: list[Write] = []
        for key in sorted(state.gangs.unreviewed):
            gang = state.gangs.gangs.get(key)
            census = state.gangs.census(key, state.placed)
            left = _left(state, key)
            if gang is None or not left or not torn(gang, census):
                self._told.pop(key, None)
                continue
            uids = frozenset(pod.uid for pod in left)
            if self._told.get(key) == uids:
                continue
            self._told[key] = uids
            writes += _writes(gang, census, left, now)
        state.gangs.unreviewed.clear()
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """Nothing is postponed."""
        return None


def _left(state: ClusterState, key: str) -> list[Pod]:
    """The members that run or are about to, by uid."""
    members = state.gangs.members(key)
    pods = (members[uid] for uid in sorted(members))
    return [pod for pod in pods if not (pod.terminating or pod.finished) and pod.uid in state.placed]


def _writes(gang: Gang, census: Census, left: list[Pod], now: float) -> list[Write]:
    resource = RESOURCES[gang.ref.dialect]
    text = (
        f"{gang.ref} fell below minMembers {gang.min_members}: {census.allocated} have a node, "
        f"{census.waiting} wait, {census.succeeded} succeeded, {census.failed} failed"
    )
    evictions = [
        Evict(pod.namespace, pod.name, pod.uid, REASON_GANG_RESTART, f"{text}; restarted as a whole")
        for pod in left
        if gang.restarts
    ]
    regarding = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "namespace": gang.ref.namespace,
        "name": gang.ref.name,
        "uid": gang.uid,
    }
    note = (
        f"{text}; the {len(left)} that are left are evicted (lifecycle policy restart)" if evictions else text
    )
    occurrence = " ".join((gang.uid, *(pod.uid for pod in left)))
    return [warning(regarding, REASON_UNSCHEDULABLE, note, occurrence, now), *evictions]
