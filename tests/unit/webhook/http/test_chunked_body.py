"""Chunked bodies: whatever the chunks are like, what was sent comes out, or a refusal soon."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.serving.stream import ClientReader, RequestUnreadable
from tests.support.cost import measured
from tests.support.said import Said
from webhook.http.body import MAX_BODY, MAX_TAKEN, BodyTooLarge, read_body
from webhook.http.chunked_body import CHUNK_LIMITS, FREE_CHUNKS, LEAST_AVERAGE, ChunkedBody


def chunk(part: bytes, extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(part), extension, part)


def chunks_of(*pieces: bytes) -> ChunkedBody:
    return ChunkedBody(ClientReader(Said(list(pieces))))


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=10), st.integers(1, 30), st.integers(1, 60))
def test_body_comes_out_however_it_was_cut(parts: list[bytes], packet: int, step: int) -> None:
    sent = b"".join(map(chunk, parts)) + b"0;last=1\r\nX-Trailer: y\r\n\r\nGET / HTTP/1.1\r\n"
    reader = ClientReader(Said([sent[at : at + packet] for at in range(0, len(sent), packet)]))
    body, found = ChunkedBody(reader), b""
    assert body.remaining
    while part := body.read(step):
        assert len(part) <= step
        found += part
    assert found == b"".join(parts)
    assert (body.remaining, body.read(1)) == (0, b"")
    assert reader.readline() == b"GET / HTTP/1.1\r\n", "the next request is untouched"


BROKEN = [
    ("size of no digits", b"\r\n"),
    ("size in other letters", b"zz\r\nabc\r\n"),
    ("size below zero", b"-1\r\nabc\r\n"),
    ("size with a sign", b"+3\r\nabc\r\n"),
    ("size with an underscore", b"1_0\r\nabc\r\n"),
    ("size with a prefix", b"0x3\r\nabc\r\n"),
    ("size of many digits", b"0" * 9 + b"\r\n"),
    ("line without an end", b"3;" + b"x" * CHUNK_LIMITS.line),
    ("line that ends in half", b"3\nabc\r\n"),
    ("chunk that is longer than it says", b"3\r\nabcd\r\n"),
    ("chunk that is cut off", b"3\r\nab"),
    ("body without a last chunk", b"3\r\nabc\r\n"),
    ("trailers without an end", b"0\r\n" + b"X: y\r\n" * (CHUNK_LIMITS.trailers + 1)),
    ("trailer too long", b"0\r\nX: " + b"y" * CHUNK_LIMITS.line + b"\r\n\r\n"),
    ("trailers cut off", b"0\r\nX: y\r\n"),
]


@pytest.mark.parametrize("sent", [b[1] for b in BROKEN], ids=[b[0] for b in BROKEN])
def test_broken_chunks(sent: bytes) -> None:
    with pytest.raises(RequestUnreadable):
        read_body(chunks_of(sent), None)


def test_declared_size_is_believed_before_the_chunk_is_read() -> None:
    with pytest.raises(BodyTooLarge):
        read_body(chunks_of(b"%x\r\n" % (MAX_TAKEN + 1)), None)
    half = MAX_TAKEN // 2 + 1
    with pytest.raises(BodyTooLarge):
        read_body(chunks_of(chunk(b"x" * half), b"%x\r\n" % half), None)


def test_largest_body_in_the_smallest_chunks_is_read() -> None:
    parts = [b"x" * LEAST_AVERAGE] * (MAX_BODY // LEAST_AVERAGE)
    sent = b"".join(map(chunk, parts)) + b"0\r\n\r\n"
    body, seconds = measured(lambda: read_body(chunks_of(*_packets(sent)), None))
    assert len(body) == MAX_BODY
    assert seconds < 0.5


def test_body_in_too_many_small_chunks_is_given_up() -> None:
    few = chunk(b"x") * (FREE_CHUNKS - 1) + b"0\r\n\r\n"
    assert len(read_body(chunks_of(few), None)) == FREE_CHUNKS - 1
    stream = chunks_of(*_packets(chunk(b"x") * 1_000_000))

    def refuse() -> None:
        with pytest.raises(RequestUnreadable, match=f"more than {FREE_CHUNKS} chunks"):
            read_body(stream, None)

    _, seconds = measured(refuse)
    assert seconds < 0.5


def _packets(sent: bytes) -> list[bytes]:
    return [sent[at : at + 16384] for at in range(0, len(sent), 16384)]
