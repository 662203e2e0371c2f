from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.http.http2_connection import MOST_STREAMS, Http2Connection, Outcome
from scheduler_core.kube.http.http2_frames import MAX_FRAME
from scheduler_core.kube.http.http2_headers import RequestHeaders
from scheduler_core.kube.http.response_parser import (
    MAX_BODY,
    SUCCESS,
    ApiResponse,
    ProtocolError,
    RequestNotProcessed,
)
from tests.support.http2.violations import (
    ACK,
    CONTINUATION,
    DATA,
    GOAWAY,
    HEADERS,
    LAST,
    PADDED,
    PING,
    PRIORITY,
    PUSH,
    RESET,
    SETTINGS,
    WHOLE,
    WINDOW,
    WITH_PRIORITY,
    block,
    frame,
    number,
    settings,
)

STREAMS, WINDOW_SIZE = 3, 4
CANCEL = 8
OPENING_WINDOW = 65535
IDENTITY = [("Authorization", "Bearer " + "a1." * 300), ("Impersonate-User", "system:eve")]
BLOCK = RequestHeaders("api", ()).block("POST", "/api/v1/bindings", "application/json", 2)
FULL = b"x" * MAX_FRAME


def answered(stream: int, status: int, body: bytes = b"") -> bytes:
    return frame(HEADERS, WHOLE, stream, block(status)) + frame(DATA, LAST, stream, body)


def said(client: Http2Connection) -> list[tuple[int, int, int, bytes]]:
    """Frames for the server: kind, flags, stream, payload."""
    sent, found = client.data_to_send(), []
    while sent:
        size = int.from_bytes(sent[:3], "big")
        found.append((sent[3], sent[4], int.from_bytes(sent[5:9], "big"), sent[9 : 9 + size]))
        sent = sent[9 + size :]
    return found


def asked(count: int, *told: tuple[int, int]) -> Http2Connection:
    """Both sides have said their settings, and so many requests are under way."""
    client = Http2Connection()
    assert client.receive_data(settings(*told)) == []
    assert [client.send(BLOCK, b"{}") for _ in range(count)] == [2 * n + 1 for n in range(count)]
    client.data_to_send()
    return client


def plain(outcomes: list[tuple[int, Outcome]]) -> list[tuple[int, Any]]:
    """Outcomes that can be compared."""
    return [
        (
            stream,
            (found.status, found.retry_after, found.body) if isinstance(found, ApiResponse) else type(found),
        )
        for stream, found in outcomes
    ]


HEAD = block(409, ("retry-after", "2"), ("audit-id", "7f" * 20))
CUT, START = frame(HEADERS, 0, 1, HEAD[:3]), frame(HEADERS, WHOLE, 1, HEAD)
REST = frame(CONTINUATION, 0, 1, HEAD[3:9]) + frame(CONTINUATION, WHOLE, 1, HEAD[9:])
EARLY = frame(HEADERS, WHOLE, 1, block(103, ("retry-after", "9")))
BODY, END = frame(DATA, 0, 1, b"conflict"), frame(DATA, LAST, 1, b"conflict")
TRAILER = block(200, ("retry-after", "8")).removeprefix(b"\x20\x88")
MORE = frame(CONTINUATION, WHOLE, 1, TRAILER[2:])
PADDED_HEAD = frame(HEADERS, WHOLE | PADDED, 1, b"\5" + HEAD + bytes(5))
URGENT_HEAD = frame(HEADERS, WHOLE | WITH_PRIORITY, 1, b"\x80\0\0\3\7" + HEAD)
BOTH_HEAD = frame(HEADERS, WHOLE | PADDED | WITH_PRIORITY, 1, b"\2\0\0\0\3\7" + HEAD + bytes(2))
PADDED_BODY = frame(DATA, PADDED, 1, b"\xffcon" + bytes(255)) + frame(DATA, PADDED, 1, b"\0flict")
UNKNOWN = frame(250, 255, 1, b"abc")
PADDING = frame(DATA, PADDED | LAST, 1, b"\3" + bytes(3))
CONFLICT = [(1, (409, 2.0, b"conflict"))]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(START + END, id="in two frames"),
        pytest.param(EARLY + EARLY + START + END, id="interim answers first"),
        pytest.param(CUT + REST + END, id="a head in pieces"),
        pytest.param(
            START + frame(DATA, 0, 1, b"con") + frame(DATA, LAST, 1, b"flict"), id="a body in pieces"
        ),
        pytest.param(START + BODY + frame(DATA, LAST, 1), id="nothing at the end"),
        pytest.param(START + BODY + frame(HEADERS, WHOLE | LAST, 1, TRAILER), id="trailers"),
        pytest.param(START + BODY + frame(HEADERS, LAST, 1, TRAILER[:2]) + MORE, id="trailers in pieces"),
        pytest.param(PADDED_HEAD + PADDED_BODY + PADDING, id="padding"),
        pytest.param(URGENT_HEAD + END, id="a priority"),
        pytest.param(BOTH_HEAD + END, id="a priority and padding"),
        pytest.param(UNKNOWN + START + frame(PRIORITY, 0, 1, bytes(5)) + UNKNOWN + END, id="unknown frames"),
        pytest.param(START + settings() + frame(WINDOW, 0, 1, number(9)) + END, id="other frames in between"),
        pytest.param(frame(HEADERS, WHOLE, 1 << 31 | 1, HEAD) + END, id="a bit that means nothing"),
    ],
)
def test_an_answer_is_the_same_however_it_is_framed(sent: bytes) -> None:
    assert plain(asked(1).receive_data(sent)) == CONFLICT
    client = asked(1)
    found = [outcome for byte in sent for outcome in client.receive_data(bytes([byte]))]
    assert plain(found) == CONFLICT


def test_an_answer_may_have_no_body() -> None:
    heads = [
        frame(HEADERS, WHOLE | LAST, stream, block(status))
        for stream, status in ((1, 204), (3, 404), (5, 200))
    ]
    cut = frame(HEADERS, LAST, 7, HEAD[:3]) + frame(CONTINUATION, WHOLE, 7, HEAD[3:])
    outcomes = asked(4).receive_data(b"".join(heads) + cut)
    assert plain(outcomes[1::2]) == [(3, (404, None, b"")), (7, (409, 2.0, b""))]
    assert outcomes[::2] == [(1, SUCCESS), (5, SUCCESS)]


def test_settings_and_pings_are_acknowledged_and_acknowledgements_are_not() -> None:
    client = asked(0)
    pings = frame(PING, ACK, 0, b"abcdefgh") + frame(PING, 0, 0, b"ABCDEFGH")
    assert client.receive_data(frame(SETTINGS, ACK, 0) + settings((99, 7)) + pings) == []
    assert said(client) == [(SETTINGS, ACK, 0, b""), (PING, ACK, 0, b"ABCDEFGH")]


@pytest.mark.parametrize(
    ("most", "under_way", "capacity"), [(3, 0, 3), (3, 2, 1), (3, 3, 0), (0, 0, 0), (1000, 40, 60)]
)
def test_there_is_room_for_what_the_server_takes(most: int, under_way: int, capacity: int) -> None:
    client = asked(under_way, (STREAMS, 1), (WINDOW_SIZE, 9), (STREAMS, most))
    assert client.capacity == capacity
    client.receive_data(settings((STREAMS, most + 1)))
    assert client.capacity == min(capacity + 1, MOST_STREAMS - under_way)


@pytest.mark.parametrize(
    ("head", "body", "window", "fits"),
    [
        (MAX_FRAME, MAX_FRAME, OPENING_WINDOW, True),
        (MAX_FRAME + 1, 0, OPENING_WINDOW, False),
        (1, MAX_FRAME + 1, OPENING_WINDOW, False),
        (1, 100, 100, True),
        (1, 101, 100, False),
        (101, 0, 0, True),
    ],
)
def test_bodies_that_fit_are_one_frame_each_within_the_window(
    head: int, body: int, window: int, fits: bool
) -> None:
    assert asked(0, (WINDOW_SIZE, window)).fits(bytes(head), bytes(body)) == fits


def held(*later: bytes) -> Http2Connection:
    """Three bodies leave room for all but one byte of a fourth; more may wait behind that one."""
    client = asked(0)
    for body in (FULL, FULL, FULL, FULL, *later):
        client.send(BLOCK, body)
    sent = [(kind, stream) for kind, _, stream, _ in said(client)]
    assert sent[:6] == [(kind, stream) for stream in (1, 3, 5) for kind in (HEADERS, DATA)]
    assert sent[6:] == [(HEADERS, 7 + 2 * n) for n in range(1 + len(later))]
    assert client.capacity == 0
    return client


def test_a_body_waits_until_the_connection_has_room_for_all_of_it() -> None:
    client = held()
    client.receive_data(frame(WINDOW, 0, 7, number(1 << 20)))
    assert (said(client), client.capacity) == ([], 0)
    client.receive_data(frame(WINDOW, 0, 0, number(1)))
    assert said(client) == [(DATA, LAST, 7, FULL)]
    assert client.capacity == MOST_STREAMS - 4
    client.receive_data(frame(WINDOW, 0, 0, number(2)))
    client.send(BLOCK, b"{}")
    assert client.capacity == MOST_STREAMS - 5
    client.send(BLOCK, b"x")
    assert client.capacity == 0


@pytest.mark.parametrize(
    ("ended", "going"),
    [
        pytest.param(None, [9], id="cancelled"),
        pytest.param(frame(RESET, 0, 7, number(2)), [9], id="reset"),
        pytest.param(answered(7, 429), [9], id="answered already"),
        pytest.param(frame(GOAWAY, 0, 0, number(5) + number(0)), [], id="refused with all behind it"),
    ],
)
def test_a_body_that_waits_for_nothing_any_more_never_goes(ended: bytes | None, going: list[int]) -> None:
    client = held(FULL)
    if ended is None:
        client.cancel(7)
    else:
        client.receive_data(ended)
    assert DATA not in [kind for kind, *_ in said(client)]
    client.receive_data(frame(WINDOW, 0, 0, number(1 << 20)))
    assert said(client) == [(DATA, LAST, stream, FULL) for stream in going]


def test_answers_ahead_of_what_is_broken_are_heard() -> None:
    client = asked(2)
    assert client.receive_data(answered(1, 201) + frame(PUSH, WHOLE, 3, number(2))) == [(1, SUCCESS)]
    assert client.broken is not None
    with pytest.raises(ProtocolError):
        client.receive_data(b"")


def test_a_request_that_is_answered_before_its_body_goes_is_ended() -> None:
    client = held()
    assert plain(client.receive_data(answered(7, 429))) == [(7, (429, None, b""))]
    assert [(kind, stream) for kind, _, stream, _ in said(client)] == [(RESET, 7)]
    assert client.capacity == MOST_STREAMS - 3


def test_there_is_room_again_when_nobody_waits_for_a_body_that_waits() -> None:
    client = held()
    client.cancel(7)
    assert client.capacity == MOST_STREAMS - 3


def test_a_small_body_does_not_wait_behind_one_that_was_cancelled() -> None:
    client = held(FULL[:-1], b"0123456789")
    client.cancel(7)
    assert [(kind, stream) for kind, _, stream, _ in said(client)] == [(RESET, 7), (DATA, 9)]
    client.receive_data(frame(WINDOW, 0, 0, number(100)))
    assert said(client) == [(DATA, LAST, 11, b"0123456789")]


def test_a_body_that_waits_keeps_to_a_window_that_has_become_smaller() -> None:
    client = held(b"small")
    assert plain(client.receive_data(settings((WINDOW_SIZE, 1000)))) == [(7, RequestNotProcessed)]
    assert [(kind, stream) for kind, _, stream, _ in said(client)] == [
        (SETTINGS, 0),
        (RESET, 7),
        (DATA, 9),
    ]


def test_there_is_never_less_than_no_room() -> None:
    client = asked(3)
    client.receive_data(settings((STREAMS, 1)))
    assert client.capacity == 0


def test_a_server_that_goes_away_answers_what_it_has_begun() -> None:
    client = asked(4)
    away = frame(GOAWAY, 0, 0, number(1 << 31 | 3) + number(0) + b"see you")
    assert plain(client.receive_data(away)) == [(5, RequestNotProcessed), (7, RequestNotProcessed)]
    assert (client.capacity, client.draining) == (0, True)
    outcomes = client.receive_data(answered(5, 500) + answered(3, 500, b"x") + answered(1, 201))
    assert plain(outcomes) == [(3, (500, None, b"x")), (1, (200, None, b""))]
    assert client.capacity == 0


def test_one_that_is_retired_takes_no_more_and_hears_the_rest() -> None:
    client = asked(1)
    client.drain()
    assert client.capacity == 0
    assert client.receive_data(answered(1, 201)) == [(1, SUCCESS)]


@pytest.mark.parametrize(
    ("code", "outcome"),
    [
        (7, RequestNotProcessed),
        (13, RequestNotProcessed),
        *[(code, ConnectionResetError) for code in (0, 1, 2, 3, 8, 11, 14)],
    ],
)
def test_a_request_that_is_reset_ends_as_the_server_says(code: int, outcome: type[Exception]) -> None:
    client = asked(2)
    resets = [frame(RESET, 0, 1, number(code))] * 2
    assert plain(client.receive_data(b"".join(resets))) == [(1, outcome)]
    assert client.capacity == MOST_STREAMS - 1
    assert client.receive_data(answered(3, 200)) == [(3, SUCCESS)]


def test_nobody_hears_the_answer_to_what_is_cancelled() -> None:
    client = asked(2)
    for stream in (1, 1, 99):
        client.cancel(stream)
    assert said(client) == [(RESET, 0, 1, number(CANCEL))]
    assert client.capacity == MOST_STREAMS - 1
    assert client.receive_data(EARLY + CUT + REST + BODY + END + answered(3, 200)) == [(3, SUCCESS)]


def test_the_used_window_of_the_server_is_returned_to_the_byte() -> None:
    client = asked(1)
    client.cancel(1)
    client.data_to_send()
    part = frame(DATA, PADDED, 1, FULL)
    for _ in range(2):
        assert client.receive_data(part * 63) == []
        assert said(client) == []
        assert client.receive_data(part) == []
        assert said(client) == [(WINDOW, 0, 0, number(1 << 20))]


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"\0\x40\1" + bytes(6), id="a frame beyond all bounds"),
        pytest.param(frame(SETTINGS, 0, 0, b"12345"), id="settings that are cut off"),
        pytest.param(END, id="a body before its head"),
        pytest.param(EARLY + END, id="a body behind an interim answer"),
        pytest.param(CUT + frame(PING, 0, 0, bytes(8)), id="a ping within a head"),
        pytest.param(CUT + UNKNOWN, id="an unknown frame within a head"),
        pytest.param(CUT + frame(HEADERS, WHOLE, 3, HEAD), id="a head within a head"),
        pytest.param(CUT + frame(CONTINUATION, WHOLE, 3, HEAD[3:]), id="another's continuation"),
        pytest.param(frame(CONTINUATION, WHOLE, 1, HEAD), id="a continuation of nothing"),
        pytest.param(CUT + REST + REST, id="a continuation of what is whole"),
        pytest.param(CUT + 4 * frame(CONTINUATION, 0, 1, FULL), id="a head without an end"),
        pytest.param(frame(HEADERS, WHOLE | PADDED, 1), id="padding of no length"),
        pytest.param(frame(HEADERS, WHOLE | PADDED, 1, b"\1"), id="padding longer than a head"),
        pytest.param(START + frame(DATA, PADDED, 1, b"\4abc"), id="padding longer than a body"),
        pytest.param(frame(PUSH, WHOLE, 1, number(2) + HEAD), id="a push"),
        pytest.param(frame(HEADERS, WHOLE, 1, block("abc")), id="no number for a status"),
        pytest.param(frame(HEADERS, WHOLE, 1, TRAILER), id="trailers without an answer"),
        pytest.param(frame(HEADERS, WHOLE | LAST, 1, block(103)), id="an interim answer last"),
        pytest.param(frame(HEADERS, WHOLE, 1, b"\x8c\xff\xff"), id="fields that are cut off"),
    ],
)
def test_bytes_that_are_no_answer_are_reported(sent: bytes) -> None:
    with pytest.raises(ProtocolError):
        asked(2).receive_data(sent)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", id="an older protocol"),
        pytest.param(frame(PING, 0, 0, bytes(8)), id="a ping"),
        pytest.param(frame(SETTINGS, ACK, 0), id="an acknowledgement"),
        pytest.param(UNKNOWN + settings(), id="a frame that nobody knows"),
    ],
)
def test_a_server_that_does_not_begin_with_its_settings_speaks_something_else(sent: bytes) -> None:
    with pytest.raises(ProtocolError):
        Http2Connection().receive_data(sent)


def test_an_answer_beyond_all_bounds_is_none() -> None:
    client = asked(1)
    client.receive_data(START)
    for _ in range(MAX_BODY // MAX_FRAME):
        client.receive_data(frame(DATA, 0, 1, FULL))
    with pytest.raises(ProtocolError, match="more than"):
        client.receive_data(frame(DATA, LAST, 1, b"x"))


def test_the_body_of_a_success_is_not_kept() -> None:
    client = asked(1)
    client.receive_data(frame(HEADERS, WHOLE, 1, block(202)))
    for _ in range(MAX_BODY // MAX_FRAME):
        client.receive_data(frame(DATA, 0, 1, FULL))
    assert client.receive_data(frame(DATA, LAST, 1)) == [(1, SUCCESS)]


@given(
    st.lists(
        st.builds(
            frame,
            st.sampled_from([DATA, HEADERS, HEADERS, RESET, GOAWAY, WINDOW, CONTINUATION]),
            st.sampled_from([0, LAST, WHOLE, WHOLE | LAST, PADDED]),
            st.sampled_from([0, 1, 3, 5]),
            st.sampled_from([b"\x88", HEAD, block(103), b"\1\x8c\0", number(7)]) | st.binary(max_size=9),
        ),
        max_size=9,
    )
)
def test_any_frames_give_outcomes_or_the_error(sent: list[bytes]) -> None:
    try:
        outcomes = asked(3).receive_data(b"".join(sent))
    except ProtocolError:
        return
    streams = [stream for stream, _ in outcomes]
    assert len(set(streams)) == len(streams)
    assert set(streams) <= {1, 3, 5}
