"""How often the scheduler tried a pod, as its Events tell."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kubectl_plugin.cluster.reading import ListClient, ListScope, list_or_none
from scheduler_core.decoding import decode
from scheduler_core.model.kinds import EVENTS
from scheduler_core.model.names import EVENT_FAILED_SCHEDULING, REASON_UNSCHEDULABLE

_REASONS = (EVENT_FAILED_SCHEDULING, REASON_UNSCHEDULABLE)


class _Series(msgspec.Struct, frozen=True):
    count: int = 0


class _Event(msgspec.Struct, frozen=True, rename="camel"):
    reason: str = ""
    series: _Series | None = None
    deprecated_count: int | None = None


def failed_attempts(client: ListClient, namespace: str, pods: Sequence[str]) -> int | None:
    """The number of failed attempts of the first pod that Events tell; None if they may not be listed.

    Events end after an hour, so that this is the least number.
    """
    if not pods:
        return 0
    fields = f"regarding.kind=Pod,regarding.name={pods[0].partition('/')[2]}"
    found = list_or_none(client, EVENTS, ListScope(namespace, fields=fields))
    if found is None:
        return None
    events = [decode(raw, _Event) for raw in found]
    return sum(_count(event) for event in events if event.reason in _REASONS)


def _count(event: _Event) -> int:
    if event.series is not None:
        return max(event.series.count, 1)
    return max(event.deprecated_count or 1, 1)
