"""An API server that is killed, forgets its past, or shows an expired certificate, amid a burst."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest

from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.faults.burst import Losses
from tests.support.faults.outage import noticed, server_down
from tests.support.faults.proxy import expired
from tests.support.faults.stage import SOME, Stage

pytestmark = pytest.mark.timeout(300)

Record = Callable[[str, int, Losses], None]


def compact(stage: Stage) -> None:
    """The past is gone from storage, and from whatever caches it."""
    server = stage.ground.server
    if isinstance(server, SandboxServer):

        async def forget() -> None:
            server.api.compact()

        server.run(forget())
        return
    server.compact()
    server.kill_apiserver()
    server.start_apiserver()


def test_an_api_server_killed_and_started_again_in_the_middle_of_a_burst(
    stage: Stage, record: Record
) -> None:
    burst = stage.burst()
    process = stage.process
    burst.begin()
    burst.await_bound(SOME)
    with server_down(stage), noticed(process, "unreachable"):
        pass
    losses = burst.settle(lambda: stage.process)
    assert stage.process is process, "the scheduler did not live through it"
    record("API server killed -9 and started again", 1, losses)


def test_a_past_that_was_compacted_away_while_the_scheduler_was_cut_off(stage: Stage, record: Record) -> None:
    burst = stage.burst()
    process, door = stage.process, stage.proxy.door("main")
    with noticed(process, "expired"):
        with noticed(process, "unreachable"):
            door.close()
        burst.begin()
        compact(stage)
        door.open()
    losses = burst.settle(lambda: stage.process)
    assert stage.process is process, "the scheduler did not live through it"
    record("etcd compacted while the scheduler was cut off", 1, losses)


def test_an_expired_serving_certificate_is_survived_until_a_new_one_comes(
    stage: Stage, record: Record
) -> None:
    burst = stage.burst()
    process, door = stage.process, stage.proxy.door("main")
    good, bad = stage.proxy.context(), stage.proxy.context(expired())
    burst.begin()
    burst.await_bound(SOME)
    with noticed(process, "unreachable"):
        door.show(bad)
    door.show(good)
    losses = burst.settle(lambda: stage.process)
    assert stage.process is process, "the scheduler did not live through it"
    assert "its certificate is not trusted: certificate has expired" in process.said()
    record("expired serving certificate", 1, losses)


def test_a_scheduler_that_was_suspended_during_the_burst_catches_up(stage: Stage, record: Record) -> None:
    burst = stage.burst()
    process = stage.process
    process.process.send_signal(signal.SIGSTOP)
    try:
        burst.begin()
        compact(stage)
    finally:
        process.process.send_signal(signal.SIGCONT)
    losses = burst.settle(lambda: stage.process)
    assert stage.process is process, "the scheduler did not live through it"
    record("scheduler stopped and continued, the past compacted", 1, losses)
