"""How often a reflector asks a server that cannot answer; on virtual time."""

from __future__ import annotations

import random
import threading

import pytest

from scheduler_core.kube.watch.reflector import Reflector
from scheduler_core.kube.watch.tracker import Event
from scheduler_core.model.kinds import PODS
from tests.support.eventually import eventually
from tests.support.faults.server import FaultServer
from tests.support.faults.store import Fault
from tests.support.watched import client_of, parse


class Outage:
    """Runs a reflector on virtual time: `wait` returns at once and moves the clock."""

    def __init__(self, server: FaultServer, seconds: float) -> None:
        self.now = 0.0
        self.until = seconds
        self.waited: list[float] = []
        self.client = client_of(server)
        self.reflector = Reflector(
            self.client,
            PODS,
            parse,
            lambda event: None,
            monotonic=lambda: self.now,
            wait=self.wait,
            uniform=random.Random(1).random,
        )

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        self.now += seconds
        if self.now >= self.until:
            self.reflector.stop()
        return self.now >= self.until

    def run(self) -> None:
        self.reflector.run()
        self.client.session.close()


def test_a_server_that_is_down_for_20_s_gets_at_most_ten_requests() -> None:
    with FaultServer() as server:
        server.kill()
        outage = Outage(server, 20.0)
        outage.run()
        assert 3 <= outage.reflector.restarts["unreachable"] <= 10


class Restarting(Outage):
    """A server that comes back after 20 s and has forgotten its past."""

    def __init__(self, server: FaultServer) -> None:
        super().__init__(server, 1000.0)
        self.server = server

    def wait(self, seconds: float) -> bool:
        stopped = super().wait(seconds)
        if self.now > 20.0 and not self.server.running:
            self.server.put("pods", "a", "meanwhile")
            self.server.compact()
            self.server.start()
        return stopped


def test_a_server_that_was_away_and_forgot_the_past_is_listed_as_soon_as_it_is_back() -> None:
    with FaultServer() as server:
        outage = Restarting(server)
        reflector = outage.reflector
        thread = threading.Thread(target=outage.run, daemon=True)
        thread.start()
        eventually(lambda: reflector.watches)
        server.kill()
        eventually(lambda: reflector.lists == 2, 30)
        reflector.stop()
        thread.join(10)
        assert reflector.restarts["expired"] == 1
        # The last wait is the one before the list.
        assert outage.waited[-1] <= 1.6


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_server_that_refuses_work_for_20_s_gets_at_most_ten_requests(status: int) -> None:
    with FaultServer() as server:
        server.fail(Fault("list", times=1000, status=status))
        outage = Outage(server, 20.0)
        outage.run()
        assert 3 <= server.count("list") <= 10


def test_410_on_every_watch_costs_one_list_per_backoff_step() -> None:
    with FaultServer() as server:
        server.fail(Fault("watch", times=1000, status=410, reason="Expired"))
        outage = Outage(server, 60.0)
        outage.run()
        assert server.count("list") <= 8


def test_watches_that_end_at_once_do_not_become_a_storm() -> None:
    with FaultServer() as server:
        server.fail(Fault("watch", times=1000, cut_after=0))
        outage = Outage(server, 60.0)
        outage.run()
        assert server.count("watch") <= 10


def test_a_consumer_that_fails_stops_the_reflector_and_is_reported() -> None:
    with FaultServer() as server:
        server.put("pods", "a", "pod", value=0)
        seen: list[Exception] = []

        def fail(event: Event) -> None:
            raise RuntimeError("broken consumer")

        client = client_of(server)
        reflector = Reflector(client, PODS, parse, fail, on_error=seen.append)
        with pytest.raises(RuntimeError, match="broken consumer"):
            reflector.run()
        client.session.close()
        assert [str(error) for error in seen] == ["broken consumer"]
