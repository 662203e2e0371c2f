"""Heads of HTTP answers."""

from __future__ import annotations

import gzip
import io
import zlib
from http.client import HTTPException
from typing import cast

import pytest

from scheduler_core.kube.http.response import ANY_SIZE, Response, ResponseBodyTooLarge, gunzip


class Wire:
    """A socket that has received `data` and nothing after it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(cast(io.RawIOBase, io.BytesIO(self._data)))


def received(data: bytes) -> Response:
    response = Response(Wire(data), method="GET")  # type: ignore[arg-type]
    response.begin()
    return response


# sentence, what came, status, body, whether the connection ends with it
GOOD = [
    ("a length", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhiMORE", 200, b"hi", False),
    (
        "chunks",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        200,
        b"hi",
        False,
    ),
    ("neither, so up to the end", b"HTTP/1.1 200 OK\r\n\r\nhi", 200, b"hi", True),
    ("an old version", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi", True),
    (
        "a server that closes",
        b"HTTP/1.1 200 OK\r\nconnection: Close\r\nContent-Length: 0\r\n\r\n",
        200,
        b"",
        True,
    ),
    ("no reason", b"HTTP/1.1 404\r\nContent-Length: 0\r\n\r\n", 404, b"", False),
    ("no content", b"HTTP/1.1 204 No Content\r\n\r\n", 204, b"", False),
    (
        "a head before the head",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 1\r\n\r\nx",
        201,
        b"x",
        False,
    ),
    ("bare line feeds", b"HTTP/1.1 200 OK\nContent-Length: 1\n\nx", 200, b"x", False),
]


@pytest.mark.parametrize(
    ("data", "status", "body", "closes"), [g[1:] for g in GOOD], ids=[g[0] for g in GOOD]
)
def test_a_good_answer(data: bytes, status: int, body: bytes, closes: bool) -> None:
    response = received(data)
    assert (response.status, bool(response.will_close)) == (status, closes)
    assert response.read() == body


BAD = [
    ("nothing", b""),
    ("another protocol", b"SSH-2.0-OpenSSH\r\n"),
    ("a TLS alert", b"\x15\x03\x01\x00\x02\x02\x46"),
    ("a status that is no number", b"HTTP/1.1 abc OK\r\n\r\n"),
    ("half a head", b"HTTP/1.1 200 OK\r\nContent-Le"),
    ("a head without end", b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 300),
    ("a line without end", b"HTTP/1.1 200 OK\r\na: " + b"b" * 70_000),
]


@pytest.mark.parametrize("data", [b[1] for b in BAD], ids=[b[0] for b in BAD])
def test_a_bad_answer_is_an_error_of_the_connection(data: bytes) -> None:
    with pytest.raises((HTTPException, OSError)):
        received(data)


def test_a_body_that_ends_early_is_noticed() -> None:
    with pytest.raises(HTTPException):
        received(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort").read()
    with pytest.raises(HTTPException):
        received(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab").read()


LONG = (
    ("a length", b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabcdef"),
    ("chunks", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"),
    ("up to the end", b"HTTP/1.1 200 OK\r\n\r\nabcdef"),
)


@pytest.mark.parametrize("data", [one[1] for one in LONG], ids=[one[0] for one in LONG])
def test_a_body_is_read_up_to_so_many_bytes(data: bytes) -> None:
    assert received(data).whole(6) == received(data).whole(ANY_SIZE) == b"abcdef"
    for most in (0, 3, 5):
        with pytest.raises(ResponseBodyTooLarge):
            received(data).whole(most)


def test_the_content_of_a_compressed_body_is_bounded_and_complete() -> None:
    body = gzip.compress(b"<" * 1_000_000)
    assert gunzip(body, 1_000_000) == gunzip(body, ANY_SIZE) == b"<" * 1_000_000
    with pytest.raises(ResponseBodyTooLarge):
        gunzip(body, 999_999)
    with pytest.raises(zlib.error):
        gunzip(body[:-4], 1_000_000)
