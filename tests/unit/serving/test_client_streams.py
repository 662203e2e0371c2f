"""The two directions of a connection, against Python's own buffered reader."""

from __future__ import annotations

import io
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.serving.stream import LEAST_PIECE, ClientReader, ClientWriter, RequestUnreadable
from tests.support.every import every_case
from tests.support.said import Said

PIECES = st.lists(st.binary(min_size=1, max_size=8).map(lambda raw: raw.replace(b"\x00", b"\n")), max_size=12)
CALLS = st.lists(
    st.tuples(st.sampled_from(["read", "readline"]), st.integers(min_value=-1, max_value=20)), max_size=12
)


class Heard:
    """A socket that keeps each record it was given."""

    def __init__(self) -> None:
        self.records: list[bytes] = []

    def sendall(self, data: bytes) -> None:
        self.records.append(data)


@given(PIECES, CALLS)
def test_reads_are_those_of_the_standard_reader_however_the_bytes_come(
    pieces: list[bytes], calls: list[tuple[str, int]]
) -> None:
    mine, theirs = ClientReader(Said(pieces)), io.BytesIO(b"".join(pieces))
    for name, size in calls:
        assert getattr(mine, name)(size) == getattr(theirs, name)(size)
        assert mine.bytes_read == theirs.tell()


# How two lines and a rest may come.
ARRIVALS = [
    [b"ab\nc\nd"],
    [b"ab", b"\nc\n", b"d"],
    [b"a", b"b", b"\n", b"c", b"\n", b"d"],
    [b"ab\n", b"c\nd"],
    [b""],
]


@every_case("pieces", ARRIVALS)
def test_lines_end_at_their_ends_and_at_the_size_that_is_asked_for(pieces: list[bytes]) -> None:
    """All ways of two calls, each with every size, and then the rest."""
    calls = list(product(("read", "readline"), range(-1, 8)))
    for first, second in product(calls, calls):
        mine, theirs = ClientReader(Said(pieces)), io.BytesIO(b"".join(pieces))
        for name, size in (first, second, ("read", -1)):
            assert getattr(mine, name)(size) == getattr(theirs, name)(size), (first, second)
            assert mine.bytes_read == theirs.tell(), (first, second)


@given(PIECES, st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=12))
def test_what_is_given_back_is_read_and_counted_again(
    pieces: list[bytes], calls: list[tuple[int, int]]
) -> None:
    mine, theirs = ClientReader(Said(pieces)), io.BytesIO(b"".join(pieces))
    for size, back in calls:
        part = mine.receive(size)
        assert len(part) <= size
        assert part == theirs.read(len(part))
        given_back = min(back, len(part))
        mine.unread(given_back)
        theirs.seek(-given_back, io.SEEK_CUR)
        assert mine.bytes_read == theirs.tell()
    assert mine.read() == theirs.read()


@given(PIECES)
def test_data_received_after_a_line_is_reported(pieces: list[bytes]) -> None:
    reader = ClientReader(Said(pieces))
    assert not reader.has_data()
    line = reader.readline()
    first = b""
    for piece in pieces:
        first += piece
        if b"\n" in piece:
            break
    assert reader.has_data() == (len(first) > len(line))


def test_request_in_too_many_pieces_is_given_up_and_the_next_one_is_counted_anew() -> None:
    reader = ClientReader(Said([b"x"] * 10_000))
    for _ in range(2):
        reader.begin_request()
        with pytest.raises(RequestUnreadable, match="too many small pieces"):
            reader.read(10_000)
    large = ClientReader(Said([b"x" * LEAST_PIECE] * 10_000))
    assert len(large.read(10_000 * LEAST_PIECE)) == 10_000 * LEAST_PIECE


def test_a_head_goes_out_with_the_first_of_the_body() -> None:
    socket = Heard()
    writer = ClientWriter(socket)
    writer.hold()
    writer.write(b"head ")
    assert socket.records == []
    writer.write(b"body")
    writer.write(b" more")
    writer.flush()
    assert socket.records == [b"head body", b" more"]
    assert writer.bytes_written == len(b"head body more")


def test_a_head_without_a_body_goes_out_by_itself_once() -> None:
    socket = Heard()
    writer = ClientWriter(socket)
    writer.hold()
    writer.write(b"head")
    writer.flush()
    writer.flush()
    writer.hold()
    writer.flush()
    writer.write(b"next")
    assert socket.records == [b"head", b"next"]
