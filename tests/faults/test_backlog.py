"""The leader is killed while twenty thousand pods wait under a full quota."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.test_leaders import pair
from tests.support.eventually import eventually
from tests.support.fault_burst import Losses
from tests.support.fault_stage import SOME, Stage

pytestmark = pytest.mark.timeout(600)

Record = Callable[[str, int, Losses], None]
BACKLOG = int(os.environ.get("MUSTER_BACKLOG", "20000"))
CLIENTS = 8
# Seconds: until so many are created and seen, and until the next leader has read them all.
CREATED, TAKEN_OVER = 240.0, 60.0


def test_a_leader_killed_with_a_backlog_is_followed_by_one_that_goes_on(stage: Stage, record: Record) -> None:
    burst = stage.unwatched_burst()
    full = burst.add_namespace("full", 1)
    with pair(stage, burst) as two:
        with ThreadPoolExecutor(CLIENTS) as clients:
            list(clients.map(lambda number: burst.create(full, f"w{number}"), range(BACKLOG)))
        eventually(lambda: two.leader.metric("scheduler_pending_pods") >= BACKLOG - 1, CREATED, interval=1.0)
        burst.begin()
        burst.await_bound(SOME)
        two.leader.process.kill()
        eventually(lambda: two.other.leads, TAKEN_OVER)
        losses = burst.settle(lambda: two.other)
    record(f"leader killed with a backlog of {BACKLOG:,}", 1, losses)
