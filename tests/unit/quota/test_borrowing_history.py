"""The history of borrowing: the worked example, and that a restart loses nothing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.model.quotas.elastic_quota import ElasticQuota, PastBorrowing, parse_elastic_quota
from scheduler_core.quota.borrowing_history import BorrowingHistory
from scheduler_core.quota.fair_order import FairOrder
from scheduler_core.quota.ledger import QuotaLedger
from tests.support.builders import make_quota

GPU = "nvidia.com/gpu"
HOUR = 3600.0
NOON = "2026-01-01T12:00:00Z"
DAY = 24 * HOUR


def ledger_of(*quotas: ElasticQuota) -> QuotaLedger:
    ledger = QuotaLedger()
    for quota in (*quotas, make_quota("idle/q").min(gpu=12).obj()):
        ledger.put_quota(quota)
    return ledger


def quotas(*names: str) -> list[ElasticQuota]:
    return [make_quota(f"{name}/q").obj() for name in names]


def test_the_order_turns_when_the_histories_cross() -> None:
    """Half-life 24 h: a borrows 6 of 12 for 24 h and stops, b borrows 6 from then on."""
    ledger = ledger_of(*quotas("a", "b"))
    history = BorrowingHistory(ledger, DAY)
    order = FairOrder(ledger, history.steps)
    ledger.charge("a", "job", {GPU: 6})
    history.advance(0.0)
    ledger.refund("a", "job")
    ledger.charge("b", "job", {GPU: 6})
    history.advance(DAY)
    assert history.value("a", DAY) == pytest.approx(0.25)
    assert history.value("b", DAY) == 0
    places = []
    for hours in (0, 13.9, 14.2):
        history.advance(DAY + hours * HOUR)
        places.append(order.place("a", {GPU: 1}) < order.place("b", {GPU: 1}))
    assert places == [False, False, True]


def test_use_within_min_is_nobodys_favour() -> None:
    ledger = ledger_of(make_quota("a/q").min(gpu=6).obj())
    history = BorrowingHistory(ledger, DAY)
    ledger.charge("a", "job", {GPU: 6})
    history.advance(0.0)
    assert history.value("a", 100 * DAY) == 0


@given(
    uses=st.lists(st.tuples(st.integers(0, 12), st.floats(1.0, 3 * DAY)), min_size=1, max_size=8),
    restart=st.integers(0, 7),
)
def test_a_restart_loses_nothing(uses: list[tuple[int, float]], restart: int) -> None:
    """One scheduler sees all; the other one is replaced in the middle, and has only what the status says."""
    ledger = ledger_of(*quotas("a"))
    one, other, now = BorrowingHistory(ledger, DAY), BorrowingHistory(ledger, DAY), 1e9
    for number, (gpus, seconds) in enumerate(uses):
        ledger.charge("a", f"{number}", {GPU: gpus})
        for history in (one, other):
            history.advance(now)
        if number == restart:
            past = other.past("a")
            assert past is not None
            told = PastBorrowing(other.value("a", now), now, past.share).document()
            raw = {"metadata": {"namespace": "a", "name": "q"}, "spec": {}, "status": {"history": told}}
            ledger.put_quota(parse_elastic_quota(raw))
            other = BorrowingHistory(ledger, DAY)
        now += seconds
        for history in (one, other):
            history.advance(now)
        ledger.refund("a", f"{number}")
    assert other.value("a", now) == pytest.approx(one.value("a", now), abs=2e-6)
    assert abs(other.steps("a") - one.steps("a")) <= 1


@pytest.mark.parametrize(
    ("value", "share", "time"),
    [("x", "0", NOON), ("1", "-1", NOON), ("1", "1", "soon"), ("nan", "1", NOON), ("", "", "")],
)
def test_a_history_that_cannot_be_read_counts_as_none(value: str, share: str, time: str) -> None:
    told = {"value": value, "share": share, "time": time}
    raw = {"metadata": {"namespace": "a", "name": "q"}, "spec": {}, "status": {"history": told}}
    assert parse_elastic_quota(raw).history is None


def test_a_quota_that_is_gone_has_no_history() -> None:
    ledger = ledger_of(*quotas("a"))
    history = BorrowingHistory(ledger, DAY)
    ledger.charge("a", "job", {GPU: 6})
    history.advance(0.0)
    ledger.remove_quota("a", "q")
    history.advance(DAY)
    assert history.past("a") is None
    quota = msgspec.structs.replace(quotas("a")[0], uid="new")
    ledger.put_quota(quota)
    history.advance(DAY)
    assert history.value("a", DAY) == 0
