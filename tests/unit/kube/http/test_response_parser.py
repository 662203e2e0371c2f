from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.http.response_parser import (
    ProtocolError,
    ResponseParser,
    plain_success,
    retry_after_seconds,
)
from tests.support.portions import portions

SIZED = b'HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"a":1}'
CHUNKED = b'HTTP/1.1 409 Conflict\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n3;x=y\r\n:1}\r\n0\r\n\r\n'
INFORMED = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + SIZED


@pytest.mark.parametrize(
    ("sent", "status", "body", "reusable"),
    [
        pytest.param(SIZED, 201, b'{"a":1}', True, id="a length"),
        pytest.param(CHUNKED, 409, b'{"a":1}', True, id="chunks"),
        pytest.param(INFORMED, 201, b'{"a":1}', True, id="an interim answer first"),
        pytest.param(
            SIZED.replace(b"\r\n\r\n", b"\r\nconnection: Close\r\n\r\n"), 201, b'{"a":1}', False, id="close"
        ),
        pytest.param(b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", True, id="no body"),
    ],
)
def test_an_answer_is_whole_only_with_its_last_byte(
    sent: bytes, status: int, body: bytes, reusable: bool
) -> None:
    for end in range(len(sent)):
        assert ResponseParser().feed(sent[:end]) is None, end
    byte_by_byte = ResponseParser()
    founds = [ResponseParser().feed(sent), [byte_by_byte.feed(bytes([byte])) for byte in sent][-1]]
    for found in founds:
        assert found is not None
        # Of a plain success nobody reads the body.
        assert found[0].body in ((body, b"") if status < 300 else (body,))
        assert (found[0].status // 100, found[1]) == (status // 100, reusable)


@pytest.mark.parametrize("sent", [SIZED, CHUNKED, INFORMED])
@pytest.mark.parametrize("behind", [b"x", SIZED])
def test_a_connection_with_something_behind_the_answer_is_not_used_again(sent: bytes, behind: bytes) -> None:
    found = ResponseParser().feed(sent + behind)
    assert found is not None
    assert not found[1]


def test_retry_after_is_read_in_seconds() -> None:
    found = ResponseParser().feed(SIZED.replace(b"201 Created", b"429 Slow\r\nRetry-After: 3"))
    assert found is not None
    assert found[0].retry_after == 3.0


def test_a_body_without_length_ends_with_the_connection() -> None:
    answering = ResponseParser()
    assert answering.feed(b"HTTP/1.0 200 OK\r\n\r\nabc") is None
    assert answering.end().body == b"abc"


@pytest.mark.parametrize("sent", [SIZED[:-1], CHUNKED[:-3], SIZED[:10]])
def test_a_connection_that_ends_early_leaves_no_answer(sent: bytes) -> None:
    answering = ResponseParser()
    answering.feed(sent)
    with pytest.raises(ProtocolError):
        answering.end()


def test_a_connection_that_ends_without_a_word_was_reset() -> None:
    with pytest.raises(ConnectionResetError):
        ResponseParser().end()


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"SSH-2.0-OpenSSH\r\n\r\n", id="another protocol"),
        pytest.param(b"HTTP/1.1 abc Bad\r\n\r\n", id="no status"),
        pytest.param(SIZED.replace(b": 7", b": -7"), id="a negative length"),
        pytest.param(SIZED.replace(b": 7", b": 99999999999"), id="a length beyond all bounds"),
        pytest.param(CHUNKED.replace(b"4\r\n", b"xyz\r\n"), id="a chunk size that is no number"),
        pytest.param(b"x" * (1 << 17), id="a head without an end"),
    ],
)
def test_bytes_that_are_no_answer_are_reported(sent: bytes) -> None:
    with pytest.raises(ProtocolError):
        ResponseParser().feed(sent)


@given(st.binary(max_size=200), st.lists(st.integers(0, 300), max_size=9))
def test_any_bytes_give_an_answer_nothing_or_the_error(sent: bytes, cuts: list[int]) -> None:
    answering = ResponseParser()
    try:
        for portion in portions(b"HTTP/1.1 200 OK\r\n" + sent, cuts):
            found = answering.feed(portion)
            if found is not None:
                assert found[0].status == 200
                return
        assert answering.end().status == 200
    except ProtocolError:
        return


def test_a_plain_success_is_known_at_a_glance_and_only_when_it_is_whole() -> None:
    assert plain_success(bytearray(SIZED)) == plain_success(bytearray(SIZED + SIZED[:-1])) == len(SIZED)
    assert not any(plain_success(bytearray(SIZED[:end])) for end in range(len(SIZED)))


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(CHUNKED, id="chunks"),
        pytest.param(SIZED.replace(b"201 Created", b"409 Conflict"), id="a refusal"),
        pytest.param(SIZED.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), id="the last answer"),
        pytest.param(INFORMED, id="an interim answer first"),
        pytest.param(SIZED.replace(b"/1.1", b"/1.0"), id="an old protocol"),
        pytest.param(SIZED.replace(b": 7", b": -7"), id="a negative length"),
    ],
)
def test_what_is_not_plain_is_left_to_be_read(sent: bytes) -> None:
    assert not plain_success(bytearray(sent))


@given(st.integers(0, len(SIZED)), st.binary(max_size=40), st.integers(0, len(SIZED)))
def test_where_a_glance_says_success_reading_says_it_too(start: int, put: bytes, end: int) -> None:
    sent = SIZED[:start] + put + SIZED[end:]
    if size := plain_success(bytearray(sent)):
        slowly = ResponseParser()
        assert all(slowly.feed(sent[at : at + 1]) is None for at in range(size - 1))
        found = slowly.feed(sent[size - 1 : size])
        assert found is not None
        assert (found[0].status // 100, found[1]) == (2, True)


RETRY_AFTER: list[tuple[str, str | bytes, float | None]] = [
    ("seconds", "3", 3.0),
    ("as bytes", b"30", 30.0),
    ("none", "0", 0.0),
    ("the longest", "999999", 999999.0),
    ("too long", "1000000", None),
    ("nothing", "", None),
    ("a fraction", "1.5", None),
    ("a sign", "-1", None),
    ("a date", "Fri, 31 Dec 1999 23:59:59 GMT", None),
    ("digits of another script", "\u0663", None),
    ("a digit that is no number", "\u00b2", None),
    ("bytes that are no ASCII", b"\xb2", None),
]


@pytest.mark.parametrize(
    ("text", "seconds"), [case[1:] for case in RETRY_AFTER], ids=[case[0] for case in RETRY_AFTER]
)
def test_retry_after_is_whole_seconds_or_ignored(text: str | bytes, seconds: float | None) -> None:
    assert retry_after_seconds(text) == seconds
