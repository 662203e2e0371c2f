"""Sources of the history of reclaims: Events, and the status of ElasticQuotas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.reading import ListClient, ListScope, list_or_none, list_raw, parsed
from scheduler_core.answers.history import (
    Reclaim,
    merged,
    record_of_event,
    record_of_eviction,
    record_of_status,
)
from scheduler_core.model.kinds import ELASTIC_QUOTAS, EVENTS
from scheduler_core.model.names import EVENT_PREEMPTED, EVENT_RECLAIMED
from scheduler_core.model.quotas.elastic_quota import parse_elastic_quota
from scheduler_core.model.quotas.quota_history import QuotaHistoryDay

UNREAD_EVENTS: Final = (
    "note: you may not list events: only the last reclaim of each quota is shown, without its pods"
)


class HistorySource(Protocol):
    """Where records come from."""

    def records(self, namespace: str) -> Iterator[Reclaim]:
        """The records of a namespace that lost something (all if empty). Raises the ApiError tree."""


class EventHistory:
    """Events that preemptions left behind. API servers delete Events, after an hour by default."""

    def __init__(self, client: ListClient, diagnostics: Diagnostics) -> None:
        self._client = client
        self._diagnostics = diagnostics

    def records(self, namespace: str) -> Iterator[Reclaim]:
        for reason in (EVENT_PREEMPTED, EVENT_RECLAIMED):
            scope = ListScope(namespace, fields=f"reason={reason}")
            items = list_or_none(self._client, EVENTS, scope)
            if items is None:
                self._diagnostics.note(UNREAD_EVENTS)
                return
            yield from _records(items, record_of_event, self._diagnostics)


class StatusHistory:
    """`status.lastReclaim` of ElasticQuotas: one reclaim per quota, which stays until the next."""

    def __init__(self, client: ListClient, diagnostics: Diagnostics) -> None:
        self._client = client
        self._diagnostics = diagnostics

    def records(self, namespace: str) -> Iterator[Reclaim]:
        items = list_raw(self._client, ELASTIC_QUOTAS, ListScope(namespace))
        for quota in parsed(items, parse_elastic_quota, self._diagnostics.unreadable):
            record = record_of_status(quota)
            if record is not None:
                yield record


class LeaderHistory:
    """What the scheduler recorded itself, day by day (docs/history.md)."""

    def __init__(self, days: Sequence[QuotaHistoryDay]) -> None:
        self._days = days

    def records(self, namespace: str) -> Iterator[Reclaim]:
        for day in self._days:
            for item in day.evictions:
                if namespace in ("", item.namespace):
                    yield record_of_eviction(item)


def _records(
    items: Sequence[msgspec.Raw],
    read: Callable[[msgspec.Raw | bytes], Reclaim | None],
    diagnostics: Diagnostics,
) -> Iterator[Reclaim]:
    return (record for record in parsed(items, read, diagnostics.unreadable) if record is not None)


def history_of(sources: Sequence[HistorySource], namespace: str, since: float) -> list[Reclaim]:
    """The records of all sources without doubles, from `since` on (seconds since the epoch), newest last."""
    found = merged(record for source in sources for record in source.records(namespace))
    return [record for record in found if record.time >= since]
