"""Tells what was taken from whom, for whom and when: from Events, from quotas, and as the scheduler noted it.

One preemption is told several times: in an Event of each evicted pod, of the quota that gives back, of groups
and owners, and in the status of the quota. Here each preemption is one record per namespace that lost by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model import older_texts
from scheduler_core.model.eviction_record import eviction_record
from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.meta import ApiObject, Raw, decode
from scheduler_core.model.names import EVENT_PREEMPTED, EVENT_RECLAIMED, EVICTION_ANNOTATION
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_history import QuotaEviction
from scheduler_core.model.resources import ResourceList, parse_resource_list
from scheduler_core.model.timestamps import epoch, parse_time

# The Events of one preemption are written within this time of each other.
SAME_SECONDS: Final = 60.0
# The status and the Event of a quota are of one moment, in whole seconds.
SAME_MOMENT_SECONDS: Final = 2.0
# How long after its creation an Event may have happened again, and a time that can still be written.
LONGEST_SERIES_SECONDS: Final = 30 * 86_400.0
LATEST: Final = 253_402_300_799.0
# Records that agree in who lost, to whom and for which quota, of which as many are compared in each minute:
# anybody who may write Events can make thousands.
MOST_ALIKE: Final = 32


class Reclaim(msgspec.Struct, frozen=True):
    """What one preemption took from one namespace. `time` is in seconds since the epoch.

    `kind` is `reclaim` where a quota took its min or its share back, else `preemption`. `quota` gave back
    (empty for a preemption), for `by_quota`; `by` is the pod or group that took the place. `amounts` are
    known for reclaims. `pods` are the names that are known, of `count` pods.
    """

    time: float
    kind: str
    namespace: str
    quota: str
    by_quota: str
    by: str
    amounts: ResourceList
    pods: tuple[str, ...]
    count: int


class _Reference(msgspec.Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""


class _Series(msgspec.Struct, frozen=True, rename="camel"):
    last_observed_time: datetime | None = None


class EventWire(ApiObject, frozen=True, rename="camel"):
    """An Event of events.k8s.io as far as the history reads it."""

    reason: str = ""
    note: str = ""
    regarding: _Reference = _Reference()
    event_time: datetime | None = None
    series: _Series | None = None
    deprecated_last_timestamp: datetime | None = None

    @property
    def time(self) -> float:
        """When it last happened, in seconds since the epoch. Raises ModelError.

        What its writer says of a distant future is not believed: then it is the time of its creation.
        """
        last = self.series.last_observed_time if self.series is not None else None
        created = self.metadata.created
        told = epoch(last or self.event_time or self.deprecated_last_timestamp) or created
        return told if told <= (created or told) + LONGEST_SERIES_SECONDS and told < LATEST else created


def record_of_event(raw: Raw) -> Reclaim | None:
    """The record of an Event of a pod or a quota; None for other Events. Raises ModelError."""
    event = decode(raw, EventWire, EVENTS.kind)
    told = eviction_record(event.metadata.annotations) or older_texts.eviction(event.note)
    if told is None:
        return None
    about = event.regarding
    if event.reason == EVENT_PREEMPTED and about.kind == "Pod":
        kind = "reclaim" if told.by_quota else "preemption"
        return Reclaim(event.time, kind, about.namespace, "", told.by_quota, told.by, {}, (about.name,), 1)
    if event.reason != EVENT_RECLAIMED or not told.count:
        return None
    return Reclaim(
        event.time,
        "reclaim",
        about.namespace,
        f"{about.namespace}/{about.name}",
        told.by_quota,
        told.by,
        _amounts(told.resources),
        tuple(sorted(told.pods)),
        told.count,
    )


def _amounts(told: dict[str, str]) -> ResourceList:
    try:
        return parse_resource_list(told, EVICTION_ANNOTATION)
    except ModelError:
        return {}


def record_of_status(quota: ElasticQuota) -> Reclaim | None:
    """The record of `status.lastReclaim`; None without one, or if its time cannot be read."""
    last = quota.last_reclaim
    if last is None:
        return None
    try:
        time = parse_time(last.time)
    except ValueError:
        return None
    return Reclaim(
        time, "reclaim", quota.namespace, quota.key, last.by_quota, last.by, last.amounts, (), last.pods
    )


def record_of_eviction(eviction: QuotaEviction) -> Reclaim:
    """The record of what the scheduler noted itself."""
    return Reclaim(
        eviction.time,
        "reclaim" if eviction.by_quota else "preemption",
        eviction.namespace,
        eviction.quota,
        eviction.by_quota,
        eviction.by,
        eviction.amounts,
        eviction.pods,
        eviction.count,
    )


def merged(records: Iterable[Reclaim]) -> list[Reclaim]:
    """The records without doubles, the newest last."""
    # By who lost, to whom, for which quota, and in which minute: only records that agree in the first three,
    # and are about a minute apart, tell of one preemption.
    kept: dict[tuple[str, str, str, int], list[int]] = {}
    found: list[Reclaim] = []
    # Records of quotas come first: they have the amounts, and those of pods complete their names.
    for record in sorted(records, key=lambda record: (not record.quota, not record.pods, record.time)):
        names, minute = (record.namespace, record.by, record.by_quota), int(record.time // SAME_SECONDS)
        # A record may have got the time of another one, so those of two minutes each way are alike.
        near = (kept.get((*names, minute + apart), ()) for apart in range(-2, 3))
        alike = [place for places in near for place in places[:MOST_ALIKE] if _same(found[place], record)]
        if alike:
            found[min(alike)] = _joined(found[min(alike)], record)
        else:
            kept.setdefault((*names, minute), []).append(len(found))
            found.append(record)
    return sorted(found, key=lambda record: (record.time, record.namespace, record.by, record.pods))


def _same(one: Reclaim, other: Reclaim) -> bool:
    """Whether two records of one loser, taker and quota tell of one preemption."""
    apart = abs(one.time - other.time)
    if one.quota and other.quota:
        return apart <= SAME_MOMENT_SECONDS and one.count == other.count
    if one.quota and len(one.pods) >= one.count:
        return apart <= SAME_SECONDS and set(other.pods) <= set(one.pods)
    return apart <= SAME_SECONDS


def _joined(one: Reclaim, other: Reclaim) -> Reclaim:
    pods = tuple(sorted({*one.pods, *other.pods}))
    return msgspec.structs.replace(
        one,
        time=one.time if one.quota else min(one.time, other.time),
        amounts=one.amounts or other.amounts,
        pods=pods,
        count=max(one.count, other.count, len(pods)),
    )
