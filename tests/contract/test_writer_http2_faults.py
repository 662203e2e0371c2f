"""What may happen to an HTTP/2 connection with many writes on it: each ends once, and none is sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import DataFrame, Frame, HeadersFrame, PingFrame, SettingsFrame

from scheduler_core.kube.errors import Forbidden
from scheduler_core.kube.http.http2_frames import MAX_FRAME
from tests.support.bulk_writes import READ_SECONDS, BulkWrites, Clock, create, created, lost, there
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault
from tests.support.http2.conversation import HTTP_1, HTTP_2
from tests.support.http2.front import Http2Front
from tests.support.http2.violations import VIOLATIONS

pytestmark = pytest.mark.long


@pytest.fixture
def writes(front: Http2Front) -> Iterator[BulkWrites]:
    """Not started, so that what is submitted goes out together."""
    made = BulkWrites(front, front.ca)
    yield made
    made.close()


def assert_nothing_twice(server: FaultServer) -> None:
    assert {name: times for name, times in created(server).items() if times > 1} == {}


@pytest.mark.parametrize("code", [ErrorCodes.INTERNAL_ERROR, ErrorCodes.CANCEL, ErrorCodes.NO_ERROR])
def test_a_lost_answer_is_told_as_maybe_accepted_and_not_repeated(
    server: FaultServer, front: Http2Front, writes: BulkWrites, code: ErrorCodes
) -> None:
    front.lost_code = code
    server.fail(Fault("POST", status=403, reason="Forbidden"), Fault("POST", times=2, lose=True))
    writes.submit_many(30)
    writes.start()
    found = writes.outcomes(30)
    # Nobody else's answer is harmed.
    assert sum(error is None for error in found.values()) == 27
    assert sum(isinstance(error, Forbidden) for error in found.values()) == 1
    assert sum(lost(error) for error in found.values()) == 2
    assert {name for name in found if lost(found[name])} <= there(server)
    assert (set(created(server).values()), front.connections) == ({1}, {HTTP_2: 1})


@pytest.mark.parametrize("code", [ErrorCodes.REFUSED_STREAM, ErrorCodes.HTTP_1_1_REQUIRED])
def test_requests_that_the_server_has_not_begun_are_repeated_once_over_http1(
    server: FaultServer, front: Http2Front, writes: BulkWrites, code: ErrorCodes
) -> None:
    front.refuse(*[code] * 5)
    writes.submit_many(20)
    writes.start()
    assert set(writes.outcomes(20).values()) == {None}
    assert set(created(server).values()) == {1}
    assert (front.refused, front.requests) == (5, {HTTP_2: 15, HTTP_1: 5})
    assert front.connections[HTTP_2] == 1


@pytest.mark.parametrize("taken", [1, 7, 59, 60])
def test_requests_that_a_goaway_excludes_are_repeated(
    server: FaultServer, front: Http2Front, writes: BulkWrites, taken: int
) -> None:
    front.go_away_after(taken)
    writes.submit_many(60)
    writes.start()
    assert set(writes.outcomes(60).values()) == {None}
    assert Counter(created(server).values()) == {1: 60}
    # What was on its way when the server said so went the ordinary way.
    assert front.requests == Counter({HTTP_2: taken, HTTP_1: 60 - taken})
    writes.submit("next")
    assert writes.outcome("next") is None
    assert (front.connections[HTTP_2], front.requests[HTTP_2]) == (2, taken + 1)


def test_a_server_that_goes_away_answers_what_it_took_and_others_do_not_wait_for_that(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    writes.start()
    with server.quietly():
        writes.submit_many(10)
        eventually(lambda: front.requests[HTTP_2] == 10, 10)
        front.go_away()
        probes = count()

        def reconnected() -> bool:
            writes.submit(f"probe{next(probes)}")
            return front.connections[HTTP_2] == 2

        eventually(reconnected, 10)
        assert writes.ended == 0
    submitted = 10 + next(probes)
    assert set(writes.outcomes(submitted).values()) == {None}
    assert Counter(created(server).values()) == {1: submitted}


def test_nothing_is_lost_or_doubled_while_a_server_goes_away_again_and_again(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    writes.start()
    for burst in range(4):
        writes.submit_many(50, f"burst{burst}-")
        writes.await_ended(50 * burst + 10)
        front.go_away()
    assert set(writes.outcomes(200).values()) == {None}
    assert Counter(created(server).values()) == {1: 200}
    assert front.connections[HTTP_2] > 1


def test_writes_on_a_connection_that_is_cut_are_told_as_maybe_accepted(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    with server.quietly():
        writes.submit_many(50)
        writes.start()
        eventually(lambda: front.requests[HTTP_2] == 50, 10)
        front.cut()
        found = writes.outcomes(50)
        assert all(lost(error) for error in found.values())
    # They were under way, and the server goes on with them.
    eventually(lambda: len(there(server)) == 50, 10)
    writes.submit("next")
    assert writes.outcome("next") is None
    assert Counter(created(server).values()) == {1: 51}
    assert front.connections == {HTTP_2: 2}


def cut(front: Http2Front) -> None:
    front.cut()


def go_away(front: Http2Front) -> None:
    front.go_away()


def restart(front: Http2Front) -> None:
    front.kill()
    front.start()


@pytest.mark.parametrize("answered", [1, 30, 90], ids=lambda answered: f"after {answered}")
@pytest.mark.parametrize("breaking", [cut, go_away, restart])
def test_every_write_ends_once_and_a_success_is_true_under_any_fault(
    server: FaultServer,
    front: Http2Front,
    writes: BulkWrites,
    breaking: Callable[[Http2Front], None],
    answered: int,
) -> None:
    server.fail(
        *[Fault("POST", lose=True) if number % 3 else Fault("POST", status=500) for number in range(9)]
    )
    front.refuse(*[ErrorCodes.REFUSED_STREAM] * 5)
    for number in range(150):
        writes.submit(f"p{number}", urgent=number % 3 > 0)
    writes.start()
    writes.await_ended(answered)
    breaking(front)
    found = writes.outcomes(150)
    assert {name for name in found if found[name] is None} <= there(server)
    assert_nothing_twice(server)


def bytes_of(frame: Frame) -> bytes:
    return frame.serialize()


def long_frame() -> bytes:
    greeting = bytes_of(SettingsFrame(0))
    return greeting + bytes_of(DataFrame(1, b"x" * (MAX_FRAME + 1)))


@pytest.mark.parametrize(
    "greeting",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", id="HTTP/1.1"),
        pytest.param(b"220 mail.example.org ESMTP\r\n", id="another protocol"),
        pytest.param(bytes(64), id="nothing but zeros"),
        pytest.param(bytes_of(PingFrame(0, b"12345678")), id="no settings"),
        pytest.param(bytes_of(SettingsFrame(0, flags=["ACK"])), id="settings of ours"),
        pytest.param(long_frame(), id="a frame that is too long"),
        pytest.param(bytes_of(SettingsFrame(0)) + bytes_of(DataFrame(1, b"{}")), id="a body without a head"),
        pytest.param(
            bytes_of(SettingsFrame(0)) + bytes_of(HeadersFrame(1, b"\xff\xff\xff", flags=["END_HEADERS"])),
            id="fields that are none",
        ),
    ],
)
def test_a_server_that_breaks_the_rules_is_spoken_to_in_http_1(
    server: FaultServer, front: Http2Front, writes: BulkWrites, greeting: bytes
) -> None:
    front.greet_with(greeting)
    writes.submit_many(10)
    writes.start()
    assert all(lost(error) for error in writes.outcomes(10).values())
    assert (server.count("POST"), front.connections) == (0, {HTTP_2: 1})
    writes.submit_many(10, "next")
    assert Counter(error is None for error in writes.outcomes(20).values()) == {True: 10, False: 10}
    assert (front.connections[HTTP_2], front.requests) == (1, {HTTP_1: 10})
    assert Counter(created(server).values()) == {1: 10}


@pytest.mark.parametrize("sent", VIOLATIONS.values(), ids=VIOLATIONS)
def test_any_broken_rule_closes_the_connection_and_repeated_writes_happen_once(
    server: FaultServer, front: Http2Front, writes: BulkWrites, sent: bytes
) -> None:
    front.greet_with(bytes_of(SettingsFrame(0)) + sent)
    writes.submit_many(5)
    writes.start()
    found = writes.outcomes(5)
    assert {name for name in found if found[name] is None} <= there(server)
    unknown = [name for name in found if lost(found[name])]
    assert unknown
    for name in unknown:
        writes.submit(f"{name}-again", create(name))
    again = writes.outcomes(5 + len(unknown))
    assert {again[f"{name}-again"] for name in unknown} == {None}
    assert_nothing_twice(server)
    # From then on it is HTTP/1.1 for a while.
    assert front.connections[HTTP_2] == 1
    assert front.requests[HTTP_2] == 0


def test_a_stream_without_an_answer_is_given_up_without_harm_to_others(
    server: FaultServer, front: Http2Front
) -> None:
    clock = Clock()
    writes = BulkWrites(front, front.ca, monotonic=clock).start()
    front.be_silent()
    writes.submit("silent")
    eventually(lambda: front.requests[HTTP_2] == 1, 10)
    for name in ("other", "another"):
        clock.now += READ_SECONDS * 0.6
        writes.submit(name)
        assert writes.outcome(name) is None
    found = writes.outcome("silent")
    assert lost(found)
    assert "no answer in time" in str(found)
    eventually(lambda: front.cancelled == 1, 10)
    writes.submit("next")
    assert writes.outcome("next") is None
    writes.close()
    assert front.connections == {HTTP_2: 1}
    assert there(server) == {"other", "another", "next"}


def test_a_writer_that_stops_tells_what_has_no_answer(front: Http2Front, writes: BulkWrites) -> None:
    front.be_silent(3)
    writes.submit_many(3)
    writes.start()
    eventually(lambda: front.requests[HTTP_2] == 3, 10)
    writes.writer.stop(0.1)
    assert all(lost(error) for error in writes.outcomes(3).values())
