"""The history of quotas of one UTC day, as a value: sums per hour, quota and resource, and evictions.

All sums are exact integers: an amount in the unit of its resource (CPU in milli) times seconds. The encoded
form is compact JSON, compressed where it is large, in a ConfigMap of the scheduler's namespace
(docs/history.md#the-configmaps).
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from scheduler_core.decoding import decoder
from scheduler_core.errors import ModelError, TooLarge
from scheduler_core.model.names import HISTORY_PREFIX
from scheduler_core.model.resources import parse_resource_list, to_strings
from scheduler_core.model.timestamps import format_time, parse_time

DAY_SECONDS: Final = 86_400
HOUR_SECONDS: Final = 3_600
HOURS: Final = 24
FORMAT: Final = 1
# The keys in the data and the binaryData of a ConfigMap.
TEXT_KEY: Final = "day.json"
BINARY_KEY: Final = "day.json.gz"
# Larger texts are compressed.
PLAIN_BYTES: Final = 16 * 1024
# A ConfigMap has at most 1 MiB; compression makes this of what may be read.
MOST_BYTES: Final = 32 * 1024 * 1024
MOST_EVICTIONS: Final = 500
MOST_PODS: Final = 20


class HourSums(NamedTuple):
    """What one hour added up for one quota and resource.

    `measured` are the seconds for which the quota was observed. `max` sums only the seconds in which a max
    was set; `unlimited` are the seconds without one. All others are amounts times seconds.
    """

    measured: int = 0
    used: int = 0
    borrowed: int = 0
    lent: int = 0
    waiting: int = 0
    min: int = 0
    max: int = 0
    unlimited: int = 0


KINDS: Final = HourSums._fields
_SECONDS: Final = ("measured", "unlimited")
_NONE: Final = HourSums()

# Per kind of HourSums the sums of the hours from 0; hours at the end that are 0 may be left out.
Columns = Mapping[str, Sequence[int]]


class QuotaEviction(msgspec.Struct, frozen=True):
    """What one preemption took from one namespace. `time` is in whole seconds since the epoch.

    `quota` gave back (empty for a preemption by priority), for `by_quota`; `by` is the pod or group that
    took the place. `pods` are the names of the first MOST_PODS of `count` pods.
    """

    time: int
    namespace: str
    quota: str
    by: str
    by_quota: str
    amounts: dict[str, int]
    pods: tuple[str, ...]
    count: int

    @property
    def identity(self) -> tuple[int, str, str, tuple[str, ...]]:
        """Two records that agree in this tell of one preemption."""
        return (self.time, self.namespace, self.by, self.pods)


class QuotaHistoryDay(msgspec.Struct, frozen=True):
    """The history of one UTC day.

    `until` is the time up to which it was counted (seconds since the epoch), `writer` the scheduler that
    wrote it. `quotas` holds the columns by namespace and resource. `left_out` is the number of evictions
    beyond MOST_EVICTIONS.
    """

    day: date
    until: int = 0
    writer: str = ""
    quotas: Mapping[str, Mapping[str, Columns]] = {}
    evictions: tuple[QuotaEviction, ...] = ()
    left_out: int = 0

    def hour(self, namespace: str, resource: str, hour: int) -> HourSums:
        """The sums of one hour (0 to 23); zeros where nothing was measured."""
        columns = self.quotas.get(namespace, {}).get(resource)
        if columns is None:
            return _NONE
        return HourSums(*(_at(columns.get(kind, ()), hour) for kind in KINDS))

    @property
    def start(self) -> int:
        """Midnight, in seconds since the epoch."""
        return start_of(self.day)


def _at(values: Sequence[int], hour: int) -> int:
    return values[hour] if hour < len(values) else 0


def start_of(day: date) -> int:
    """The first second of a UTC day, since the epoch."""
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())


def day_of(second: float) -> date:
    """The UTC day of a time in seconds since the epoch."""
    return datetime.fromtimestamp(second, UTC).date()


def days_between(since: float, until: float) -> list[date]:
    """The UTC days that a period touches, the oldest first."""
    first, last = day_of(since), day_of(max(since, until))
    return [first + timedelta(days=number) for number in range((last - first).days + 1)]


def name_of(day: date) -> str:
    """The name of the ConfigMap of a day."""
    return f"{HISTORY_PREFIX}{day.isoformat()}"


def day_of_name(name: str) -> date | None:
    """The day of a ConfigMap's name, None for other names."""
    try:
        day = date.fromisoformat(name.removeprefix(HISTORY_PREFIX))
    except ValueError:
        return None
    return day if name == name_of(day) else None


# Encoded form


class _EvictionWire(msgspec.Struct, frozen=True, rename="camel"):
    time: str
    namespace: str
    quota: str = ""
    by: str = ""
    by_quota: str = ""
    resources: dict[str, str] = {}
    pods: tuple[str, ...] = ()
    count: int = 0


class _DayWire(msgspec.Struct, frozen=True, rename="camel"):
    version: int
    day: str
    until: int = 0
    writer: str = ""
    quotas: dict[str, dict[str, dict[str, Any]]] = {}
    evictions: tuple[_EvictionWire, ...] = ()
    evictions_left_out: int = 0


class Payload(NamedTuple):
    """What a ConfigMap holds: text in `data`, or compressed text in `binaryData` (base64); the other is
    empty.
    """

    text: str = ""
    binary: str = ""

    def fields(self) -> dict[str, dict[str, str]]:
        """The fields `data` or `binaryData` of the ConfigMap."""
        if self.binary:
            return {"binaryData": {BINARY_KEY: self.binary}}
        return {"data": {TEXT_KEY: self.text}}


def encode_day(day: QuotaHistoryDay) -> Payload:
    """The content of the ConfigMap of a day, exactly."""
    wire = {
        "version": FORMAT,
        "day": day.day.isoformat(),
        "until": day.until,
        "writer": day.writer,
        "quotas": {
            namespace: {name: _trimmed(columns) for name, columns in of_quota.items()}
            for namespace, of_quota in day.quotas.items()
        },
        "evictions": [_eviction_document(eviction) for eviction in day.evictions],
        "evictionsLeftOut": day.left_out,
    }
    text = msgspec.json.encode(wire)
    if len(text) <= PLAIN_BYTES:
        return Payload(text=text.decode())
    # gzip without a time: the same day gives the same bytes.
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    return Payload(binary=b64encode(packer.compress(text) + packer.flush()).decode())


def _trimmed(columns: Columns) -> dict[str, Sequence[int]]:
    found = {}
    for kind, values in columns.items():
        length = len(values)
        while length and not values[length - 1]:
            length -= 1
        if length:
            found[kind] = values[:length]
    return found


def _eviction_document(eviction: QuotaEviction) -> dict[str, Any]:
    return {
        "time": format_time(eviction.time),
        "namespace": eviction.namespace,
        "quota": eviction.quota,
        "by": eviction.by,
        "byQuota": eviction.by_quota,
        "resources": to_strings(eviction.amounts),
        "pods": eviction.pods,
        "count": eviction.count,
    }


def parse_day(payload: Payload, day: date) -> QuotaHistoryDay:
    """The history of a day from the content of its ConfigMap. Fields that are not known are ignored.

    Raises ModelError with the path of what is broken, and TooLarge.
    """
    field, text = _text(payload)
    try:
        wire = decoder(_DayWire).decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        problem, _, path = str(error).partition(" - at `$")
        raise ModelError(f"{field}{path.rstrip('`')}", problem) from None
    if wire.version != FORMAT:
        raise ModelError(f"{field}.version", f"{wire.version} is not known; must be {FORMAT}")
    if wire.day != day.isoformat():
        raise ModelError(f"{field}.day", f"{wire.day!r} must be {day.isoformat()!r}, as the name says")
    first = start_of(day)
    if not (wire.until == 0 or first <= wire.until <= first + DAY_SECONDS):
        raise ModelError(f"{field}.until", f"{wire.until} is not in the day, in seconds since the epoch")
    quotas = {
        namespace: {
            name: _columns(columns, f"{field}.quotas[{namespace}][{name}]")
            for name, columns in of_quota.items()
        }
        for namespace, of_quota in wire.quotas.items()
    }
    if len(wire.evictions) > MOST_EVICTIONS:
        raise ModelError(
            f"{field}.evictions", f"{len(wire.evictions)} are too many (at most {MOST_EVICTIONS})"
        )
    evictions = tuple(
        _eviction(item, first, f"{field}.evictions[{place}]") for place, item in enumerate(wire.evictions)
    )
    left_out = _count(wire.evictions_left_out, f"{field}.evictionsLeftOut")
    return QuotaHistoryDay(day, wire.until, wire.writer, quotas, evictions, left_out)


def _text(payload: Payload) -> tuple[str, str | bytes]:
    """The JSON of a payload, and the field that it is in."""
    if not payload.binary:
        if not payload.text:
            raise ModelError(f"data[{TEXT_KEY}]", "is missing")
        return f"data[{TEXT_KEY}]", payload.text
    field = f"binaryData[{BINARY_KEY}]"
    try:
        unpacker = zlib.decompressobj(31)
        text = unpacker.decompress(b64decode(payload.binary, validate=True), MOST_BYTES + 1)
    except (ValueError, zlib.error) as error:
        raise ModelError(field, f"is not compressed with gzip: {error}") from None
    if len(text) > MOST_BYTES:
        raise TooLarge(field, f"has more than {MOST_BYTES} bytes")
    if not unpacker.eof:
        raise ModelError(field, "is not compressed with gzip: it ends too early")
    return field, text


def _columns(raw: Mapping[str, Any], path: str) -> dict[str, list[int]]:
    found = {}
    for kind in KINDS:
        values = raw.get(kind, [])
        field = f"{path}.{kind}"
        if not isinstance(values, list) or len(values) > HOURS:
            raise ModelError(field, f"must be a list of at most {HOURS} numbers, one per hour")
        for hour, value in enumerate(values):
            _count(value, f"{field}[{hour}]")
            if kind in _SECONDS and value > HOUR_SECONDS:
                raise ModelError(f"{field}[{hour}]", f"{value} is more than the seconds of an hour")
        if values:
            found[kind] = values
    measured, unlimited = found.get("measured", []), found.get("unlimited", [])
    for hour, value in enumerate(unlimited):
        if value > _at(measured, hour):
            raise ModelError(f"{path}.unlimited[{hour}]", f"{value} is more than was measured")
    return found


def _count(value: object, path: str) -> int:
    if type(value) is not int or value < 0:
        raise ModelError(path, f"{value!r} is not a whole number of at least 0")
    return value


def _eviction(wire: _EvictionWire, first: int, path: str) -> QuotaEviction:
    try:
        time = int(parse_time(wire.time))
    except (ValueError, OverflowError):
        raise ModelError(f"{path}.time", f"{wire.time!r} is not a time") from None
    if not first <= time <= first + DAY_SECONDS:
        raise ModelError(f"{path}.time", f"{wire.time!r} is not in the day")
    if len(wire.pods) > max(0, min(wire.count, MOST_PODS)):
        raise ModelError(f"{path}.pods", f"{len(wire.pods)} names are too many for a count of {wire.count}")
    amounts = parse_resource_list(wire.resources, f"{path}.resources")
    return QuotaEviction(
        time, wire.namespace, wire.quota, wire.by, wire.by_quota, amounts, wire.pods, wire.count
    )


def joined_evictions(parts: Iterable[Iterable[QuotaEviction]]) -> list[QuotaEviction]:
    """The evictions of several records without doubles, in the order of their times."""
    found = {eviction.identity: eviction for part in parts for eviction in part}
    return sorted(found.values(), key=lambda eviction: eviction.identity)
