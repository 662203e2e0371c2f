"""Tells groups, owners and quotas that pods of theirs were evicted for others (docs/quota.md#reclaim).

The evicted pods are soon gone, and what was said about them with them. Once per preemption the group, the
controller that made the pods, and the ElasticQuota get an Event; the group gets a condition and the quota
`status.lastReclaim`, which outlive the pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from scheduler_core.controllers.events import reference, warning
from scheduler_core.model.eviction_record import EvictionRecord
from scheduler_core.model.groups.gang import RESOURCES, group_key
from scheduler_core.model.kinds import ELASTIC_QUOTAS
from scheduler_core.model.meta import OwnerReference
from scheduler_core.model.names import EVENT_PREEMPTED, EVENT_RECLAIMED
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, LastReclaim
from scheduler_core.model.quotas.quota_history import MOST_PODS
from scheduler_core.model.resources import add_to, to_strings
from scheduler_core.model.timestamps import format_time
from scheduler_core.model.writes import Create, Write
from scheduler_core.quota.ledger import QuotaLedger, charged
from scheduler_core.quota.policy import relevant
from scheduler_core.quota.reservations.usage import amounts_text
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.displacements import Displacement

# The longest list of names in a note.
_NAMED: Final = 5
_NONE: Final[Mapping[str, str]] = {}


class DisplacementNotices:
    """Stateless: the engine gives each displacement once (`state.displacements`)."""

    def reconcile(self, state: ClusterState, now: float) -> list[Write]:
        """The Events; conditions and `lastReclaim` are handed to the controllers of the status."""
        writes: list[Write] = []
        for found in state.displacements.take():
            writes += _groups(state, found, now)
            writes += _owners(found, now)
            writes += _quota(state, found, now)
        return writes

    def next_time(self, state: ClusterState) -> float | None:
        """Now, while displacements are pending; else None."""
        return 0.0 if state.displacements.pending else None


def _groups(state: ClusterState, found: Displacement, now: float) -> list[Write]:
    """The Event and the condition of each group that loses members."""
    writes: list[Write] = []
    victims: dict[str, list[Pod]] = defaultdict(list)
    for pod in found.victims:
        victims[group_key(pod)].append(pod)
    for key, pods in victims.items():
        gang = state.gangs.gangs.get(key)
        if gang is None or gang.ref.dialect not in RESOURCES:
            continue
        note = f"{len(pods)} of its {found.members[key]} pods {_were(pods)} {found.text}"
        state.gangs.verdicts.disrupted(key, note, now)
        about = reference(RESOURCES[gang.ref.dialect], gang.ref.namespace, gang.ref.name, gang.uid)
        writes.append(_event(about, found, pods, note, now))
    return writes


def _owners(found: Displacement, now: float) -> list[Write]:
    """The Event on each controller that made some of the pods."""
    victims: dict[str, tuple[OwnerReference, list[Pod]]] = {}
    for pod in found.victims:
        if pod.controller is not None:
            victims.setdefault(pod.controller.uid, (pod.controller, []))[1].append(pod)
    return [
        _event(
            {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "namespace": pods[0].namespace,
                "name": owner.name,
                "uid": owner.uid,
            },
            found,
            pods,
            f"{_count(pods)} ({_names(pods)}) {_were(pods)} {found.text}",
            now,
        )
        for owner, pods in victims.values()
    ]


def _quota(state: ClusterState, found: Displacement, now: float) -> list[Write]:
    """The Event of the quota that gives back what it borrowed, and its `lastReclaim`."""
    quota = found.quota
    if quota is None:
        return []
    amounts = taken_amounts(state.ledger, quota, found.victims)
    reclaim = LastReclaim(format_time(now), found.by_quota, found.by, amounts, len(found.victims))
    state.displacements.reclaims[quota.namespace] = reclaim
    state.quota_dirty.add(quota.namespace)
    about = reference(ELASTIC_QUOTAS, quota.namespace, quota.name, quota.uid)
    pods = found.victims
    note = f"{_count(pods)} ({_names(pods)}) with {amounts_text(amounts)} {_were(pods)} {found.text}"
    names = tuple(sorted(pod.name for pod in pods)[:MOST_PODS])
    told = EvictionRecord(found.by, found.by_quota, to_strings(amounts), names, len(pods))
    return [_event(about, found, pods, note, now, told.annotations())]


def taken_amounts(ledger: QuotaLedger, quota: ElasticQuota, pods: Iterable[Pod]) -> dict[str, int]:
    """What pods of a quota request of the resources that it governs."""
    governed, total = relevant(ledger, quota), dict[str, int]()
    for pod in pods:
        add_to(total, charged(pod.requests))
    return {name: value for name, value in total.items() if name in governed}


def _count(pods: Iterable[Pod]) -> str:
    number = len(tuple(pods))
    return "1 pod" if number == 1 else f"{number} pods"


def _were(pods: Iterable[Pod]) -> str:
    return "was" if len(tuple(pods)) == 1 else "were"


def _names(pods: Iterable[Pod]) -> str:
    names = sorted(pod.name for pod in pods)
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _event(
    about: dict[str, str],
    found: Displacement,
    pods: Iterable[Pod],
    note: str,
    now: float,
    annotations: Mapping[str, str] = _NONE,
) -> Create:
    reason = EVENT_PREEMPTED if found.quota is None else EVENT_RECLAIMED
    occurrence = " ".join((about["uid"], *sorted(pod.uid for pod in pods)))
    return warning(about, reason, note, occurrence, now, annotations)
