from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.http.chunks import ChunkLimits, Unchunked
from tests.support.portions import portions

LAST = b"0\r\n\r\n"


def chunked(parts: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part) + LAST


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 400), max_size=20))
def test_however_the_bytes_arrive_the_body_is_the_same(parts: list[bytes], cuts: list[int]) -> None:
    unchunked = Unchunked()
    found = [unchunked.feed(portion) for portion in portions(chunked(parts), cuts)]
    assert b"".join(found) == b"".join(parts)
    assert unchunked.ended


def test_a_body_ends_behind_its_trailers_and_what_follows_is_left() -> None:
    unchunked = Unchunked()
    assert unchunked.feed(b"1\r\na\r\n0\r\nExpires: never\r\n") == b"a"
    assert not unchunked.ended
    assert unchunked.feed(b"\r\nHTTP/1.1 200 OK") == b""
    assert (unchunked.ended, unchunked.rest) == (True, b"HTTP/1.1 200 OK")


def test_a_body_without_its_last_chunk_has_not_ended() -> None:
    unchunked = Unchunked()
    assert unchunked.feed(b"3;note=x\r\nabc\r\n2\r\nd") == b"abcd"
    assert not unchunked.ended


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"xyz\r\n", id="no number"),
        pytest.param(b"\r\n", id="nothing"),
        pytest.param(b"-3\r\nabc", id="less than nothing"),
        pytest.param(b"1_0\r\nabc", id="a number as Python writes it"),
        pytest.param(b"3" * 40, id="a number without an end"),
        pytest.param(b"0" * 40 + b"1\r\n", id="a number that is too long"),
        pytest.param(b"1;" + b"x" * 9000, id="an extension without an end"),
        pytest.param(b"0\r\n" + b"x" * 9000, id="a trailer without an end"),
    ],
)
def test_an_invalid_chunk_size_is_refused(sent: bytes) -> None:
    with pytest.raises(ValueError, match=r"chunk size|does not end within"):
        Unchunked().feed(sent)


def feed_in_portions(unchunked: Unchunked, sent: bytes, portion: int) -> None:
    for at in range(0, len(sent), portion):
        unchunked.feed(sent[at : at + portion])


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(b"3\r\nabcd\r\n", id="a chunk that is longer than its size"),
        pytest.param(b"3\r\nabc\n", id="a chunk that ends in half a CRLF"),
        pytest.param(b"3\nabc", id="a line that ends in half a CRLF"),
        pytest.param(b"0\r\n" + b"a: b\r\n" * 3, id="more trailers than allowed"),
        pytest.param(b"0\r\na: b\nc: d\r\n\r\n", id="a trailer with a line feed"),
    ],
)
def test_broken_framing_is_refused_however_it_arrives(sent: bytes) -> None:
    for portion in (1, len(sent)):
        unchunked = Unchunked(ChunkLimits(line=64, digits=8, trailers=2))
        with pytest.raises(ValueError, match=r"chunk|trailers"):
            feed_in_portions(unchunked, sent, portion)
        assert not unchunked.ended


def test_chunks_and_their_content_are_counted_before_it_arrives() -> None:
    unchunked = Unchunked()
    unchunked.feed(b"2\r\nab\r\nffff\r\n")
    assert (unchunked.chunks, unchunked.size) == (2, 2 + 0xFFFF)
