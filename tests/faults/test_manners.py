"""How much scheduler and webhook ask of the API server when they start, and when nothing happens."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from scheduler_core.kube.paths import api_root, resource_path
from scheduler_core.model.kinds import EVENTS, Resource
from scheduler_core.model.kinds import PODS as POD_KIND
from scheduler_core.model.watched import WATCHED
from tests.support.clusters.server import RequestFailed, request
from tests.support.eventually import eventually
from tests.support.faults.burst import CAPPED, PODS, SETTLE_SECONDS, Losses
from tests.support.faults.rules import Call
from tests.support.faults.stage import Stage
from tests.support.webhooks.process import WebhookProcess
from webhook.view.cache import WATCHED as WEBHOOK_WATCHED
from webhook.view.owners import WORKLOADS

pytestmark = pytest.mark.timeout(300)

QUIET_SECONDS = 2.0
WINDOW_SECONDS = 8.0
REPLICAS = 3
# What replicas ask when nothing happens is watched after their second start, for seconds.
AGAIN = "again"
STARTS = ("first", AGAIN)
# Beyond one list and one watch of each kind: discovery, the first look at nodes, Lease, registration.
MORE = 10


def served_paths(stage: Stage, kinds: Sequence[Resource]) -> set[str]:
    """The path of each kind that the server has, in the best version that Muster can read."""

    def serves(kind: Resource) -> bool:
        try:
            found = request(stage.ground.server, "GET", api_root(kind))
        except RequestFailed as failed:
            if failed.status != 404:
                raise
            return False
        return any(resource["name"] == kind.plural for resource in found["resources"])

    paths = set()
    for kind in kinds:
        in_versions = [msgspec.structs.replace(kind, version=version) for version in kind.versions] or [kind]
        if (best := next(filter(serves, in_versions), None)) is not None:
            paths.add(resource_path(best))
    return paths


def test_a_start_costs_one_list_and_one_watch_of_each_kind(stage: Stage) -> None:
    served = served_paths(stage, [kind for kind, _ in WATCHED])
    started = stage.start(door="starting")

    def asked() -> bool:
        calls = stage.journal.found(lambda call: call.door == "starting")
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

    # Each pod that waits has a last Event and the count of the one before, told when their interval is over.
    check_idle(stage, ["idle"], events=2 * (PODS - CAPPED))
    leader.end()


def check_start(stage: Stage, door: str, kinds: Sequence[Resource]) -> None:
    """One list and one watch of each kind that the server has, each time it is named; few requests beside."""
    paths = served_paths(stage, kinds)
    absent = {resource_path(kind) for kind in kinds} - paths
    again = [kind for number, kind in enumerate(kinds) if kind in kinds[:number]]
    wanted = Counter([*paths, *map(resource_path, again)])

    def calls() -> list[Call]:
        return stage.journal.found(
            lambda call: call.door == door and "/leases" not in call.path and call.path not in absent
        )

    def watching() -> bool:
        found = calls()
        return wanted <= Counter(call.path for call in found if call.verb == "watch")

    eventually(watching, SETTLE_SECONDS)
    counts = Counter((call.verb, call.path) for call in calls())
    assert {path: counts.pop(("watch", path)) for path in paths} == wanted
    counts.subtract({("list", path): number for path, number in wanted.items()})
    assert (+counts).total() <= MORE, +counts


def check_idle(stage: Stage, doors: Sequence[str], events: int = 0) -> None:
    """Once it is quiet, each replica asks at most once a second.

    Notes of what happened before are written up to 30 seconds later: at most `events` of them may follow.
    """

    def asked(since: float) -> list[Call]:
        return stage.journal.found(lambda call: call.door in doors, since)

    def quiet() -> bool:
        calls = asked(time.monotonic() - QUIET_SECONDS)
        return all("/leases" in call.path for call in calls)

    eventually(quiet, SETTLE_SECONDS)
    began = time.monotonic()
    while (passed := time.monotonic() - began) < WINDOW_SECONDS:
        time.sleep(WINDOW_SECONDS - passed)
    calls = asked(began)
    notes = [call for call in calls if f"/{EVENTS.plural}" in call.path]
    assert len(notes) <= events, [(call.verb, call.path) for call in notes]
    for door in doors:
        others = [call for call in calls if call.door == door and call not in notes]
        assert len(others) <= passed, [(call.verb, call.path) for call in others]


def start_all(stage: Stage, name: str, start: Callable[[str], object]) -> list[str]:
    """The doors of three replicas that were started one after the other, with what each asked so far."""
    doors = [f"{name}-{index}" for index in range(REPLICAS)]
    for door in doors:
        start(door)
    return doors


def test_three_schedulers_that_restart_ask_little(stage: Stage) -> None:
    burst = stage.unwatched_burst()
    flags = (f"--leader-elect-resource-namespace={burst.capped}",)
    running = []
    for time_ in STARTS:
        doors = start_all(
            stage,
            f"scheduler-{time_}",
            lambda door: running.append(stage.start(*flags, door=door, elect=True)),
        )
        for door in doors:
            check_start(stage, door, [kind for kind, _ in WATCHED])
        if time_ == AGAIN:
            check_idle(stage, doors)
        while running:
            running.pop().end()


def test_three_webhooks_that_restart_ask_little(stage: Stage, tmp_path: Path) -> None:
    # Of pods, those that passed by, the default scheduler's, and those that name their group themselves.
    kinds = [*(kind for kind, _ in WEBHOOK_WATCHED), *WORKLOADS, POD_KIND, POD_KIND]
    for time_ in STARTS:
        with ExitStack() as exits:

            def start(door: str) -> None:
                server = stage.proxy.door(door)
                certificates = ("--cert-dir", str(tmp_path / "certificates"), "--drain", "0")
                started = WebhookProcess(server, tmp_path / f"{door}.log", *certificates)
                exits.callback(started.kill)

            doors = start_all(stage, f"webhook-{time_}", start)
            for door in doors:
                check_start(stage, door, kinds)
            if time_ == AGAIN:
                check_idle(stage, doors)
