"""Heads of requests: what is read of their headers, each limit from both sides, and what is refused."""

from __future__ import annotations

import io

import pytest

from scheduler_core.serving.heads import HeaderRejected, HeadLimits, read_headers

LIMITS = HeadLimits(first_line=100, value=8, headers=3)
READ: list[tuple[str, bytes, dict[bytes, bytes]]] = [
    ("none", b"", {}),
    ("one", b"Host: a\r\n", {b"Host": b"a"}),
    ("names in any case", b"x-a-ID:b\r\n", {b"X-A-Id": b"b"}),
    ("blanks around a value", b"A: \t b c \r\n", {b"A": b"b c"}),
    ("no value", b"A:\r\n", {b"A": b""}),
    ("a colon in a value", b"A: b:c\r\n", {b"A": b"b:c"}),
    ("the longest value", b"A: 12345678\r\n", {b"A": b"12345678"}),
    ("as many as may be", b"A: 1\r\nB: 2\r\nC: 3\r\n", {b"A": b"1", b"B": b"2", b"C": b"3"}),
    ("the same twice", b"A: 1\r\nA: 2\r\n", {b"A": b"1, 2"}),
    ("the same three times, in any case", b"A: 1\r\na: 2\r\nA: 3\r\n", {b"A": b"1, 2, 3"}),
    ("cookies twice", b"Cookie: a=1\r\nCookie: b=2\r\n", {b"Cookie": b"a=1; b=2"}),
    ("an underscore, which is left out", b"A_B: 1\r\nC: 2\r\n", {b"C": b"2"}),
    ("a length", b"Content-Length: 12\r\n", {b"Content-Length": b"12"}),
    ("a body in chunks", b"Transfer-Encoding: chunked\r\n", {b"Transfer-Encoding": b"chunked"}),
    ("a name of 128 bytes", b"a" * 128 + b": 1\r\n", {b"A" + b"a" * 127: b"1"}),
]


@pytest.mark.parametrize(("head", "found"), [r[1:] for r in READ], ids=[r[0] for r in READ])
def test_headers_are_read_by_name(head: bytes, found: dict[bytes, bytes]) -> None:
    limits = HeadLimits(100, 10 if b"chunked" in head else 8, 3)
    rest = io.BytesIO(head + b"\r\nthe body")
    assert read_headers(rest, {}, limits) == found
    assert rest.read() == b"the body"


NO_HEADER = "a line of a request's head must be a name, a colon and a value"
NO_LENGTH = "Content-Length must be a number of at most 10 digits"
REFUSED: list[tuple[str, bytes, int, str]] = [
    ("a value too long", b"A: 123456789\r\n", 431, "a header is longer than 8 bytes"),
    ("one too many", b"A: 1\r\nB: 1\r\nC: 1\r\nD: 1\r\n", 431, "there are more than 3 headers"),
    ("one too many of one name", b"A: 1\r\n" * 4, 431, "there are more than 3 headers"),
    ("no end", b"A: 1\r\nB: 2", 400, "every line of a request's head must end in CRLF"),
    ("a bare line feed", b"A: 1\n", 400, "every line of a request's head must end in CRLF"),
    ("no colon", b"Host\r\n", 400, NO_HEADER),
    ("no name", b": a\r\n", 400, NO_HEADER),
    ("a blank in a name", b"A b: a\r\n", 400, NO_HEADER),
    ("a folded line", b"A: 1\r\n more: 2\r\n", 400, NO_HEADER),
    ("a name too long", b"a" * 129 + b": 1\r\n", 400, NO_HEADER),
    ("two hosts", b"Host: a\r\nhost: a\r\n", 400, "Host is given twice"),
    ("two lengths", b"Content-Length: 1\r\nContent-Length: 1\r\n", 400, "Content-Length is given twice"),
    ("two users", b"X-Remote-User: a\r\nX-Remote-User: b\r\n", 400, "X-Remote-User is given twice"),
    ("a length that is no number", b"Content-Length: +1\r\n", 400, NO_LENGTH),
    ("no length", b"Content-Length:\r\n", 400, NO_LENGTH),
    (
        "a length and chunks",
        b"Content-Length: 1\r\nTransfer-Encoding: x\r\n",
        400,
        "Content-Length and Transfer-Encoding exclude each other",
    ),
]


@pytest.mark.parametrize(("head", "status", "rule"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_a_head_that_others_may_read_differently_is_refused(head: bytes, status: int, rule: str) -> None:
    with pytest.raises(HeaderRejected) as refused:
        read_headers(io.BytesIO(head + b"\r\n"), {}, LIMITS)
    assert (refused.value.status, str(refused.value)) == (status, rule)


@pytest.mark.parametrize(("digits", "read"), [(10, True), (11, False)])
def test_a_length_has_ten_digits_at_most(digits: int, read: bool) -> None:
    head, limits = b"Content-Length: " + b"1" * digits + b"\r\n\r\n", HeadLimits(100, 20, 3)
    if read:
        assert read_headers(io.BytesIO(head), {}, limits) == {b"Content-Length": b"1" * digits}
    else:
        with pytest.raises(HeaderRejected, match=NO_LENGTH):
            read_headers(io.BytesIO(head), {}, limits)
