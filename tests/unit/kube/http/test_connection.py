"""Which connections are given up where one was found silent, and which the pool keeps."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest

from scheduler_core.kube.http.connection import Connection, ConnectionPool, ConnectionRegistry, Use


class Known(Connection):
    """A connection that last said something at a time."""

    def __init__(self, use: Use, last_read: float, opened: bool = True) -> None:
        self.use = use
        self.declared_dead = False
        self._at = last_read
        self._open = opened

    @property
    def last_read(self) -> float:
        return self._at

    @property
    def opened(self) -> bool:
        return self._open

    def abort(self) -> None:
        return


@pytest.mark.parametrize(
    ("known", "gone"),
    [
        pytest.param(Known(Use.IDLE, 1.0), True, id="idle since before"),
        pytest.param(Known(Use.STREAM, 1.0), True, id="a watch that says nothing"),
        pytest.param(Known(Use.STREAM, 2.5), False, id="a watch that said something since"),
        pytest.param(Known(Use.IDLE, 2.0), False, id="idle from that moment on"),
        pytest.param(Known(Use.EXCHANGE, 1.0), False, id="a request under way"),
        pytest.param(Known(Use.WRITES, 1.0), False, id="writes under way"),
        pytest.param(Known(Use.IDLE, 0.0, opened=False), False, id="not open"),
    ],
)
def test_only_what_said_nothing_since_and_is_meant_is_given_up(known: Known, gone: bool) -> None:
    registry = ConnectionRegistry()
    registry.add(known)
    assert registry.close_silent(2.0, Use.IDLE, Use.STREAM) == gone
    assert known.declared_dead == gone


def test_a_connection_that_nobody_uses_any_more_is_forgotten() -> None:
    registry = ConnectionRegistry()
    registry.add(Known(Use.IDLE, 0.0))
    gc.collect()
    assert registry.close_silent(1.0, Use.IDLE) == 0


class Pooled(Connection):
    """A connection without a socket."""

    def __init__(self) -> None:
        self.use = Use.EXCHANGE
        self.generation = 0
        self.closed = False

    def stale(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def pool() -> ConnectionPool:
    return ConnectionPool(Pooled)


@pytest.mark.parametrize("end", [ConnectionPool.close, ConnectionPool.clear], ids=["closed", "cleared"])
def test_a_connection_in_use_is_closed_when_it_is_given_back_after_the_end_of_its_pool(
    pool: ConnectionPool, end: Callable[[ConnectionPool], None]
) -> None:
    """A pool is closed with its session, and cleared when there is a new certificate."""
    used = pool.take()
    end(pool)
    pool.give_back(used)
    assert isinstance(used, Pooled)
    assert used.closed
    assert pool.take() is not used


@pytest.mark.parametrize(
    ("end", "kept"),
    [
        pytest.param(ConnectionPool.close, False, id="closed"),
        pytest.param(ConnectionPool.clear, True, id="cleared"),
    ],
)
def test_a_later_connection_is_kept_by_a_pool_that_was_cleared_only(
    pool: ConnectionPool, end: Callable[[ConnectionPool], None], kept: bool
) -> None:
    end(pool)
    later = pool.take()
    later.generation = pool.generation
    pool.give_back(later)
    assert isinstance(later, Pooled)
    assert later.closed is not kept
    assert (pool.take() is later) == kept
