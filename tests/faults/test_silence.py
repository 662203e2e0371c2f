"""Connections that go silent in the middle of a burst: nothing passes any more, and nobody is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from http import HTTPStatus

import pytest

from tests.support.eventually import eventually
from tests.support.faults.burst import CAPPED, GANG, Burst, Losses
from tests.support.faults.relay import ServerRelay
from tests.support.faults.rules import Call
from tests.support.faults.stage import SOME, Stage
from tests.support.http2.conversation import HTTP_1, HTTP_2

pytestmark = pytest.mark.timeout(240)

Record = Callable[[str, int, Losses], None]
# Within which every binding is settled: near three times the time on a machine with nothing else to do.
# Without any of the measures it takes 30 s or more.
SECONDS = 28.0
SILENCES = 2


@pytest.mark.parametrize("protocol", [HTTP_2, HTTP_1])
def test_bindings_are_settled_soon_after_every_connection_went_silent(
    stage: Stage, record: Record, protocol: str
) -> None:
    burst = stage.unwatched_burst()
    door = stage.proxy.door(f"silent-{protocol.replace('/', '-')}", protocols=(protocol,))
    with ServerRelay(door, stage.folder / f"{door.name}.relayed") as relay:
        process = stage.start(f"--leader-elect-resource-namespace={burst.capped}", server=relay, elect=True)
        try:
            lose(stage, relay, burst)
            losses = burst.settle(lambda: process)
            assert process.process.poll() is None, "the scheduler did not live through it"
            assert process.leads
        finally:
            process.process.kill()
            process.process.wait(60)
    record(f"every connection of {protocol} silent, nobody told", SILENCES, losses)


def lose(stage: Stage, relay: ServerRelay, burst: Burst) -> None:
    """In the midst of the writes; and while all is quiet, so that news of a pod does not come either."""
    burst.begin()
    burst.await_bound(SOME)
    assert relay.swallow() > 0
    eventually(lambda: burst.bound == CAPPED + GANG, SECONDS, interval=0.01)
    # Whoever renews the lease again has got the answer to the last time, over a connection that is well. A
    # renewal that meets a Conflict has not: if this answer is lost as well, leadership ends.
    settled = time.monotonic()
    eventually(lambda: len(stage.journal.found(is_renewal, since=settled)) > 1, 30)
    assert relay.swallow() > 0
    burst.churn()
    eventually(lambda: burst.bound == CAPPED + GANG, SECONDS, interval=0.01)


def is_renewal(call: Call) -> bool:
    return call.verb == "PUT" and "/leases/" in call.path and call.answered and call.status == HTTPStatus.OK
