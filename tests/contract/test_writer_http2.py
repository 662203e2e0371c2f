"""Many writes at once over HTTP/2 against a scripted server: what is carried, and over which connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from scheduler_core.kube.errors import AlreadyExists, Conflict, Forbidden, TooManyRequests, Unreachable
from scheduler_core.kube.http.http2_connection import MOST_STREAMS
from scheduler_core.kube.http.http2_frames import MAX_FRAME
from scheduler_core.kube.requests import SingleWrite
from scheduler_core.kube.writes.http2_write_connection import MAX_EVENT_STREAMS
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Bind, Delete, Patch, Replace
from tests.support.bulk_writes import BulkWrites, create, created, there
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault
from tests.support.http2.conversation import HTTP_1, HTTP_2
from tests.support.http2.front import Http2Front

# Several times as many as a connection carries at once.
BURST = 4 * MOST_STREAMS


@pytest.fixture
def writes(front: Http2Front) -> Iterator[BulkWrites]:
    made = BulkWrites(front, front.ca)
    yield made.start()
    made.close()


def test_every_write_is_sent_once_over_one_connection(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    for number in range(200):
        writes.submit(f"p{number}", urgent=number % 2 == 0)
    assert set(writes.outcomes(200).values()) == {None}
    assert set(created(server).values()) == {1}
    assert len(server.objects) == 200
    assert (front.connections, front.requests) == ({HTTP_2: 1}, {HTTP_2: 200})


def test_a_burst_meets_a_server_that_takes_few_at_once(server: FaultServer) -> None:
    with Http2Front(server, most_streams=7) as front:
        writes = BulkWrites(front, front.ca)
        writes.submit_many(BURST)
        writes.start()
        assert set(writes.outcomes(BURST).values()) == {None}
        writes.close()
    assert Counter(created(server).values()) == {1: BURST}
    # What went out before the server had told its limit is repeated elsewhere, and nothing from then on.
    assert 0 < front.refused < MOST_STREAMS
    assert front.requests == {HTTP_2: BURST - front.refused, HTTP_1: front.refused}
    assert front.violations == []


def test_a_server_with_other_limits_is_asked_again_and_again(server: FaultServer) -> None:
    with Http2Front(server, most_streams=1) as front:
        writes = BulkWrites(front, front.ca).start()
        for number in range(30):
            writes.submit(f"p{number}", urgent=number % 3 > 0)
        assert set(writes.outcomes(30).values()) == {None}
        writes.close()
    assert Counter(created(server).values()) == {1: 30}
    assert (front.connections[HTTP_2], front.violations) == (1, [])


def test_every_kind_of_write_arrives_as_over_http_1(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    uid = server.put("pods", "a", "p", spec={})["metadata"]["uid"]
    kinds: dict[str, SingleWrite] = {
        "bind": Bind("a", "p", uid, "node-1"),
        "create": create("other"),
        "patch": Patch(PODS, "a", "p", {"status": {"phase": "Grün"}}, "strategic", "status", uid=uid),
        "delete": Delete(PODS, "a", "p", uid=uid),
        "replace": Replace(PODS, "a", "gone", {"metadata": {"name": "gone"}}),
    }
    plain = BulkWrites(server).start()
    arrived = []
    for name, write in kinds.items():
        for way in (writes, plain):
            way.submit(name, write)
            way.outcome(name)
            request = server.requests[-1]
            told = {key.lower(): value for key, value in request.headers.items()}
            fields = [told[key] for key in ("accept", "authorization", "content-type", "user-agent")]
            arrived.append((request.verb, request.path, request.query, request.body, fields))
    plain.close()
    assert arrived[::2] == arrived[1::2]
    assert front.requests == {HTTP_2: len(kinds)}


def test_a_refusal_is_told_with_its_type(server: FaultServer, writes: BulkWrites) -> None:
    uid = server.put("pods", "a", "bound", spec={"nodeName": "node-1"})["metadata"]["uid"]
    server.fail(Fault("POST", status=403, reason="Forbidden"))
    writes.submit("refused")
    assert isinstance(writes.outcome("refused"), Forbidden)
    writes.submit("twice")
    assert writes.outcome("twice") is None
    writes.submit("again", create("twice"))
    assert isinstance(writes.outcome("again"), AlreadyExists)
    writes.submit("bind", Bind("a", "bound", uid, "node-2"))
    assert isinstance(writes.outcome("bind"), Conflict)


def test_a_write_answered_with_retry_after_is_repeated_after_that_time(
    server: FaultServer, front: Http2Front
) -> None:
    writes = BulkWrites(front, front.ca, monotonic=lambda: 0.0).start()
    server.fail(Fault("POST", times=2, status=429, retry_after=1))
    writes.submit("later")
    assert writes.outcomes(1) == {"later": None}
    writes.close()
    # Once by the writer, and once by the client that repeats for it.
    assert (server.count("POST"), writes.slept) == (3, [1.0, 1.0])
    assert front.requests == {HTTP_2: 1, HTTP_1: 2}


def test_a_write_that_the_server_delays_for_too_long_is_reported(
    server: FaultServer, writes: BulkWrites
) -> None:
    server.fail(Fault("POST", status=429, reason="TooManyRequests", retry_after=3600))
    writes.submit("much-later")
    assert isinstance(writes.outcome("much-later"), TooManyRequests)
    assert (server.count("POST"), writes.slept) == (1, [])


def test_events_leave_room_for_bindings(server: FaultServer, front: Http2Front, writes: BulkWrites) -> None:
    with server.quietly():
        writes.submit_many(2 * MOST_STREAMS, "event", urgent=False)
        eventually(lambda: front.requests[HTTP_2] >= MAX_EVENT_STREAMS, 10)
        writes.submit("binding")
        eventually(lambda: front.requests[HTTP_2] > MAX_EVENT_STREAMS, 10)
        # The writer would have sent more events before it turned to the binding.
        assert front.requests[HTTP_2] == MAX_EVENT_STREAMS + 1
        assert (writes.ended, writes.writer.backlog) == (0, 1)
    assert set(writes.outcomes(2 * MOST_STREAMS + 1).values()) == {None}


def test_a_server_that_is_gone_is_told_and_one_that_is_back_is_used(
    front: Http2Front, writes: BulkWrites
) -> None:
    writes.submit("before")
    assert writes.outcome("before") is None
    front.kill()
    writes.submit("during")
    assert isinstance(writes.outcome("during"), Unreachable)
    front.start()
    writes.submit("after")
    assert writes.outcome("after") is None
    assert front.connections == {HTTP_2: 2}


def test_a_large_write_goes_the_ordinary_way(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    writes.submit("small")
    assert writes.outcome("small") is None
    writes.submit("large", create("large", MAX_FRAME))
    assert writes.outcome("large") is None
    assert len(server.objects["pods", "a", "large"]["spec"]["text"]) == MAX_FRAME
    assert front.requests == {HTTP_2: 1, HTTP_1: 1}


def test_of_a_batch_only_what_does_not_fit_goes_the_ordinary_way(
    server: FaultServer, front: Http2Front
) -> None:
    writes = BulkWrites(front, front.ca)
    writes.submit("first")
    writes.submit("large", create("large", MAX_FRAME))
    writes.submit("last")
    writes.start()
    assert set(writes.outcomes(3).values()) == {None}
    writes.close()
    assert front.requests == {HTTP_2: 2, HTTP_1: 1}
    assert Counter(created(server).values()) == {1: 3}


def test_bodies_wait_for_the_window_that_the_server_gives(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    # Sixty of them are far more than a connection takes at first.
    size = MAX_FRAME - 1000
    for number in range(60):
        writes.submit(f"p{number}", create(f"p{number}", size))
    assert set(writes.outcomes(60).values()) == {None}
    assert {len(pod["spec"]["text"]) for pod in server.objects.values()} == {size}
    assert (front.connections, front.requests) == ({HTTP_2: 1}, {HTTP_2: 60})


def test_a_connection_whose_credentials_are_not_taken_serves_no_more(
    server: FaultServer, front: Http2Front, writes: BulkWrites
) -> None:
    with server.quietly():
        writes.submit_many(10)
        eventually(lambda: front.requests[HTTP_2] == 10, 10)
        server.fail(Fault("POST", status=401, reason="Unauthorized"))
    # The one that was refused is repeated by the ordinary client, which would renew what can be renewed.
    assert set(writes.outcomes(10).values()) == {None}
    assert (front.connections[HTTP_2], server.count("POST")) == (1, 11)
    writes.submit("next")
    assert writes.outcome("next") is None
    assert (front.connections[HTTP_2], front.requests) == (2, {HTTP_2: 11, HTTP_1: 1})


@pytest.mark.parametrize(
    ("protocols", "switch", "used"),
    [
        pytest.param((HTTP_2, HTTP_1), "", HTTP_2, id="both are offered"),
        pytest.param((HTTP_1,), "", HTTP_1, id="only HTTP/1.1 is offered"),
        pytest.param((HTTP_2, HTTP_1), "1", HTTP_1, id="HTTP/2 is switched off"),
        pytest.param((HTTP_2,), "true", HTTP_1, id="nothing is agreed on"),
    ],
)
def test_the_protocol_is_agreed_on(
    server: FaultServer,
    monkeypatch: pytest.MonkeyPatch,
    protocols: tuple[str, ...],
    switch: str,
    used: str,
) -> None:
    monkeypatch.setenv("DISABLE_HTTP2", switch)
    with Http2Front(server, protocols=protocols) as front:
        writes = BulkWrites(front, front.ca).start()
        writes.submit_many(40)
        assert set(writes.outcomes(40).values()) == {None}
        writes.close()
    assert front.requests == {used: 40}
    assert set(front.connections) == {used}
    assert Counter(created(server).values()) == {1: 40}
    assert len(there(server)) == 40


def test_an_unknown_authority_is_named_as_the_cause(server: FaultServer, front: Http2Front) -> None:
    writes = BulkWrites(front).start()
    writes.submit("p")
    found = writes.outcome("p")
    writes.close()
    assert isinstance(found, Unreachable)
    assert not found.sent
    assert "its certificate is not trusted" in str(found)
    assert server.count("POST") == 0
