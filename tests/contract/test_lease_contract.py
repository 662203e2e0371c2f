"""Leader election on a scripted server, on times of production divided by about five."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.client import Client
from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.session import Session
from scheduler_core.kube.lease import LeaderElector, LeaseTimes
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault

TIMES = LeaseTimes(duration=3.0, renew_deadline=1.8, retry=0.2)
WAIT = 40.0
KEY = ("leases", "muster", "scheduler")


class Candidate:
    """An election on a thread of its own, whose sleep can be frozen like that of a suspended process."""

    def __init__(
        self, url: str, identity: str, wall: Callable[[], float] = time.time, times: LeaseTimes = TIMES
    ) -> None:
        self.started = 0
        self.lost: list[str] = []
        self.frozen = threading.Event()
        self._stopped = threading.Event()
        client = Client(Session(Endpoint(url), StaticCredentials()))
        self.election = LeaderElector(
            client,
            "muster",
            "scheduler",
            identity,
            times=times,
            on_started=self._start,
            on_lost=self.lost.append,
            wall=wall,
            wait=self._wait,
        )
        self.thread = threading.Thread(target=self.election.run, daemon=True)

    def _start(self) -> None:
        self.started += 1

    def _wait(self, seconds: float) -> bool:
        stopped = self._stopped.wait(seconds)
        while self.frozen.is_set() and not stopped:
            stopped = self._stopped.wait(0.005)
        return stopped

    def campaign(self) -> Candidate:
        self.thread.start()
        return self

    def stop(self) -> None:
        self.election.stop()
        self._stopped.set()
        self.thread.join(WAIT)
        assert not self.thread.is_alive()
        self.election.close()


class Watchman:
    """Looks at all candidates all the time and counts the looks that saw two leaders."""

    def __init__(self, *candidates: Candidate) -> None:
        self.doubles = 0
        self._candidates = candidates
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._get, daemon=True)
        self._thread.start()

    def _get(self) -> None:
        while not self._stopping.wait(0.001):
            self.doubles += sum(c.election.is_leader() for c in self._candidates) > 1

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join(WAIT)


@pytest.fixture
def stage(server: FaultServer) -> Iterator[Callable[..., list[Candidate]]]:
    """Starts candidates, the first of which leads, under the eyes of a watchman."""
    everybody: list[Candidate] = []
    watchmen: list[Watchman] = []

    def start(
        *urls: str, walls: tuple[Callable[[], float], ...] = (), times: LeaseTimes = TIMES
    ) -> list[Candidate]:
        clocks = walls or (time.time,) * len(urls)
        everybody.extend(Candidate(url, f"c{n}", clocks[n], times) for n, url in enumerate(urls))
        everybody[0].campaign()
        eventually(everybody[0].election.is_leader, WAIT, interval=0.005)
        for rival in everybody[1:]:
            rival.campaign()
        eventually(lambda: all(c.election.holder == "c0" for c in everybody), WAIT, interval=0.005)
        watchmen.append(Watchman(*everybody))
        return everybody

    yield start
    for candidate in everybody:
        candidate.stop()
    for watchman in watchmen:
        watchman.stop()
        assert watchman.doubles == 0


def holder(server: FaultServer) -> str:
    return server.objects[KEY]["spec"]["holderIdentity"]


def test_one_leads_and_a_clean_exit_hands_over_without_waiting_for_the_lease(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    first, second = stage(server.url, server.url)
    time.sleep(TIMES.duration * 1.2)
    assert (first.started, second.started) == (1, 0)
    began = time.monotonic()
    first.stop()
    eventually(second.election.is_leader, WAIT, interval=0.005)
    assert time.monotonic() - began < TIMES.duration
    assert first.lost == []
    assert server.objects[KEY]["spec"]["leaseTransitions"] == 1


def test_a_partitioned_leader_gives_up_before_the_next_one_starts(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    with server.side_door() as (url, cut):
        first, second = stage(url, server.url)
        began = time.monotonic()
        cut()
        eventually(lambda: first.lost, WAIT, interval=0.005)
        assert not second.election.is_leader()
        eventually(second.election.is_leader, WAIT, interval=0.005)
        assert time.monotonic() - began < TIMES.duration * 3
    assert first.lost == ["the lease muster/scheduler was not renewed for 1.8 s"]


def test_a_suspended_leader_does_not_believe_in_itself_when_it_wakes(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    first, second = stage(server.url, server.url)
    first.frozen.set()
    eventually(second.election.is_leader, WAIT, interval=0.005)
    assert not first.election.is_leader()
    first.frozen.clear()
    eventually(lambda: first.lost, WAIT, interval=0.005)
    assert holder(server) == "c1"


def test_steps_of_the_wall_clock_change_nothing(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    shift = [0.0, 0.0]
    walls = (lambda: time.time() + shift[0], lambda: time.time() + shift[1])
    first, second = stage(server.url, server.url, walls=walls)
    for steps in ([3600.0, 0.0], [-3600.0, 0.0], [0.0, 3600.0], [0.0, -3600.0]):
        shift[:] = steps
        time.sleep(TIMES.retry * 4)
        assert first.election.is_leader()
    assert (first.lost, second.started) == ([], 0)


def test_a_leader_survives_errors_conflicts_and_lost_answers(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    first, second = stage(server.url, server.url)
    faults = [
        Fault("PUT", status=500),
        Fault("PUT", status=409, reason="Conflict"),
        Fault("PUT", lose=True),
        Fault("PUT", silent=True),
        Fault("GET", status=500),
    ]
    for fault in faults:
        server.fail(fault)
        time.sleep(TIMES.retry * 4)
    assert first.election.is_leader()
    assert (first.lost, second.started) == ([], 0)


def test_a_leader_keeps_its_lease_on_a_server_that_answers_late(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    times = LeaseTimes(duration=3.0, renew_deadline=2.0, retry=0.2)
    first, second = stage(server.url, server.url, times=times)
    renewals = server.count("PUT")
    server.fail(Fault("PUT", times=5, late=times.renew_deadline * 0.28))
    eventually(lambda: server.count("PUT") >= renewals + 6 or first.lost, WAIT)
    assert (first.lost, second.started) == ([], 0)
    assert first.election.is_leader()


def test_a_leader_gets_over_one_connection_that_went_silent(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    first, second = stage(server.url, server.url)
    for _ in range(3):
        renewals = server.count("PUT")
        server.fail(Fault("PUT", silent=True))
        eventually(lambda wanted=renewals + 3: server.count("PUT") >= wanted or first.lost, WAIT)
    assert (first.lost, second.started) == ([], 0)


def test_a_deleted_lease_is_made_again(server: FaultServer, stage: Callable[..., list[Candidate]]) -> None:
    (first,) = stage(server.url)
    server.remove(*KEY)
    eventually(lambda: KEY in server.objects and holder(server) == "c0", WAIT)
    assert first.lost == []


def test_a_leader_whose_lease_was_taken_by_hand_steps_down_at_once(
    server: FaultServer, stage: Callable[..., list[Candidate]]
) -> None:
    (first,) = stage(server.url)
    server.put(*KEY, spec={**server.objects[KEY]["spec"], "holderIdentity": "somebody"})
    began = time.monotonic()
    eventually(lambda: first.lost, WAIT, interval=0.005)
    assert time.monotonic() - began < TIMES.renew_deadline
    assert first.lost == ["the lease muster/scheduler is held by somebody"]


def empty(server: FaultServer) -> None:
    # A released one says one second.
    spec = {**server.objects[KEY]["spec"], "leaseDurationSeconds": 4}
    server.put(*KEY, spec={**spec, "holderIdentity": ""})


def give_away(server: FaultServer) -> None:
    server.put(*KEY, spec={**server.objects[KEY]["spec"], "holderIdentity": "c1"})


def delete(server: FaultServer) -> None:
    server.remove(*KEY)


@pytest.mark.parametrize("harm", [empty, give_away, delete])
def test_a_lease_changed_by_hand_is_not_taken_before_its_leader_has_given_up(
    server: FaultServer, stage: Callable[..., list[Candidate]], harm: Callable[[FaultServer], None]
) -> None:
    with server.side_door() as (url, cut):
        first, second = stage(url, server.url)
        cut()
        harm(server)
        eventually(lambda: first.lost, WAIT, interval=0.005)
        assert not second.election.is_leader()
        eventually(second.election.is_leader, WAIT, interval=0.005)


def test_a_renewal_is_one_request(server: FaultServer, stage: Callable[..., list[Candidate]]) -> None:
    stage(server.url)
    before = len(server.requests)
    time.sleep(TIMES.retry * 6)
    assert {request.verb for request in server.requests[before:]} == {"PUT"}


@pytest.mark.parametrize(("duration", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_times_that_could_make_two_leaders_are_refused(
    duration: float, deadline: float, retry: float
) -> None:
    with pytest.raises(ValueError, match="lease duration"):
        LeaseTimes(duration, deadline, retry)
