"""What the ConfigMap of a day may hold: whoever can write it must not be able to make up a history."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from datetime import date
from typing import Any

import pytest

from scheduler_core.errors import ModelError, TooLarge
from scheduler_core.model.quotas.quota_history import (
    MOST_BYTES,
    PLAIN_BYTES,
    Payload,
    QuotaEviction,
    QuotaHistoryDay,
    encode_day,
    parse_day,
    start_of,
)

DAY = date(2026, 3, 1)
GPU = "nvidia.com/gpu"
EVICTION = {"time": "2026-03-01T12:00:00Z", "namespace": "a", "pods": ["p"], "count": 1}


def text(**changes: Any) -> Payload:
    """A good day, with other values in some fields."""
    return Payload(text=json.dumps({"version": 1, "day": "2026-03-01", **changes}))


def packed(content: bytes) -> str:
    """Base64 of the content, compressed."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return b64encode(packer.compress(content) + packer.flush()).decode()


BROKEN = [
    pytest.param(Payload(), "data[day.json]: is missing", id="empty"),
    pytest.param(Payload(text="{"), "data[day.json]", id="cut off"),
    pytest.param(text(version=2), ".version: 2 is not known; must be 1", id="version"),
    pytest.param(text(day="2026-03-02"), ".day: '2026-03-02' must be '2026-03-01'", id="another day"),
    pytest.param(text(until=start_of(DAY) - 1), ".until", id="until before the day"),
    pytest.param(text(until=start_of(DAY) + 86_401), ".until", id="until after the day"),
    pytest.param(text(quotas={"a": {GPU: {"used": 1}}}), "[a][nvidia.com/gpu].used", id="no list"),
    pytest.param(text(quotas={"a": {GPU: {"used": [0] * 25}}}), ".used: must be a list", id="25 hours"),
    pytest.param(text(quotas={"a": {GPU: {"used": [-1]}}}), ".used[0]: -1 is not a whole", id="negative"),
    pytest.param(text(quotas={"a": {GPU: {"used": [True]}}}), ".used[0]: True is not a whole", id="bool"),
    pytest.param(text(quotas={"a": {GPU: {"measured": [3601]}}}), ".measured[0]: 3601", id="a long hour"),
    pytest.param(
        text(quotas={"a": {GPU: {"measured": [5], "unlimited": [6]}}}), ".unlimited[0]: 6", id="unlimited"
    ),
    pytest.param(text(evictions=[EVICTION] * 501), ".evictions: 501 are too many", id="evictions"),
    pytest.param(text(evictions=[{**EVICTION, "time": "noon"}]), "[0].time: 'noon' is not a time", id="time"),
    pytest.param(
        text(evictions=[{**EVICTION, "time": "2026-02-28T23:59:59Z"}]), "is not in the day", id="day before"
    ),
    pytest.param(
        text(evictions=[{**EVICTION, "time": "2026-03-02T00:00:01Z"}]), "is not in the day", id="day after"
    ),
    pytest.param(text(evictions=[{**EVICTION, "count": 0}]), "[0].pods: 1 names are too many", id="count"),
    pytest.param(
        text(evictions=[{**EVICTION, "resources": {GPU: "ten"}}]), "[0].resources", id="no quantity"
    ),
    pytest.param(text(evictionsLeftOut=-1), ".evictionsLeftOut: -1", id="left out"),
    pytest.param(Payload(binary="%%%"), "binaryData[day.json.gz]: is not compressed", id="no base64"),
    pytest.param(Payload(binary=b64encode(b"plain").decode()), "is not compressed", id="no gzip"),
    pytest.param(Payload(binary=packed(b"{}" * 99)[:24]), "it ends too early", id="cut off gzip"),
]


@pytest.mark.parametrize(("payload", "problem"), BROKEN)
def test_what_is_broken_is_named(payload: Payload, problem: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_day(payload, DAY)
    assert problem in str(caught.value)


def test_a_few_bytes_that_stand_for_many_are_refused() -> None:
    with pytest.raises(TooLarge, match=f"has more than {MOST_BYTES} bytes"):
        parse_day(Payload(binary=packed(b" " * (MOST_BYTES + 1))), DAY)


@pytest.mark.parametrize("namespaces", [1, 200])
def test_a_day_comes_back_exactly(namespaces: int) -> None:
    """Also sums beyond 64 bits, and evictions at both ends of the day."""
    columns = {"measured": [3600] * 24, "used": [10**21 + hour for hour in range(24)]}
    evictions = tuple(
        QuotaEviction(time, "a", "a/quota", "Pod b/p", "b/quota", {GPU: 2}, ("p",), 3)
        for time in (start_of(DAY), start_of(DAY) + 86_399)
    )
    names = [f"team-{number}" for number in range(namespaces)]
    written = QuotaHistoryDay(
        DAY, start_of(DAY) + 9, "me", {name: {GPU: columns} for name in names}, evictions, 4
    )
    payload = encode_day(written)
    assert bool(payload.binary) == (namespaces > 1) == (len(payload.text) == 0)
    assert len(payload.text) <= PLAIN_BYTES
    assert parse_day(payload, DAY) == written
