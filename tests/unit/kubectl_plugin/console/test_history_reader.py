"""The history is read once a minute, by one of those who ask; nobody waits for what is known."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kubectl_plugin.cluster.quota_history import HistoryRead
from kubectl_plugin.console.cluster.history_reader import HOLDS_SECONDS, HistoryReader, PastRead
from scheduler_core.answers.showback import Period
from tests.support.eventually import eventually

WEEK, DAY = 7 * 86_400.0, 86_400.0


class Slow(HistoryReader):
    """Reads take until `go` is set. `read` holds the periods, in order."""

    def __init__(self) -> None:
        client: Any = None
        self.now = 0.0
        super().__init__(client, "muster-system", "", monotonic=lambda: self.now)
        self.go = threading.Event()
        self.go.set()
        self.read: list[float] = []

    def _read(self, seconds: float) -> PastRead:
        self.read.append(seconds)
        assert self.go.wait(20)
        return PastRead(Period.back(1e9 + len(self.read), seconds), HistoryRead(), (), ())


def test_a_period_is_read_once_a_minute() -> None:
    reader = Slow()
    first = reader.past(WEEK)
    reader.now = HOLDS_SECONDS - 1
    assert reader.past(WEEK) is first
    reader.now = HOLDS_SECONDS
    assert reader.past(WEEK) is not first
    assert (reader.read, reader.serial) == ([WEEK, WEEK], 2)


def test_while_one_reads_the_others_get_what_was_known() -> None:
    reader = Slow()
    known = reader.past(WEEK)
    reader.now = HOLDS_SECONDS
    reader.go.clear()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reader.past, WEEK)
        eventually(lambda: len(reader.read) == 2)
        assert reader.past(WEEK) is known
        reader.go.set()
        assert reading.result(20) is not known
    assert reader.read == [WEEK, WEEK]


def test_of_many_who_ask_first_one_reads() -> None:
    reader = Slow()
    reader.go.clear()
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(reader.past, period) for period in (WEEK, WEEK, WEEK, WEEK, DAY, DAY)]
        eventually(lambda: bool(reader.read))
        assert not any(item.done() for item in asked)
        reader.go.set()
        assert len({id(item.result(20)) for item in asked}) == 2
    assert sorted(reader.read) == [DAY, WEEK]


def test_a_reading_that_fails_lets_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Slow()
    with monkeypatch.context() as broken:
        broken.setattr(reader, "_read", lambda seconds: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reader.past(WEEK)
    assert reader.past(WEEK).read == HistoryRead()
