"""What a test does to its process is not seen by the next one."""

from __future__ import annotations

import signal

import pytest

# A run under nohup ignores SIGHUP from its start.
SIGNALS = (signal.SIGINT, signal.SIGTERM)


@pytest.mark.parametrize("turn", ["first", "second"])
def test_signals_that_a_program_ignores_at_its_end_are_not_ignored_by_the_next(turn: str) -> None:
    assert signal.SIG_IGN not in map(signal.getsignal, SIGNALS)
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
