"""Which connections are given up where one was found silent."""

from __future__ import annotations

import gc

import pytest

from scheduler_core.kube.http.connection import Connection, ConnectionRegistry, Use


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
