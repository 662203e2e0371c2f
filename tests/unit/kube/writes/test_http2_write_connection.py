"""What becomes of jobs where a shared connection breaks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hyperframe.frame import PingFrame, SettingsFrame

from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.session import Limits, Session
from scheduler_core.kube.http.transport import Transport
from scheduler_core.kube.writes.http2_write_connection import Http2WriteConnection
from scheduler_core.kube.writes.write_connection import QueuedWrite, WritePriority
from tests.support.bulk_writes import create


@pytest.fixture
def lane_and_peer() -> Iterator[tuple[Http2WriteConnection, socket.socket]]:
    session = Session(Endpoint("https://127.0.0.1:1"), StaticCredentials(), limits=Limits(read=1.0))
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with near, far:
        transport = Transport(near)
        transport.wait(0)
        yield Http2WriteConnection(SimpleNamespace(transport=transport), session), far  # type: ignore[arg-type]


def begun(connection: Http2WriteConnection) -> QueuedWrite:
    job = QueuedWrite(create("p"), lambda error: None, WritePriority.URGENT)
    encoded = connection.encode(job)
    assert encoded is not None
    connection.send([(job, encoded)], now=0.0)
    return job


def test_a_job_that_is_given_up_as_its_connection_breaks_is_told_and_the_lane_is_due(
    lane_and_peer: tuple[Http2WriteConnection, socket.socket],
) -> None:
    connection, peer = lane_and_peer
    job = begun(connection)
    peer.close()
    connection.deadline = 9.0
    assert connection.expire(now=5.0) == [job]
    assert connection.deadline < 5.0
    assert connection.abandon() == []


def test_a_job_that_went_out_whole_is_delivered_whatever_is_unsent_behind_it(
    lane_and_peer: tuple[Http2WriteConnection, socket.socket],
) -> None:
    connection, peer = lane_and_peer
    begun(connection)
    assert not connection.transport.unsent
    peer.sendall(SettingsFrame(0).serialize())
    while not connection.transport.unsent:
        peer.sendall(PingFrame(0, b"12345678").serialize() * 100)
        assert list(connection.responses(0.0)) == []
    assert not connection.undelivered()


def test_a_job_that_went_out_in_part_or_not_at_all_is_undelivered(
    lane_and_peer: tuple[Http2WriteConnection, socket.socket],
) -> None:
    connection, _ = lane_and_peer
    connection.send_preface()
    while not connection.transport.unsent:
        last = begun(connection)
    assert list(connection.undelivered()) == [last]
    waiting = begun(connection)
    assert list(connection.undelivered()) == [waiting]


@pytest.mark.parametrize("heard", [False, True], ids=["reset", "closed"])
def test_a_server_that_ends_without_a_word_does_not_speak_http_2(
    lane_and_peer: tuple[Http2WriteConnection, socket.socket], heard: bool
) -> None:
    connection, peer = lane_and_peer
    begun(connection)
    if heard:
        peer.recv(1 << 16)
    peer.close()
    with pytest.raises(ConnectionResetError):
        list(connection.responses(0.0))
    assert connection.broken
    assert not connection.usable
