"""Clients that hold connections open and do nothing cannot keep others from being answered."""

from __future__ import annotations

import http.client
import json
import resource
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import cheroot.connections
import pytest

from scheduler_core.certificates import issue_serving, make_authority
from scheduler_core.serving.server import PRESSED_SECONDS
from tests.support.eventually import eventually
from tests.support.webhooks.clients import (
    SLOW,
    Asker,
    answering_little,
    half_body,
    half_header,
    never_reading,
    silent,
)
from tests.unit.webhook.http.reviews import envelope, node, quota, synced
from webhook.http.app import create_app
from webhook.http.connections import HttpServer
from webhook.http.server import WebhookServer
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher

pytestmark = pytest.mark.long

REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()


class Running:
    """A server, and how to trust it."""

    def __init__(self) -> None:
        now = time.time()
        authority = make_authority(now)
        pair = issue_serving(authority, ("localhost", "127.0.0.1"), now)
        self.server = WebhookServer(
            create_app(ReviewDispatcher(synced(node(cpu="8"))), WebhookMetrics()), ("127.0.0.1", 0), pair
        )
        self.server.start()
        answering_little(self.server.http_server.socket)
        self.context = ssl.create_default_context(cadata=authority.certificate.decode())

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.server.port, context=self.context, timeout=60)

    def open(self, kind: Callable[[int, ssl.SSLContext], socket.socket]) -> socket.socket:
        return kind(self.server.port, self.context)


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running()
    yield made
    made.server.stop()


@pytest.mark.parametrize("count", [16, 64])
@pytest.mark.parametrize("kind", SLOW)
def test_slow_clients_fail_no_request_of_others(
    running: Running, kind: Callable[[int, ssl.SSLContext], socket.socket], count: int
) -> None:
    asker = Asker(running.connect, REVIEW, pause=0.01)
    with ExitStack() as opened:
        asker.start()
        for _ in range(count):
            opened.enter_context(running.open(kind))
        before = asker.answered
        eventually(lambda: asker.answered >= before + 20, timeout=60)
        asker.stop()
    assert (asker.failures, asker.repeated) == ([], 0)


@pytest.mark.parametrize("kind", [silent, half_header, half_body])
def test_more_slow_clients_than_workers_are_survived(
    running: Running, kind: Callable[[int, ssl.SSLContext], socket.socket]
) -> None:
    askers = [Asker(running.connect, REVIEW, pause=0.01) for _ in range(4)]
    with ExitStack() as opened:
        for asker in askers:
            asker.start()
        for _ in range(200):
            opened.enter_context(running.open(kind))
        for asker in askers:
            before = asker.answered
            eventually(lambda a=asker, b=before: a.answered >= b + 10, timeout=60)  # type: ignore[misc]
            asker.stop()
    assert [failure for asker in askers for failure in asker.failures] == []


def test_workers_that_stay_with_their_clients_are_no_fewer_for_others(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A worker that stays does so for longer than anybody waits here.
    monkeypatch.setattr("scheduler_core.serving.connections.LINGER_MILLISECONDS", 60_000)
    server = running.server.http_server
    with ExitStack() as opened:
        for _ in range(150):
            link = opened.enter_context(closing(running.connect()))
            link.request("POST", "/validate", REVIEW, {"Content-Type": "application/json"})
            answer = link.getresponse()
            assert answer.status == 200
            answer.read()
            # Its worker leaves a client only after the answer.
            eventually(lambda: len(server.active) <= server.lingering, interval=0.001)


class Stepped:
    """The time module for somebody, an hour ahead."""

    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    @staticmethod
    def time() -> float:
        return time.time() + 3600.0


def test_connection_that_rests_outlives_silent_ones_and_steps_of_the_clock(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(running.connect()) as link:

        def ask() -> int:
            link.request("POST", "/validate", REVIEW, {"Content-Type": "application/json"})
            answer = link.getresponse()
            answer.read()
            return answer.status

        assert ask() == 200
        first = link.sock
        monkeypatch.setattr(cheroot.connections, "time", Stepped)
        running.server.http_server.timeout = 0.3
        with running.open(silent) as sock:
            assert sock.recv(1) == b""
        assert ask() == 200
        assert link.sock is first


def test_an_answer_without_a_reader_is_given_up(running: Running) -> None:
    server = running.server.http_server
    with running.open(never_reading):
        eventually(lambda: any(connection.waiting_since for connection in server.active), timeout=60)
        eventually(lambda: not server.active, timeout=60)


def test_of_too_many_connections_the_oldest_silent_one_goes(running: Running) -> None:
    server = running.server.http_server
    server.limit = 20
    link = running.connect()
    link.request("POST", "/validate", REVIEW, {"Content-Type": "application/json"})
    link.getresponse().read()
    with ExitStack() as opened:
        socks = [opened.enter_context(running.open(silent)) for _ in range(40)]
        socks[0].settimeout(20)
        assert socks[0].recv(1) == b""
        link.request("POST", "/validate", REVIEW, {"Content-Type": "application/json"})
        assert link.getresponse().status == 200
    link.close()


def test_limit_of_connections_leaves_descriptors_for_others() -> None:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    made = HttpServer(("127.0.0.1", 0), lambda environ, start: [])
    assert made.limit < soft


class Fake:
    """A connection whose client keeps a worker waiting since some moment."""

    def __init__(self, since: float | None) -> None:
        self.waiting_since = since
        self.given_up = False

    def give_up(self) -> None:
        self.given_up = True


class Queue:
    qsize = 0


def test_where_others_queue_those_that_wait_longest_are_cut_off_first() -> None:
    server = HttpServer(("127.0.0.1", 0), lambda environ, start: [])
    old, middle, new, deciding = Fake(1.0), Fake(2.0), Fake(8.5), Fake(None)
    server.active = {old, middle, new, deciding}  # type: ignore[arg-type]
    server.requests = Queue()
    server.cut_off(9.0)
    assert not old.given_up
    server.requests.qsize = 1
    server.cut_off(9.0)
    assert (old.given_up, middle.given_up, new.given_up) == (True, True, False)
    server.cut_off(8.5 + PRESSED_SECONDS)
    assert (new.given_up, deciding.given_up) == (False, False)
