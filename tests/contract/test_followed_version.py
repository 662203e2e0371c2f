"""Programs that stay while their API server is upgraded: resized pods count as in its version of now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import pytest

from kubectl_plugin.console.cluster.cluster_watch import ClusterWatch
from sandbox.api.discovery import VERSION
from scheduler_core.app.wiring import RunningScheduler
from scheduler_core.config.load import muster_config
from scheduler_core.kube.client import Client
from scheduler_core.kube.connect import Overrides, connect
from scheduler_core.kube.errors import Unreachable
from scheduler_core.kube.watch import reflector
from scheduler_core.kube.watch.reading import plain_reader
from scheduler_core.kube.watch.reflector import Reflector, ReflectorOptions
from scheduler_core.model.kinds import PODS
from scheduler_core.model.resources import ResourceList
from tests.support.clusters.sandbox_server import SandboxServer
from tests.support.eventually import eventually
from tests.support.faults.ground import install_crds
from tests.support.resized_pods import MOVED, put, quota, resized_pod
from tests.support.watched import QUICK, Mirror, Watched, client_of, parse

# A watch ends after a second, as it does after minutes in production.
BRIEF = partial(ReflectorOptions, backoff=0.02, backoff_cap=0.1, watch_min=1, watch_max=1, brief=0.05)
WAIT = 30.0
# What a pod counts for, two of whose CPUs move from one container to the other.
CPU_OF = {"36": 6000, "37": 4000}


def written(client: Client) -> None:
    """A resized pod under a quota."""
    for obj in (resized_pod("default/p", MOVED), quota()):
        put(client, obj)


def _cpu(used: ResourceList) -> int:
    return used.get("cpu", 0)


@contextmanager
def scheduler(client: Client) -> Iterator[Callable[[], int]]:
    """What the scheduler charges the quota."""
    process = RunningScheduler(muster_config(), client, "test")
    process.start()
    try:
        yield lambda: process.ask(lambda found: _cpu(found.state.ledger.used("default")))
    finally:
        process.stop_deciding(5.0)
        process.close(5.0)


@contextmanager
def console(client: Client) -> Iterator[Callable[[], int]]:
    """What the web view shows of the quota, if a run of the scheduler in it counts the same."""
    watch = ClusterWatch(client, "default")
    watch.start()

    def shown() -> int:
        with watch.cluster.lock:
            found = _cpu(watch.cluster.view.ledger.used("default"))
            twin = watch.cluster.simulation.copy()
            raw = twin.get("Pod", "default", "p")
            if raw is not None:
                twin.update(raw)
            return found if found == _cpu(twin.state.ledger.used("default")) else -1

    try:
        assert watch.ready.wait(WAIT)
        yield shown
    finally:
        watch.stop()


PROGRAMS = {"the scheduler": scheduler, "the console": console}
CHANGES = {"an upgrade": ("36", "37"), "a downgrade": ("37", "36")}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize(("before", "later"), CHANGES.values(), ids=CHANGES)
def test_pods_count_anew_when_the_server_is_of_another_version(
    program: Callable[[Client], Iterator[Callable[[], int]]],
    before: str,
    later: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reflector, "ReflectorOptions", BRIEF)
    monkeypatch.setitem(VERSION, "minor", before)
    with SandboxServer() as server:
        client = connect(Overrides(kubeconfig=str(server.kubeconfig)))[0]
        install_crds(server)
        written(client)
        with program(client) as charged:  # type: ignore[attr-defined]
            eventually(lambda: charged() == CPU_OF[before], WAIT)
            VERSION["minor"] = later
            eventually(lambda: charged() == CPU_OF[later], WAIT)
        client.session.close()


def test_objects_are_made_anew_without_a_change_of_them() -> None:
    with Watched() as watched:
        differs, mirror = [False, True], Mirror()
        reader = plain_reader(parse, lambda: differs.pop(0) if differs else False)
        client = client_of(watched.server)
        follower = Reflector(client, PODS, reader, mirror.take, options=QUICK)
        follower.start()
        eventually(lambda: [event.type for event in mirror.log].count("MODIFIED") == 30, WAIT)
        follower.stop()
        follower.join(WAIT)
        client.session.close()
        assert [event.type for event in mirror.log].count("ADDED") == 30
        assert mirror.wrong == []


def test_no_event_costs_a_question() -> None:
    with Watched() as watched:
        asked: list[None] = []
        client, mirror = client_of(watched.server), Mirror()
        reader = plain_reader(parse, lambda: asked.append(None) is not None)
        follower = Reflector(client, PODS, reader, mirror.take, options=QUICK)
        follower.start()
        eventually(lambda: follower.watches, WAIT)
        for number in range(200):
            watched.server.put("pods", "a", "pod-1", value=number + 1)
        eventually(lambda: mirror.versions == watched.server.truth("pods"), WAIT)
        follower.stop()
        follower.join(WAIT)
        client.session.close()
        assert len(asked) <= 1 + follower.restarts.total()


def test_a_server_that_cannot_be_asked_is_away() -> None:
    with Watched() as watched:
        away = [Unreachable("away", sent=False), Unreachable("away", sent=False)]

        def differs() -> bool:
            if away:
                raise away.pop()
            return False

        client, mirror = client_of(watched.server), Mirror()
        follower = Reflector(client, PODS, plain_reader(parse, differs), mirror.take, options=QUICK)
        follower.start()
        assert follower.synced.wait(WAIT)
        follower.stop()
        follower.join(WAIT)
        client.session.close()
        assert follower.restarts["unreachable"] == 2
