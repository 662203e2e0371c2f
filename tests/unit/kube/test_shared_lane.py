"""What becomes of jobs where a shared connection breaks."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hyperframe.frame import PingFrame, SettingsFrame

from scheduler_core.kube.credentials import StaticCredentials
from scheduler_core.kube.endpoint import Endpoint
from scheduler_core.kube.exchange import Job, Rank
from scheduler_core.kube.session import Limits, Session
from scheduler_core.kube.shared_lane import SharedLane
from scheduler_core.kube.wire import Wire
from tests.support.bulk_writes import create


@pytest.fixture
def lane_and_peer() -> Iterator[tuple[SharedLane, socket.socket]]:
    session = Session(Endpoint("https://127.0.0.1:1"), StaticCredentials(), limits=Limits(read=1.0))
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with near, far:
        wire = Wire(near)
        wire.wait(0)
        yield SharedLane(SimpleNamespace(wire=wire), session), far  # type: ignore[arg-type]


def begun(lane: SharedLane) -> Job:
    job = Job(create("p"), lambda error: None, Rank.URGENT)
    encoded = lane.encode(job)
    assert encoded is not None
    lane.begin([(job, encoded)], now=0.0)
    return job


def test_a_job_that_is_given_up_as_its_connection_breaks_is_told_and_the_lane_is_due(
    lane_and_peer: tuple[SharedLane, socket.socket],
) -> None:
    lane, peer = lane_and_peer
    job = begun(lane)
    peer.close()
    lane.deadline = 9.0
    assert lane.expire(now=5.0) == [job]
    assert lane.deadline < 5.0
    assert lane.abandon() == []


def test_a_job_that_went_out_whole_is_delivered_whatever_is_unsent_behind_it(
    lane_and_peer: tuple[SharedLane, socket.socket],
) -> None:
    lane, peer = lane_and_peer
    begun(lane)
    assert not lane.wire.unsent
    peer.sendall(SettingsFrame(0).serialize())
    while not lane.wire.unsent:
        peer.sendall(PingFrame(0, b"12345678").serialize() * 100)
        assert list(lane.answers(0.0)) == []
    assert not lane.undelivered()


def test_a_job_that_went_out_in_part_or_not_at_all_is_undelivered(
    lane_and_peer: tuple[SharedLane, socket.socket],
) -> None:
    lane, _ = lane_and_peer
    lane.greet()
    while not lane.wire.unsent:
        last = begun(lane)
    assert list(lane.undelivered()) == [last]
    waiting = begun(lane)
    assert list(lane.undelivered()) == [waiting]


@pytest.mark.parametrize("heard", [False, True], ids=["reset", "closed"])
def test_a_server_that_ends_without_a_word_does_not_speak_http_2(
    lane_and_peer: tuple[SharedLane, socket.socket], heard: bool
) -> None:
    lane, peer = lane_and_peer
    begun(lane)
    if heard:
        peer.recv(1 << 16)
    peer.close()
    with pytest.raises(ConnectionResetError):
        list(lane.answers(0.0))
    assert lane.broken
    assert not lane.usable
