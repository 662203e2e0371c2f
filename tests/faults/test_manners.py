"""How much a scheduler asks of the API server when it starts, and when nothing happens."""

from __future__ import annotations

import time
from collections import Counter

import pytest

from scheduler_core.kube.paths import resource_path
from scheduler_core.model.watched import WATCHED
from tests.support.eventually import eventually
from tests.support.fault_burst import SETTLE_SECONDS, Losses
from tests.support.fault_rules import Call
from tests.support.fault_stage import Stage

pytestmark = pytest.mark.timeout(300)

QUIET_SECONDS = 2.0
WINDOW_SECONDS = 8.0


def test_a_start_costs_one_list_and_one_watch_of_each_kind(stage: Stage) -> None:
    started = stage.start(door="starting")
    paths = {resource_path(resource) for resource, _ in WATCHED}

    def asked() -> bool:
        calls = stage.journal.found(lambda call: call.door == "starting")
        served = paths - {call.path for call in calls if call.status == 404}
        counts = Counter((call.verb, call.path) for call in calls if call.path in served)
        # Nodes are asked for once more, to say at once what is wrong with an address or a right.
        counts["list", "/api/v1/nodes"] -= 1
        assert counts == {(verb, path): 1 for verb in ("list", "watch") for path in served}
        return True

    eventually(asked, SETTLE_SECONDS)
    started.end()


def test_a_leader_with_nothing_to_do_asks_at_most_once_a_second(stage: Stage) -> None:
    burst = stage.unwatched_burst()
    flags = (f"--leader-elect-resource-namespace={burst.capped}",)
    leader = stage.start(*flags, door="idle", elect=True)
    eventually(lambda: leader.leads, SETTLE_SECONDS)
    burst.begin()
    losses: Losses = burst.settle(lambda: leader)
    assert losses.all() == []

    def asked(since: float) -> list[Call]:
        return stage.journal.found(lambda call: call.door == "idle", since)

    def quiet() -> bool:
        # Renewals of the lease go on; what the burst caused has ended.
        return all("/leases" in call.path for call in asked(time.monotonic() - QUIET_SECONDS))

    eventually(quiet, SETTLE_SECONDS)
    began = time.monotonic()
    while (passed := time.monotonic() - began) < WINDOW_SECONDS:
        time.sleep(WINDOW_SECONDS - passed)
    calls = asked(began)
    assert len(calls) <= passed, [(call.verb, call.path) for call in calls]
    leader.end()
