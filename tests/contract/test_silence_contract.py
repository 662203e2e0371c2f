"""Connections that carry nothing any more although nobody closed them: who notices, and when."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Unreachable
from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.session import Limits, Session
from scheduler_core.kube.http.stream import StreamSilent, StreamWatcher
from scheduler_core.kube.writes.http2_write_connection import (
    PING_TIMEOUT_SECONDS,
    RESPONSE_PING_SECONDS,
    Http2WriteConnection,
)
from scheduler_core.model.kinds import PODS
from tests.support.bulk_writes import BulkWrites, Clock, create, created, lost, there
from tests.support.eventually import eventually
from tests.support.faults.client import client_for, pod
from tests.support.faults.relay import Relay
from tests.support.faults.server import FaultServer
from tests.support.http2.conversation import HTTP_1, HTTP_2
from tests.support.http2.front import Http2Front

PATIENT = Limits(connect=2.0, read=60.0, silence=0.3)
# Of a write that gets no answer.
SHORT = Limits(connect=10.0, read=0.3, silence=0.3)
_STEP = 0.25
_TICK = 0.02


@pytest.fixture
def relay(server: FaultServer) -> Iterator[Relay]:
    with Relay(server.port) as running:
        running.url = f"http://127.0.0.1:{running.port}"
        yield running


@pytest.fixture
def client(relay: Relay) -> Iterator[Client]:
    made = client_for(relay, limits=PATIENT)
    yield made
    made.session.close()


@pytest.fixture
def shared(front: Http2Front) -> Iterator[Relay]:
    """A relay to the server that speaks HTTP/2."""
    with Relay(front.port) as running:
        yield running


def settle(writes: BulkWrites, clock: Clock, count: int) -> float:
    """Time on the clock until so many writes have ended, while more are submitted all the time."""
    began = clock.now

    def ended() -> bool:
        if clock.step(_STEP):
            writes.submit(f"more-{clock.now}")
        return writes.ended >= count

    eventually(ended, 60, interval=0.01)
    return clock.now - began


def test_load_does_not_put_off_the_end_of_a_shared_connection_that_is_silent(
    server: FaultServer, front: Http2Front, shared: Relay
) -> None:
    clock = Clock()
    writes = BulkWrites(shared, front.ca, monotonic=clock, tick=_TICK).start()
    writes.submit("first")
    assert writes.outcome("first") is None
    assert shared.swallow() == 1
    writes.submit_many(20)
    seconds = settle(writes, clock, 21)
    # The clock goes on by a few steps between two looks.
    assert seconds < RESPONSE_PING_SECONDS + PING_TIMEOUT_SECONDS + 12 * _STEP
    eventually(lambda: writes.writer.pending == 0, 10)
    early = {name: writes.outcome(name) for name in ("first", *[f"p{number}" for number in range(20)])}
    assert Counter(lost(error) for error in early.values()) == {True: 20, False: 1}
    writes.submit("next")
    assert writes.outcome("next") is None
    writes.close()
    assert front.connections == {HTTP_2: 2}
    assert {"first", "next"} <= there(server)
    assert set(created(server).values()) == {1}


def test_an_idle_shared_connection_that_is_silent_is_gone_before_it_is_needed(
    front: Http2Front, shared: Relay
) -> None:
    clock = Clock()
    writes = BulkWrites(shared, front.ca, monotonic=clock, tick=_TICK).start()
    writes.submit("first")
    assert writes.outcome("first") is None
    shared.swallow()
    before = shared.lost_bytes

    def closed() -> bool:
        clock.step(_STEP)
        return not writes.writer.connections.all()

    eventually(closed, 60, interval=0.01)
    assert shared.lost_bytes > before
    writes.submit("next")
    assert writes.outcome("next") is None
    writes.close()
    assert front.connections == {HTTP_2: 2}


def test_a_server_that_only_takes_its_time_keeps_its_connection(
    server: FaultServer, front: Http2Front
) -> None:
    clock = Clock()
    writes = BulkWrites(front, front.ca, monotonic=clock, tick=_TICK).start()
    front.be_silent()
    writes.submit("slow")
    eventually(lambda: front.requests[HTTP_2] == 1, 10)
    (connection,) = writes.writer.connections.all()
    assert isinstance(connection, Http2WriteConnection)
    for _ in range(6):
        # A sign of life is asked for, and given.
        clock.now += RESPONSE_PING_SECONDS + 0.1
        eventually(lambda: connection.alive_at == clock.now and connection.ping_sent_at is None, 10)
        assert writes.ended == 0
    writes.submit("other")
    assert writes.outcome("other") is None
    writes.close()
    assert front.connections == {HTTP_2: 1}


def test_a_server_that_agrees_on_http_2_and_then_says_nothing_gets_http_1(front: Http2Front) -> None:
    clock = Clock()
    writes = BulkWrites(front, front.ca, monotonic=clock, tick=_TICK).start()
    front.greet_with(b"\0")
    writes.submit("first")
    eventually(lambda: front.connections[HTTP_2] == 1, 10)
    settle(writes, clock, 1)
    assert lost(writes.outcome("first"))
    writes.submit("next")
    assert writes.outcome("next") is None
    writes.close()
    assert front.connections[HTTP_2] == 1
    assert front.requests[HTTP_1] > 0


def test_no_connection_is_used_again_after_a_new_one_was_silent_from_the_start(server: FaultServer) -> None:
    """A writer that waits for a handshake reads answers late, so it cannot tell which connections live."""
    with Http2Front(server, protocols=(HTTP_1,)) as front, Relay(front.port) as relay:
        writes = BulkWrites(relay, front.ca, connect=2.0)
        with server.quietly():
            writes.submit_many(2)
            writes.start()
            eventually(lambda: front.requests[HTTP_1] == 2, 10)
            relay.swallow_next()
            writes.submit("behind a silent handshake")
            eventually(lambda: relay.connections == 3, 10)
        assert list(writes.outcomes(3).values()) == [None] * 3
        relay.swallow()
        writes.submit("next")
        assert writes.outcome("next") is None
        writes.close()
    assert set(created(server).values()) == {1}


def test_a_read_on_a_silent_connection_is_repeated_on_a_new_one(
    server: FaultServer, client: Client, relay: Relay
) -> None:
    pod(server)
    client.get(PODS, "a", "p")
    relay.swallow()
    began = time.monotonic()
    client.get(PODS, "a", "p")
    assert PATIENT.silence <= time.monotonic() - began < PATIENT.read / 2
    assert relay.lost_bytes > 0
    assert server.count("GET") == 2


def test_a_read_that_is_only_slow_is_waited_for_on_a_new_connection(
    server: FaultServer, client: Client, relay: Relay
) -> None:
    pod(server)
    client.get(PODS, "a", "p")
    with ThreadPoolExecutor(1) as pool:
        with server.quietly():
            found = pool.submit(client.get, PODS, "a", "p")
            eventually(lambda: relay.connections == 2, 10)
        assert b'"p"' in found.result()


def test_a_write_takes_no_connection_that_has_rested(server: FaultServer, relay: Relay) -> None:
    clock = Clock()
    session = Session(Endpoint(relay.url), StaticCredentials(), limits=PATIENT, monotonic=clock)
    client = Client(session)
    client.write(create("first"))
    clock.now += 0.5
    client.write(create("second"))
    assert server.connections == 1
    clock.now += 1.5
    relay.swallow()
    client.write(create("third"))
    assert (server.connections, set(created(server).values())) == (2, {1})
    session.close()


def test_a_write_that_was_lost_in_silence_is_told_so_and_takes_idle_connections_with_it(
    server: FaultServer, client: Client, relay: Relay
) -> None:
    session = client.session.with_limits(PATIENT)
    renewals = Client(session)
    pod(server)
    client.get(PODS, "a", "p")
    renewals.write(create("first"))
    assert relay.swallow() == 2
    session.limits = SHORT
    with pytest.raises(Unreachable) as caught:
        renewals.write(create("lost"))
    assert caught.value.maybe_accepted
    before = relay.lost_bytes
    client.get(PODS, "a", "p")
    # The silent connection was not even tried: it was closed already.
    assert relay.lost_bytes == before
    assert "lost" not in there(server)
    session.close()


def test_watches_that_say_nothing_are_opened_anew_once_another_connection_was_found_silent(
    server: FaultServer, client: Client, relay: Relay
) -> None:
    pod(server)
    client.get(PODS, "a", "p")
    watch = client.watch(PODS, resource_version="0", silence=60.0)
    assert isinstance(watch, StreamWatcher)
    renewals = Client(client.session.with_limits(PATIENT))
    renewals.write(create("first"))
    lines = watch.lines()
    assert b"first" in next(line for line in lines if b"first" in line)
    relay.swallow()
    renewals.session.limits = SHORT
    with pytest.raises(Unreachable):
        renewals.write(create("lost"))
    renewals.session.limits = PATIENT
    # That the server is well shows on a new connection.
    renewals.get(PODS, "a", "p")
    began = time.monotonic()
    with pytest.raises(StreamSilent):
        list(lines)
    assert time.monotonic() - began < 30.0
    watch.close()
    renewals.session.close()


def test_a_peer_that_the_network_has_lost_is_noticed_within_ten_seconds(server: FaultServer) -> None:
    session = Session(Endpoint(server.url), StaticCredentials())
    connection = session.new_connection()
    connection.open()
    with socket.socket(fileno=connection.transport.fileno()) as raw:
        read = [
            raw.getsockopt(socket.IPPROTO_TCP, getattr(socket, name))
            for name in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_USER_TIMEOUT")
        ]
        assert raw.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        raw.detach()
    idle, interval, count, unacknowledged = read
    assert idle + interval * count < 10
    assert unacknowledged < 10_000
    connection.close()
