"""Leader election on a scripted server: real requests, on a clock that goes on as the test says."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Unreachable
from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.session import Limits, Session
from scheduler_core.kube.lease import LeaderElector, LeaseTimes
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault
from tests.support.staged_time import StagedTime

TIMES = LeaseTimes()
WAIT = 60.0
KEY = ("leases", "muster", "scheduler")
# On real time: a machine may be slow, and a server that is told to be silent need not be waited for.
SLOW_MACHINE = Limits(connect=WAIT, read=WAIT, silence=WAIT)
SILENT_SERVER = Limits(connect=WAIT, read=0.1, silence=0.1)


class StagedSession(Session):
    """A request that ends by its time limit takes this time on the clock, and a moment on real time.

    `late`: the seconds on the clock after which each write is answered. `hasty`: the limits that ended before
    such an answer.
    """

    def __init__(self, url: str, clock: StagedTime, server: FaultServer) -> None:
        self.clock = clock
        self.server = server
        self.real = SLOW_MACHINE
        self.asked = Limits()
        self.late = 0.0
        self.hasty: list[float] = []
        super().__init__(Endpoint(url), StaticCredentials(), monotonic=clock)

    @property
    def limits(self) -> Limits:
        return self.real

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self.asked = limits

    def with_limits(self, limits: Limits) -> Session:
        return self

    def request(self, method: str, *args: Any, **kwargs: Any) -> Any:
        silent = self.server.answers_nothing(method)
        self.real = SILENT_SERVER if silent else SLOW_MACHINE
        try:
            return super().request(method, *args, **kwargs)
        except Unreachable:
            self.clock.now += self.asked.read if silent else 0.0
            raise
        finally:
            if self.late and method == "PUT" and not silent:
                self.hasty += [self.asked.read] if self.asked.read <= self.late else []
                self.clock.now += self.late


class Candidate:
    """An election on a thread of its own, whose sleep can be frozen like that of a suspended process."""

    def __init__(
        self, session: StagedSession, identity: str, wall: Callable[[], float], times: LeaseTimes = TIMES
    ) -> None:
        self.started = 0
        self.annotations: dict[str, str] = {}
        self.lost: list[str] = []
        self.frozen = False
        self.session = session
        self.clock = session.clock
        self._stopped = False
        self.election = LeaderElector(
            Client(session),
            "muster",
            "scheduler",
            identity,
            times=times,
            annotations=lambda: dict(self.annotations),
            on_started=self._start,
            on_lost=self.lost.append,
            monotonic=self.clock,
            wall=wall,
            wait=self._wait,
            uniform=random.Random(identity).random,
        )
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _start(self) -> None:
        self.started += 1

    def _run(self) -> None:
        try:
            self.election.run()
        finally:
            self.clock.leave()

    def _wait(self, seconds: float) -> bool:
        self.clock.wait(seconds, lambda: self.frozen)
        return self._stopped

    def campaign(self) -> Candidate:
        self.clock.join()
        self.thread.start()
        return self

    def stop(self) -> None:
        self.election.stop()
        self._stopped = True
        self.clock.interrupt(self.thread)
        self.thread.join(WAIT)
        assert not self.thread.is_alive()
        self.election.close()


class Stage:
    """The candidates of a test, and a watchman who counts the moments that see two leaders."""

    def __init__(self, server: FaultServer) -> None:
        self.server = server
        self.everybody: list[Candidate] = []
        self.doubles = 0
        self.clock = StagedTime(self._watch)

    def _watch(self) -> None:
        self.doubles += sum(c.election.is_leader() for c in self.everybody) > 1

    def __call__(self, *urls: str, walls: tuple[Callable[[], float], ...] = ()) -> list[Candidate]:
        """Candidates, the first of which leads."""
        for number, url in enumerate(urls):
            session = StagedSession(url, self.clock, self.server)
            wall = walls[number] if walls else self.clock
            self.everybody.append(Candidate(session, f"c{number}", wall))
        first, *rivals = self.everybody
        first.campaign()
        self.clock.run_until(first.election.is_leader)
        for rival in rivals:
            rival.campaign()
        self.clock.run_until(lambda: all(c.election.holder == "c0" for c in self.everybody))
        return self.everybody

    def end(self) -> None:
        for candidate in self.everybody:
            candidate.stop()


@pytest.fixture
def stage(server: FaultServer) -> Iterator[Stage]:
    made = Stage(server)
    yield made
    made.end()
    assert made.doubles == 0


def holder(server: FaultServer) -> str:
    return server.objects[KEY]["spec"]["holderIdentity"]


def test_one_leads_and_a_clean_exit_hands_over_without_waiting_for_the_lease(
    server: FaultServer, stage: Stage
) -> None:
    first, second = stage(server.url, server.url)
    stage.clock.run(TIMES.duration * 1.2)
    assert (first.started, second.started) == (1, 0)
    began = stage.clock()
    first.stop()
    stage.clock.run_until(second.election.is_leader)
    assert stage.clock() - began < TIMES.retry * 2
    assert first.lost == []
    assert server.objects[KEY]["spec"]["leaseTransitions"] == 1


def test_a_partitioned_leader_gives_up_before_the_next_one_starts(server: FaultServer, stage: Stage) -> None:
    with server.side_door() as (url, cut):
        first, second = stage(url, server.url)
        began = stage.clock()
        cut()
        stage.clock.run_until(lambda: first.lost)
        assert not second.election.is_leader()
        stage.clock.run_until(second.election.is_leader)
        assert stage.clock() - began < TIMES.duration + TIMES.retry * 2.4
    assert first.lost == ["the lease muster/scheduler was not renewed for 10 s"]


def test_a_suspended_leader_does_not_believe_in_itself_when_it_wakes(
    server: FaultServer, stage: Stage
) -> None:
    first, second = stage(server.url, server.url)
    first.frozen = True
    stage.clock.run_until(second.election.is_leader)
    assert not first.election.is_leader()
    first.frozen = False
    stage.clock.run_until(lambda: first.lost)
    assert holder(server) == "c1"


def test_steps_of_the_wall_clock_change_nothing(server: FaultServer, stage: Stage) -> None:
    shift = [0.0, 0.0]
    walls = (lambda: stage.clock() + shift[0], lambda: stage.clock() + shift[1])
    first, second = stage(server.url, server.url, walls=walls)
    for steps in ([3600.0, 0.0], [-900.0, 0.0], [0.0, 3600.0], [0.0, -900.0]):
        shift[:] = steps
        stage.clock.run(TIMES.duration * 2)
        assert first.election.is_leader()
    assert (first.lost, second.started) == ([], 0)


def test_a_leader_survives_errors_conflicts_and_lost_answers(server: FaultServer, stage: Stage) -> None:
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
        stage.clock.run(TIMES.retry * 4)
    assert first.election.is_leader()
    assert (first.lost, second.started) == ([], 0)


def test_a_leader_keeps_its_lease_on_a_server_that_answers_late(server: FaultServer, stage: Stage) -> None:
    first, second = stage(server.url, server.url)
    renewals = server.count("PUT")
    first.session.late = TIMES.renew_deadline * 0.28
    stage.clock.run_until(lambda: server.count("PUT") >= renewals + 6 or first.lost)
    assert (first.lost, first.session.hasty, second.started) == ([], [], 0)
    assert first.election.is_leader()


def test_the_last_try_before_the_deadline_gets_all_the_time_that_is_left(
    server: FaultServer, stage: Stage
) -> None:
    first, second = stage(server.url, server.url)
    renewals = server.count("PUT")
    server.fail(Fault("PUT", silent=True))
    first.session.late = TIMES.renew_deadline * 0.3
    stage.clock.run_until(lambda: server.count("PUT") >= renewals + 2 or first.lost)
    assert (first.lost, first.session.hasty, second.started) == ([], [], 0)


def test_leadership_is_counted_from_before_the_last_renewal_was_sent(
    server: FaultServer, stage: Stage
) -> None:
    (first,) = stage(server.url)
    renewals = server.count("PUT")
    first.session.late = late = 4.0
    stage.clock.run_until(lambda: server.count("PUT") > renewals)
    stage.clock.now += TIMES.renew_deadline - late - 0.1
    assert first.election.is_leader()
    stage.clock.now += 0.2
    assert not first.election.is_leader()


def test_a_leader_gets_over_one_connection_that_went_silent(server: FaultServer, stage: Stage) -> None:
    first, second = stage(server.url, server.url)
    for _ in range(3):
        renewals = server.count("PUT")
        server.fail(Fault("PUT", silent=True))
        stage.clock.run_until(lambda wanted=renewals + 3: server.count("PUT") >= wanted or first.lost)
    assert (first.lost, second.started) == ([], 0)


def test_a_deleted_lease_is_made_again(server: FaultServer, stage: Stage) -> None:
    (first,) = stage(server.url)
    server.remove(*KEY)
    stage.clock.run_until(lambda: KEY in server.objects and holder(server) == "c0")
    assert first.lost == []


def test_a_leader_whose_lease_was_taken_by_hand_steps_down_at_once(server: FaultServer, stage: Stage) -> None:
    (first,) = stage(server.url)
    server.put(*KEY, spec={**server.objects[KEY]["spec"], "holderIdentity": "somebody"})
    began = stage.clock()
    stage.clock.run_until(lambda: first.lost)
    assert stage.clock() - began <= TIMES.retry * 1.2
    assert first.lost == ["the lease muster/scheduler is held by somebody"]


def empty(server: FaultServer) -> None:
    # A released one says one second.
    spec = {**server.objects[KEY]["spec"], "leaseDurationSeconds": 16}
    server.put(*KEY, spec={**spec, "holderIdentity": ""})


def give_away(server: FaultServer) -> None:
    server.put(*KEY, spec={**server.objects[KEY]["spec"], "holderIdentity": "c1"})


def delete(server: FaultServer) -> None:
    server.remove(*KEY)


@pytest.mark.parametrize("harm", [empty, give_away, delete])
def test_a_lease_changed_by_hand_is_not_taken_before_its_leader_has_given_up(
    server: FaultServer, stage: Stage, harm: Callable[[FaultServer], None]
) -> None:
    with server.side_door() as (url, cut):
        first, second = stage(url, server.url)
        cut()
        harm(server)
        stage.clock.run_until(lambda: first.lost)
        assert not second.election.is_leader()
        stage.clock.run_until(second.election.is_leader)


def test_a_renewal_is_one_request(server: FaultServer, stage: Stage) -> None:
    stage(server.url)
    before = len(server.requests)
    stage.clock.run(TIMES.retry * 6)
    assert {request.verb for request in server.requests[before:]} == {"PUT"}


def test_a_renewal_says_what_is_true_now_and_leaves_annotations_of_others(
    server: FaultServer, stage: Stage
) -> None:
    (first,) = stage(server.url)

    def told() -> list[dict[str, str]]:
        """The annotations of the renewals of the next seconds."""
        before = len(server.requests)
        stage.clock.run(TIMES.retry * 4)
        renewals = (request for request in server.requests[before:] if request.verb == "PUT")
        return [request.body["metadata"]["annotations"] for request in renewals]

    first.annotations = {"muster.dev/serves": "a", "muster.dev/stuck-parts": "reports"}
    assert told()[-1] == first.annotations
    others = {"muster.dev/serves": "b", "muster.dev/stuck-parts": "reviews", "by": "somebody"}
    server.put(*KEY)["metadata"]["annotations"] = others
    first.annotations = {"muster.dev/serves": "a", "muster.dev/stuck-parts": ""}
    assert {"muster.dev/serves": "a", "by": "somebody"} in told()


@pytest.mark.parametrize(("duration", "deadline", "retry"), [(10, 10, 2), (15, 2, 2), (15, 10, 0)])
def test_times_that_could_make_two_leaders_are_refused(
    duration: float, deadline: float, retry: float
) -> None:
    with pytest.raises(ValueError, match="lease duration"):
        LeaseTimes(duration, deadline, retry)
