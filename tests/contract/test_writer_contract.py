"""Many writes at once against a scripted server: every one ends once, whatever the server does."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import AlreadyExists, Forbidden, TooManyRequests, Unreachable
from scheduler_core.kube.rate import RateLimiter
from scheduler_core.kube.writes.write_connection import WritePriority
from scheduler_core.kube.writes.writer import ApiWriter
from tests.support.bulk_writes import Outcomes, create
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault


@pytest.fixture
def outcomes() -> Outcomes:
    return Outcomes()


@pytest.fixture
def writer(client: Client) -> Iterator[ApiWriter]:
    made = ApiWriter(client, connections=4)
    made.start()
    yield made
    made.stop(30)
    assert not made.alive


def test_every_write_is_sent_once_and_ends_once(
    server: FaultServer, writer: ApiWriter, outcomes: Outcomes
) -> None:
    for number in range(200):
        outcomes.submit(writer, f"p{number}", urgent=number % 2 == 0)
    outcomes.await_all(200)
    assert {len(found) for found in outcomes.by_name.values()} == {1}
    assert all(outcomes.of(name) is None for name in outcomes.by_name)
    assert (server.count("POST"), len(server.objects)) == (200, 200)
    assert server.connections <= 4


@pytest.fixture
def narrow(client: Client) -> Iterator[ApiWriter]:
    """A writer of one connection that has not been started, so that what is submitted goes out together."""
    made = ApiWriter(client, connections=1)
    yield made
    made.stop(30)


def test_a_connection_carries_one_write_at_a_time(
    server: FaultServer, narrow: ApiWriter, outcomes: Outcomes
) -> None:
    server.fail(Fault("POST", status=403, reason="Forbidden"))
    server.fail(Fault("POST", lose=True))
    for number in range(8):
        outcomes.submit(narrow, f"p{number}")
    narrow.start()
    outcomes.await_all(8)
    assert isinstance(outcomes.of("p0"), Forbidden)
    lost = outcomes.of("p1")
    assert isinstance(lost, Unreachable)
    assert lost.maybe_accepted
    # Nobody waited behind the write that was lost, so nobody else's was.
    assert [outcomes.of(f"p{number}") for number in range(2, 8)] == [None] * 6
    assert server.count("POST") == 8


def test_a_write_that_the_server_delays_does_not_delay_others(
    server: FaultServer, narrow: ApiWriter, outcomes: Outcomes
) -> None:
    server.fail(Fault("POST", status=429, retry_after=1))
    for number in range(4):
        outcomes.submit(narrow, f"p{number}")
    narrow.start()
    outcomes.await_all(4)
    assert {outcomes.of(name) for name in outcomes.by_name} == {None}
    assert server.count("POST") == 5


def test_every_write_ends_once_and_a_success_is_true_under_any_fault(
    server: FaultServer, writer: ApiWriter, outcomes: Outcomes
) -> None:
    for fault in range(12):
        server.fail(Fault("POST", lose=True) if fault % 3 else Fault("POST", status=500))
    for number in range(300):
        outcomes.submit(writer, f"p{number}", urgent=number % 3 > 0)
    outcomes.await_all(300)
    assert {len(found) for found in outcomes.by_name.values()} == {1}
    there = {name for _, _, name in server.objects}
    assert {name for name in outcomes.by_name if outcomes.of(name) is None} <= there
    assert server.count("POST") <= 300
    eventually(lambda: writer.pending == 0, 20)


def test_a_refusal_is_told_with_its_type(server: FaultServer, writer: ApiWriter, outcomes: Outcomes) -> None:
    server.fail(Fault("POST", status=403, reason="Forbidden"))
    outcomes.submit(writer, "refused")
    outcomes.await_all(1)
    outcomes.submit(writer, "twice")
    outcomes.await_all(2)
    outcomes.submit(writer, "again", create("twice"))
    outcomes.await_all(3)
    assert isinstance(outcomes.of("refused"), Forbidden)
    assert outcomes.of("twice") is None
    assert isinstance(outcomes.of("again"), AlreadyExists)


def test_a_lost_answer_is_told_as_maybe_accepted_and_not_repeated(
    server: FaultServer, writer: ApiWriter, outcomes: Outcomes
) -> None:
    server.fail(Fault("POST", lose=True))
    outcomes.submit(writer, "lost")
    outcomes.await_all(1)
    found = outcomes.of("lost")
    assert isinstance(found, Unreachable)
    assert found.sent
    assert found.maybe_accepted
    assert server.count("POST") == 1


def test_a_write_answered_with_retry_after_is_repeated_after_that_time(
    server: FaultServer, client: Client, outcomes: Outcomes, slept: list[float]
) -> None:
    writer = ApiWriter(client, monotonic=lambda: 0.0)
    writer.start()
    server.fail(Fault("POST", times=2, status=429, retry_after=1))
    outcomes.submit(writer, "later")
    outcomes.await_all(1)
    writer.stop(2)
    assert outcomes.of("later") is None
    # Once by the writer, and once by the client that repeats for it.
    assert (server.count("POST"), slept) == (3, [1.0, 1.0])


def test_a_write_that_the_server_delays_for_too_long_is_reported(
    server: FaultServer, writer: ApiWriter, outcomes: Outcomes, slept: list[float]
) -> None:
    server.fail(Fault("POST", status=429, reason="TooManyRequests", retry_after=3600))
    outcomes.submit(writer, "much-later")
    outcomes.await_all(1)
    assert isinstance(outcomes.of("much-later"), TooManyRequests)
    assert (server.count("POST"), slept) == (1, [])


def test_a_server_that_is_gone_is_told_and_one_that_is_back_is_used(
    server: FaultServer, writer: ApiWriter, outcomes: Outcomes
) -> None:
    outcomes.submit(writer, "before")
    outcomes.await_all(1)
    server.kill()
    outcomes.submit(writer, "during")
    outcomes.await_all(2)
    server.start()
    outcomes.submit(writer, "after")
    outcomes.await_all(3)
    assert outcomes.of("before") is None
    assert isinstance(outcomes.of("during"), Unreachable)
    assert outcomes.of("after") is None


def test_urgent_writes_wait_for_leadership_and_others_do_not(
    server: FaultServer, client: Client, outcomes: Outcomes
) -> None:
    leads = threading.Event()
    writer = ApiWriter(client, may_write=leads.is_set)
    writer.start()
    outcomes.submit(writer, "binding")
    outcomes.submit(writer, "event", urgent=False)
    outcomes.await_all(1)
    assert set(outcomes.by_name) == {"event"}
    leads.set()
    outcomes.await_all(2)
    leads.clear()
    outcomes.submit(writer, "too late")
    assert writer.drop_unsent() == 1
    writer.stop(2)
    assert set(outcomes.by_name) == {"event", "binding"}


def test_the_rate_of_urgent_writes_leaves_the_others_alone(
    server: FaultServer, client: Client, outcomes: Outcomes
) -> None:
    writer = ApiWriter(client, limiters=(RateLimiter(0.001, 2), RateLimiter(1000, 1000)))
    writer.start()
    for number in range(5):
        outcomes.submit(writer, f"binding-{number}")
        outcomes.submit(writer, f"event-{number}", urgent=False)
    outcomes.await_all(7)
    assert writer.backlog == 3
    assert sum(name.startswith("event") for name in outcomes.by_name) == 5
    assert writer.drop_unsent() == 3
    writer.stop(2)


def test_bindings_go_before_conditions_and_conditions_before_events(
    server: FaultServer, narrow: ApiWriter, outcomes: Outcomes
) -> None:
    for number in range(5):
        for priority in reversed(WritePriority):
            outcomes.submit(narrow, f"{priority.name.lower()}-{number}", priority=priority)
    narrow.start()
    outcomes.await_all(15)
    ranks = [name.partition("-")[0] for name in outcomes.by_name]
    assert ranks == ["urgent"] * 5 + ["condition"] * 5 + ["event"] * 5


def test_conditions_leave_half_of_a_burst_to_bindings(
    server: FaultServer, client: Client, outcomes: Outcomes
) -> None:
    writer = ApiWriter(client, limiters=(RateLimiter(0.001, 8), RateLimiter(1000, 1000)))
    for number in range(20):
        outcomes.submit(writer, f"condition-{number}", priority=WritePriority.CONDITION)
    writer.start()
    outcomes.await_all(4)
    outcomes.submit(writer, "binding")
    outcomes.await_all(5)
    assert (writer.backlog, writer.pending) == (0, 16)
    assert writer.drop_unsent() == 16
    writer.stop(2)
    assert [name.partition("-")[0] for name in outcomes.by_name] == ["condition"] * 4 + ["binding"]


def test_only_the_leader_says_why_pods_wait(client: Client, outcomes: Outcomes) -> None:
    leads = threading.Event()
    writer = ApiWriter(client, may_write=leads.is_set)
    writer.start()
    outcomes.submit(writer, "condition", priority=WritePriority.CONDITION)
    outcomes.submit(writer, "event", priority=WritePriority.EVENT)
    outcomes.await_all(1)
    assert set(outcomes.by_name) == {"event"}
    leads.set()
    outcomes.await_all(2)
    writer.stop(2)


def test_a_condition_that_the_server_delays_is_reported_and_delays_no_write(
    server: FaultServer, client: Client, outcomes: Outcomes, slept: list[float]
) -> None:
    writer = ApiWriter(client, monotonic=lambda: 0.0)
    writer.start()
    server.fail(Fault("POST", status=429, reason="TooManyRequests", retry_after=1))
    outcomes.submit(writer, "condition", priority=WritePriority.CONDITION)
    outcomes.await_all(1)
    writer.stop(2)
    assert isinstance(outcomes.of("condition"), TooManyRequests)
    assert (server.count("POST"), slept) == (1, [])
