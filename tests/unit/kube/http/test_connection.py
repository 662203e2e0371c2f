"""Which connections are given up where one was found silent, and which the pool keeps."""

from __future__ import annotations

import gc

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


def test_a_connection_that_was_in_use_when_the_pool_was_closed_is_closed_when_it_is_given_back(
    pool: ConnectionPool,
) -> None:
    used = pool.take()
    pool.close()
    pool.give_back(used)
    assert isinstance(used, Pooled)
    assert used.closed


def test_a_closed_pool_keeps_no_later_connection_either(pool: ConnectionPool) -> None:
    pool.close()
    later = pool.take()
    later.generation = pool.generation
    pool.give_back(later)
    assert isinstance(later, Pooled)
    assert later.closed


def test_a_connection_that_was_in_use_when_the_pool_was_cleared_is_not_used_again(
    pool: ConnectionPool,
) -> None:
    """It has the old certificate, for instance."""
    used = pool.take()
    pool.clear()
    pool.give_back(used)
    assert isinstance(used, Pooled)
    assert used.closed
    later = pool.take()
    assert later is not used
    later.generation = pool.generation
    pool.give_back(later)
    assert pool.take() is later
