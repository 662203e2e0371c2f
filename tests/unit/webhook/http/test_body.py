"""Reading a body in bounded memory and time, whatever the server gives."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from scheduler_core.serving.stream import RequestUnreadable
from webhook.http.body import (
    HEAD_BYTES,
    MAX_BODY,
    MAX_TAKEN,
    READ_SECONDS,
    BodyMemory,
    BodyTooLarge,
    Readable,
    TooManyBodies,
    read_body,
)


class Failing:
    """A stream that ends in an error after some bytes."""

    def __init__(self, error: Exception, before: bytes = b"") -> None:
        self.error = error
        self.before = before

    def read(self, size: int, /) -> bytes:
        if self.before:
            part, self.before = self.before[:size], self.before[size:]
            return part
        raise self.error


class Endless:
    """A stream without an end; counts what was taken from it."""

    taken = 0

    def read(self, size: int, /) -> bytes:
        self.taken += size
        return b"x" * size


@pytest.mark.parametrize("size", [0, 1, (1 << 15) - 1, 1 << 15, (1 << 15) + 1, MAX_BODY])
def test_bodies_up_to_the_limit_are_read_whole(size: int) -> None:
    body = b"x" * size
    assert read_body(io.BytesIO(body), size) == body
    assert read_body(io.BytesIO(body), None) == body


@pytest.mark.parametrize("size", [MAX_BODY + 1, MAX_TAKEN])
@pytest.mark.parametrize("declared", [False, True])
def test_a_body_that_is_too_large_is_read_to_its_end_and_dropped(size: int, *, declared: bool) -> None:
    stream, claimed = io.BytesIO(b"head" + b"x" * (size - 4)), 0

    def claim(more: int) -> None:
        nonlocal claimed
        claimed += more

    with pytest.raises(BodyTooLarge) as refused:
        read_body(stream, size if declared else None, claim)
    assert refused.value.head == b"head" + b"x" * (HEAD_BYTES - 4)
    assert stream.read() == b""
    assert claimed <= (0 if declared else MAX_BODY)


def test_declared_length_is_believed_before_anything_is_read() -> None:
    stream = Endless()
    with pytest.raises(BodyTooLarge):
        read_body(stream, MAX_TAKEN + 1)
    assert stream.taken == 0


def test_endless_body_is_given_up_at_the_limit() -> None:
    stream = Endless()
    with pytest.raises(BodyTooLarge):
        read_body(stream, None)
    assert stream.taken <= MAX_TAKEN + (1 << 16)


def test_slow_body_is_given_up_at_the_deadline() -> None:
    clock: Iterator[float] = iter(float(n) for n in range(100))
    stream = Failing(AssertionError("read on after the deadline"), b"x" * (1 << 15) * 4)
    with pytest.raises(RequestUnreadable, match="in time"):
        read_body(stream, None, monotonic=lambda: next(clock))
    assert next(clock) == READ_SECONDS + 2


ERRORS = [
    ("read timeout", TimeoutError("The read operation timed out"), RequestUnreadable),
    ("oversized chunk", OSError("Request Entity Too Large"), BodyTooLarge),
    ("broken chunk", ValueError("Bad chunked transfer size"), RequestUnreadable),
    ("lost connection", ConnectionResetError(104, "reset"), RequestUnreadable),
]


@pytest.mark.parametrize(("error", "outcome"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_errors_of_the_stream(error: Exception, outcome: type[Exception]) -> None:
    stream: Readable = Failing(error, b"{")
    with pytest.raises(outcome):
        read_body(stream, None)


def test_bodies_share_their_memory_and_give_it_back() -> None:
    memory = BodyMemory(100, free=0)
    with memory.claims() as first, memory.claims() as second:
        first(60)
        second(40)
        with pytest.raises(TooManyBodies):
            second(1)
    with memory.claims() as third:
        third(100)


def test_usual_bodies_have_room_beside_any_number_of_large_ones() -> None:
    memory = BodyMemory(100, free=10)
    with memory.claims() as large:
        large(110)
        with pytest.raises(TooManyBodies):
            large(1)
        for _ in range(5):
            with memory.claims() as usual:
                usual(4)
                usual(6)
                with pytest.raises(TooManyBodies):
                    usual(1)


def test_claim_is_made_for_all_that_was_read() -> None:
    claimed: list[int] = []
    read_body(io.BytesIO(b"x" * 100_000), None, claimed.append)
    assert sum(claimed) == 100_000
