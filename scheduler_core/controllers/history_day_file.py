"""The history of one day as a leader counts it, and what its ConfigMap is known to hold.

Every write carries the whole day, with the resourceVersion that it was computed from. What the ConfigMap
holds decides about a write without an answer: content that this process sent was stored, everything else
was not. So nothing is lost and nothing counts twice (docs/history.md#restarts-and-changes-of-leader).
"""

from __future__ import annotations

from datetime import date
from hashlib import sha256
from typing import Any, Final

from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import ConfigMap
from scheduler_core.model.kinds import CONFIG_MAPS
from scheduler_core.model.names import HISTORY_LABEL, HISTORY_LABEL_VALUE
from scheduler_core.model.quotas.quota_history import (
    MOST_EVICTIONS,
    Payload,
    QuotaEviction,
    QuotaHistoryDay,
    encode_day,
    joined_evictions,
    name_of,
    parse_day,
)
from scheduler_core.model.writes import Create, Replace
from scheduler_core.quota.history_counter import DayColumns, add_columns, full_columns, midnight_after

WRITE_SECONDS: Final = 300.0
# A day that is not stored yet is looked at so often: people who try Muster shall see something soon.
FIRST_SECONDS: Final = 15.0
# A write that the watch has not shown for this time is repeated; the time doubles up to WRITE_SECONDS.
RETRY_SECONDS: Final = 30.0
# What a ConfigMap takes, with room for its metadata.
MOST_STORED: Final = 1_000_000


class HistoryDayFile:
    """One day. `start` is the second from which this process counts in it, `until` up to which it is
    counted for certain, `next_write` when it is written next.

    `touched`: there is something that was not sent yet. `problems` are texts about what was found stored.
    """

    def __init__(self, namespace: str, day: date, start: int, identity: str, now: float) -> None:
        self.namespace = namespace
        self.day = day
        self.start = start
        self.until = start
        self.columns: DayColumns = {}
        self.evictions: list[QuotaEviction] = []
        self.left_out = 0
        self.touched = False
        self.next_write = now
        self.problems: list[str] = []
        self._identity = identity
        # What others wrote: all that is in `columns` beyond it was counted here.
        self._base = QuotaHistoryDay(day)
        self._seen: ConfigMap | None = None
        self._sent: set[bytes] = set()
        self._stored = b""
        self._awaited = b""
        self._sent_at = now
        self._retry = RETRY_SECONDS

    @property
    def settled(self) -> bool:
        """Whether everything is stored for certain."""
        return not (self.touched or self._awaited)

    @property
    def stored(self) -> ConfigMap | None:
        """The ConfigMap as last seen."""
        return self._seen

    # What the watch shows

    def see(self, found: ConfigMap | None, second: int, now: float) -> int | None:
        """Take in the ConfigMap as it is now; `columns` are counted up to `second`.

        Returns the second from which to count anew if another process counted while this one did; what this
        one counted since its start is then given up. None if counting goes on.
        """
        if found is self._seen:
            return None
        before, self._seen = self._seen, found
        if found is None:
            self._lost(now)
            return None
        digest = _digest(found.content)
        if digest in self._sent:
            self._confirmed(digest)
            return None
        if before is not None and digest == self._stored:
            # Somebody changed a label.
            return None
        self._stored = digest
        self._lost(now)
        try:
            day = parse_day(found.content, self.day)
        except ModelError as error:
            self.problems.append(f"{error}; it is written anew")
            return None
        if day.writer == self._identity and self._sent:
            self.problems.append("it was changed by somebody else; it is written anew")
            return None
        return self._take_over(day, second)

    def _lost(self, now: float) -> None:
        """What is to be stored is not."""
        self._awaited = b""
        self.touched = True
        self.next_write = now

    def _confirmed(self, digest: bytes) -> None:
        if digest == self._awaited:
            self._awaited = b""
            self._sent = {digest}
            self._retry = RETRY_SECONDS
            self.next_write = self._sent_at + WRITE_SECONDS
        self._stored = digest

    def _take_over(self, day: QuotaHistoryDay, second: int) -> int | None:
        """Go on from what another scheduler wrote."""
        self._add_evictions(day)
        if day.until <= self.start:
            add_columns(self.columns, self._base.quotas, -1)
            add_columns(self.columns, day.quotas)
            self._base = day
            return None
        # It counted while this process did, or has what this process wrote.
        self.columns = full_columns(day.quotas)
        self._base = day
        self.start = self.until = max(second, day.until)
        return self.start

    def _add_evictions(self, day: QuotaHistoryDay) -> None:
        together = joined_evictions((day.evictions, self.evictions))
        self.evictions = together[:MOST_EVICTIONS]
        self.left_out = max(self.left_out, day.left_out) + len(together) - len(self.evictions)

    def reach(self, second: int) -> None:
        """Everything is counted up to a second; seconds outside of the day count as its ends."""
        self.until = max(self.until, min(second, midnight_after(self.day)))

    def note(self, eviction: QuotaEviction) -> None:
        """Record an eviction."""
        if len(self.evictions) < MOST_EVICTIONS:
            self.evictions.append(eviction)
        else:
            self.left_out += 1
        self.touched = True

    # Writes

    def write(self, at: int, now: float) -> Create | Replace | None:
        """The write that stores the day as counted up to `at`, None for a day that is too large for it."""
        self.reach(at)
        day = QuotaHistoryDay(
            self.day, self.until, self._identity, self.columns, tuple(self.evictions), self.left_out
        )
        payload = encode_day(day)
        self.touched = False
        self.next_write = now + WRITE_SECONDS
        if len(payload.text) + len(payload.binary) > MOST_STORED:
            self.problems.append(f"the day has more than {MOST_STORED} bytes and is not stored")
            return None
        self._awaited = _digest(payload)
        self._sent.add(self._awaited)
        self._sent_at = now
        self.next_write = now + self._retry
        return self._carrier(payload)

    def tick(self, now: float) -> bool:
        """Whether a write is due now; call it when `next_write` has come."""
        if self._awaited:
            self._retry = min(2 * self._retry, WRITE_SECONDS)
            self._awaited = b""
            self.touched = True
        self.next_write = now + (WRITE_SECONDS if self._seen is not None else FIRST_SECONDS)
        return self.touched

    def _carrier(self, payload: Payload) -> Create | Replace:
        seen, name = self._seen, name_of(self.day)
        metadata: dict[str, Any] = {"name": name, "labels": {HISTORY_LABEL: HISTORY_LABEL_VALUE}}
        body = {"apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind, "metadata": metadata}
        body |= payload.fields()
        if seen is None:
            return Create(CONFIG_MAPS, self.namespace, body)
        metadata["resourceVersion"] = seen.resource_version
        return Replace(CONFIG_MAPS, self.namespace, name, body)


def _digest(payload: Payload) -> bytes:
    return sha256("\0".join(payload).encode()).digest()
