"""What a server must not say, and how much of what it may."""

from __future__ import annotations

from contextlib import suppress

import pytest

from scheduler_core.kube.http.http2_connection import MOST_IDLE_FRAMES, Http2Connection
from scheduler_core.kube.http.http2_frames import MAX_FRAME
from scheduler_core.kube.http.http2_headers import RequestHeaders
from scheduler_core.kube.http.response_parser import SUCCESS, ProtocolError
from tests.support.http2.violations import ACK, LAST, PING, VIOLATIONS, WHOLE, frame, head, settings

BLOCK = RequestHeaders("api", ()).block("POST", "/api/v1/bindings", "application/json", 2)


def begun(count: int) -> Http2Connection:
    """So many requests are under way."""
    client = Http2Connection()
    assert client.receive_data(settings()) == []
    for _ in range(count):
        client.send(BLOCK, b"{}")
    client.data_to_send()
    return client


@pytest.mark.parametrize("sent", VIOLATIONS.values(), ids=VIOLATIONS)
def test_a_server_that_breaks_a_rule_is_given_up(sent: bytes) -> None:
    client = begun(2)
    with suppress(ProtocolError):
        for start in range(0, len(sent), 7919):
            client.receive_data(sent[start : start + 7919])
    assert client.broken is not None


@pytest.mark.parametrize(
    "size", [MAX_FRAME + 1, 1 << 16, (1 << 24) - 1], ids=["one too many", "two bytes full", "all it can say"]
)
def test_the_size_of_a_frame_has_three_bytes(size: int) -> None:
    client = begun(1)
    with pytest.raises(ProtocolError, match=f"a frame of {size} bytes"):
        client.receive_data(size.to_bytes(3, "big") + frame(PING, 0, 0, b"")[3:9])


def test_frames_allowed_between_two_answers_are_allowed_again_after_the_next() -> None:
    client = begun(3)
    quiet = MOST_IDLE_FRAMES - 3
    for stream in (1, 3, 5):
        assert client.receive_data(frame(PING, 0, 0, bytes(8)) * quiet) == []
        assert client.receive_data(head(stream, 201, WHOLE | LAST)) == [(stream, SUCCESS)]


def test_a_sign_of_life_is_the_answer_to_the_last_ping_alone() -> None:
    client = begun(1)
    assert not client.ping_outstanding
    pings = []
    for _ in range(2):
        client.ping()
        pings.append(client.data_to_send().removeprefix(frame(PING, 0, 0, bytes(8))[:9]))
        assert len(pings[-1]) == 8
    for payload in (pings[0], bytes(8)):
        client.receive_data(frame(PING, ACK, 0, payload) + frame(PING, 0, 0, payload))
        assert client.ping_outstanding
    client.receive_data(frame(PING, ACK, 0, pings[1]))
    assert not client.ping_outstanding
