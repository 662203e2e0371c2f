"""URL paths, backoff and rate limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.backoff import Backoff
from scheduler_core.kube.paths import resource_path, with_query
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.timestamps import micro_timestamp, timestamp
from scheduler_core.model.kinds import ELASTIC_QUOTAS, NODES, PODS

PATHS = [
    ("all pods", resource_path(PODS), "/api/v1/pods"),
    ("pods of a namespace", resource_path(PODS, "a"), "/api/v1/namespaces/a/pods"),
    ("a subresource", resource_path(PODS, "a", "p", "status"), "/api/v1/namespaces/a/pods/p/status"),
    ("a node, whatever the namespace", resource_path(NODES, "a", "n"), "/api/v1/nodes/n"),
    ("a group", resource_path(ELASTIC_QUOTAS), "/apis/scheduling.x-k8s.io/v1alpha1/elasticquotas"),
    ("a hostile name stays one segment", resource_path(NODES, "", "../x?y"), "/api/v1/nodes/..%2Fx%3Fy"),
    ("a query without the unset", with_query("/x", {"a": "", "b": None, "c": True, "d": 5}), "/x?c=true&d=5"),
    ("a query is escaped", with_query("/x", {"labelSelector": "a=b,c"}), "/x?labelSelector=a%3Db%2Cc"),
    ("no query at all", with_query("/x", {"watch": False}), "/x"),
]


@pytest.mark.parametrize(("made", "path"), [p[1:] for p in PATHS], ids=[p[0] for p in PATHS])
def test_paths(made: str, path: str) -> None:
    assert made == path


def test_a_namespaced_object_without_namespace_has_no_path() -> None:
    with pytest.raises(ValueError, match="Pod p: a namespaced object needs a namespace"):
        resource_path(PODS, "", "p")


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20))
def test_delays_double_and_stay_between_half_the_promise_and_the_cap(dice: list[float]) -> None:
    rolls = iter(dice)
    backoff = Backoff(0.8, 30.0, lambda: next(rolls))
    for number in range(len(dice)):
        base = min(0.8 * 2**number, 15.0)
        assert base <= backoff.next() <= 2 * base <= 30.0


def test_a_backoff_respects_what_the_server_asks_and_starts_again_after_a_reset() -> None:
    backoff = Backoff(1.0, 30.0, lambda: 0.5)
    assert backoff.next(at_least=10.0) == pytest.approx(10.5)
    assert backoff.next() == 3.0
    backoff.reset()
    assert backoff.next(at_least=0.1) == 1.5


@given(st.lists(st.floats(0, 2), max_size=60), st.floats(0.5, 20), st.integers(1, 10))
def test_a_limiter_never_lets_more_through_than_burst_plus_rate(
    gaps: list[float], qps: float, burst: int
) -> None:
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    limiter = RateLimiter(qps, burst, monotonic=lambda: clock[0], sleep=sleep)
    taken = []
    for gap in gaps:
        clock[0] += gap
        limiter.wait()
        taken.append(clock[0])
    for first, began in enumerate(taken):
        for last in range(first, len(taken)):
            assert last - first + 1 <= burst + (taken[last] - began) * qps + 1e-6


def test_take_does_not_wait() -> None:
    clock = [0.0]
    limiter = RateLimiter(1.0, 1, monotonic=lambda: clock[0])
    assert [limiter.take(), limiter.take()] == [True, False]
    clock[0] = 1.0
    assert limiter.take()


@pytest.mark.parametrize(("burst", "patient"), [(1, 1), (2, 1), (10, 5), (100, 50)])
def test_who_yields_leaves_half_of_a_burst_and_gets_on_all_the_same(burst: int, patient: int) -> None:
    clock = [0.0]
    limiter = RateLimiter(2.0, burst, monotonic=lambda: clock[0])
    assert sum(limiter.take(spare=limiter.half) for _ in range(200)) == patient
    assert sum(limiter.take() for _ in range(200)) == burst - patient
    clock[0] = limiter.delay(spare=limiter.half)
    assert clock[0] <= burst / 2.0
    assert limiter.take(spare=limiter.half)


def test_what_others_did_is_waited_for_and_no_longer_than_for_two_bursts() -> None:
    clock = [0.0]
    limiter = RateLimiter(10.0, 20, monotonic=lambda: clock[0])
    limiter.spend(15.0)
    assert sum(limiter.take() for _ in range(20)) == 5
    limiter.spend(10.0)
    assert limiter.delay() == pytest.approx(1.1)
    limiter.spend(1e9)
    assert limiter.delay() == pytest.approx(2.1)
    clock[0] = 3.0
    assert sum(limiter.take() for _ in range(20)) == 10


def test_a_limiter_that_lets_nothing_through_is_refused() -> None:
    with pytest.raises(ValueError, match="qps=0 must be positive"):
        RateLimiter(0, 1)


def test_timestamps() -> None:
    assert timestamp(1_767_225_600.9) == "2026-01-01T00:00:00Z"
    assert micro_timestamp(1_767_225_600.25) == "2026-01-01T00:00:00.250000Z"
