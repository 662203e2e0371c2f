"""The history is read once a minute, by one of those who ask; nobody waits for what is known.

What cannot be read is no zero: what was known stays, and it is read again soon.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from kubectl_plugin.cluster.quota_history import HistoryRead
from kubectl_plugin.console.cluster.history_reader import (
    HOLDS_SECONDS,
    RETRY_SECONDS,
    Gap,
    HistoryReader,
    PastRead,
)
from scheduler_core.answers.showback import Period
from scheduler_core.kube.errors import ApiError, Forbidden, Unreachable
from scheduler_core.kube.paging import Page
from scheduler_core.model.kinds import Resource
from tests.support.eventually import eventually
from tests.unit.kubectl_plugin.plugin_api import quota_object

WEEK, DAY = 7 * 86_400.0, 86_400.0


class Slow(HistoryReader):
    """Reads take until `go` is set. `periods` holds those that were read, in order."""

    def __init__(self) -> None:
        client: Any = None
        self.now = 0.0
        super().__init__(client, "muster-system", "", monotonic=lambda: self.now)
        self.go = threading.Event()
        self.go.set()
        self.periods: list[float] = []

    def read(self, seconds: float) -> PastRead:
        self.periods.append(seconds)
        assert self.go.wait(20)
        return PastRead(Period.back(1e9 + len(self.periods), seconds), HistoryRead(), (), ())


def test_a_period_is_read_once_a_minute() -> None:
    reader = Slow()
    first = reader.past(WEEK)
    reader.now = HOLDS_SECONDS - 1
    assert reader.past(WEEK) is first
    reader.now = HOLDS_SECONDS
    assert reader.past(WEEK) is not first
    assert (reader.periods, reader.serial) == ([WEEK, WEEK], 2)


def test_while_one_reads_the_others_get_what_was_known() -> None:
    reader = Slow()
    known = reader.past(WEEK)
    reader.now = HOLDS_SECONDS
    reader.go.clear()
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(reader.past, WEEK)
        eventually(lambda: len(reader.periods) == 2)
        assert reader.past(WEEK) is known
        reader.go.set()
        assert reading.result(20) is not known
    assert reader.periods == [WEEK, WEEK]


def test_of_many_who_ask_first_one_reads() -> None:
    reader = Slow()
    reader.go.clear()
    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(reader.past, period) for period in (WEEK, WEEK, WEEK, WEEK, DAY, DAY)]
        eventually(lambda: bool(reader.periods))
        assert not any(item.done() for item in asked)
        reader.go.set()
        assert len({id(item.result(20)) for item in asked}) == 2
    assert sorted(reader.periods) == [DAY, WEEK]


def test_a_reading_that_fails_lets_the_next_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Slow()
    with monkeypatch.context() as broken:
        broken.setattr(reader, "read", lambda seconds: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            reader.past(WEEK)
    assert reader.past(WEEK).read == HistoryRead()


class Server:
    """An API server with a reclaimed quota and no history; `broken` are the errors of kinds."""

    def __init__(self) -> None:
        self.broken: dict[str, ApiError] = {}
        self.asked: list[str] = []

    def get_page(self, resource: Resource, namespace: str = "", **query: Any) -> Page:
        self.asked.append(resource.plural)
        if resource.plural in self.broken:
            raise self.broken[resource.plural]
        items = []
        if resource.plural == "elasticquotas":
            quota = quota_object("team-a", min={"cpu": "4"})
            quota["status"]["lastReclaim"] = {"time": "2100-01-01T00:00:00Z", "by": "Pod b/p", "pods": 1}
            items.append(msgspec.Raw(msgspec.json.encode(quota)))
        return Page(items=items)

    def away(self) -> None:
        """Nobody listens any more."""
        problem = "https://api:6443/api: [Errno 111] Connection refused"
        error = Unreachable(problem, sent=False, refused=True, method="GET", path="/api?limit=500")
        self.broken = dict.fromkeys(("configmaps", "elasticquotas", "events"), error)


class Clock:
    now = 0.0


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def reader(server: Server, clock: Clock) -> HistoryReader:
    client: Any = server
    return HistoryReader(client, "muster-system", "", monotonic=lambda: clock.now)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def later(clock: Clock) -> Callable[[float], None]:
    def wait(seconds: float) -> None:
        clock.now += seconds

    return wait


def forbidden() -> Forbidden:
    return Forbidden(403, "Forbidden", "you cannot list it", method="GET", path="/api?limit=500")


def test_an_outage_leaves_what_was_known_and_tells_of_when_it_is(
    reader: HistoryReader, server: Server, later: Callable[[float], None]
) -> None:
    good = reader.past(WEEK)
    assert (good.gaps, len(good.reclaims)) == ((), 1)
    server.away()
    later(HOLDS_SECONDS)
    found = reader.past(WEEK)
    assert (found.period, found.read, found.reclaims) == (good.period, good.read, good.reclaims)
    assert found.use_gap is not None
    assert [gap.cause for gap in found.gaps] == ["outage", "outage"]
    assert found.gaps[0].problem.startswith(
        "the history cannot be read now: The connection to the server api"
    )
    assert found.gaps[1].problem.startswith("the history is shown as it was read at 20")
    assert [gap.stale for gap in found.gaps[:2]] == [False, True]
    assert "limit=500" not in str(found.gaps)
    later(HOLDS_SECONDS)
    assert reader.past(WEEK) == found


def test_a_failure_is_forgotten_soon(
    reader: HistoryReader, server: Server, later: Callable[[float], None]
) -> None:
    server.away()
    first = reader.past(WEEK)
    assert (first.reclaims, [gap.of_use for gap in first.gaps]) == ((), [True])
    server.broken = {}
    later(RETRY_SECONDS - 1)
    assert reader.past(WEEK) is first
    later(1)
    assert reader.past(WEEK).gaps == ()


def test_a_server_that_is_away_is_asked_for_one_kind_only(reader: HistoryReader, server: Server) -> None:
    server.away()
    reader.past(DAY)
    assert set(server.asked) == {"configmaps"}


def test_a_right_that_is_missing_is_named_and_what_else_is_known_is_told(
    reader: HistoryReader, server: Server, later: Callable[[float], None]
) -> None:
    reader.past(WEEK)
    server.broken = {"configmaps": forbidden()}
    later(HOLDS_SECONDS)
    found = reader.past(WEEK)
    assert (found.read, len(found.reclaims)) == (HistoryRead(), 1)
    assert [(gap.cause, gap.of_use) for gap in found.gaps] == [("right", True)]
    assert "right to list configmaps" in found.gaps[0].problem
    # The console has no such flag.
    assert "--history-namespace" not in found.gaps[0].problem
    # Nothing of before is told to those who may no longer read it, not even in an outage.
    server.away()
    later(RETRY_SECONDS)
    assert reader.past(WEEK).reclaims == ()


def test_what_was_taken_back_stays_known_where_only_that_cannot_be_read(
    reader: HistoryReader, server: Server, later: Callable[[float], None]
) -> None:
    good = reader.past(WEEK)
    server.away()
    del server.broken["configmaps"]
    later(HOLDS_SECONDS)
    found = reader.past(WEEK)
    assert (found.use_gap, found.reclaims) == (None, good.reclaims)
    assert [gap.cause for gap in found.gaps] == ["outage", "outage"]
    assert found.gaps[1].problem.startswith("what was taken back is shown as it was read at 20")


def test_without_the_right_to_list_quotas_it_is_said_what_is_missing(
    reader: HistoryReader, server: Server
) -> None:
    server.broken = {"elasticquotas": forbidden()}
    found = reader.past(WEEK)
    assert found.gaps == (
        Gap(
            "the last reclaim of each quota, and the prices in its annotation, are not known: "
            "they need the right to list elasticquotas.scheduling.x-k8s.io",
            "right",
        ),
    )


def test_only_what_may_be_over_soon_is_read_again_soon() -> None:
    assert Gap("x", "outage").brief
    assert Gap("x", "right", of_use=True).brief
    assert not Gap("you may not list events", "right").brief
    assert not Gap("x", "damage", of_use=True).brief
