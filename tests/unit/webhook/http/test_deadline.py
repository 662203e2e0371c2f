"""A review is answered before the API server gives up: questions that could outlast it are not begun."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from math import inf

import pytest

from scheduler_core.kube.auth.credentials import StaticCredentials
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Unreachable
from scheduler_core.kube.http.endpoint import Endpoint
from scheduler_core.kube.http.session import Limits
from tests.unit.webhook.http.reviews import envelope, namespace, node, pod, synced
from webhook.http.app import create_app
from webhook.http.deadline import MOST_SECONDS, BoundedSession, remaining, seconds_for, within
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.process import LIVE
from webhook.view.api_reads import ClientReads
from webhook.view.owners import OwnerCache

TIMEOUTS = [
    ("as API servers write it", "5s", MOST_SECONDS),
    ("of the mutating webhook", "2s", 1.6),
    ("two units", "1m30s", MOST_SECONDS),
    ("fractions", "1.5s", 1.2),
    ("milliseconds", "500ms", 0.4),
    ("too short for anything", "1ms", 0.1),
    ("not given", None, MOST_SECONDS),
    ("empty", "", MOST_SECONDS),
    ("no unit", "5", MOST_SECONDS),
    ("negative", "-5s", MOST_SECONDS),
    ("nonsense behind", "1s;", MOST_SECONDS),
    ("far too long", "9" * 400 + "h", MOST_SECONDS),
    ("digits without end", "9" * 15_000, MOST_SECONDS),
    ("parts without end", "1ms" * 15_000, MOST_SECONDS),
]


@pytest.mark.parametrize(("timeout", "seconds"), [t[1:] for t in TIMEOUTS], ids=[t[0] for t in TIMEOUTS])
def test_time_to_answer(timeout: str | None, seconds: float) -> None:
    began = time.thread_time()
    assert seconds_for(timeout) == pytest.approx(seconds)
    assert time.thread_time() - began < 0.1


def test_time_is_of_one_thread_and_one_request() -> None:
    seen: list[float] = []
    with within(5.0):
        assert 0 < remaining() <= 5.0
        thread = threading.Thread(target=lambda: seen.append(remaining()))
        thread.start()
        thread.join(5)
    assert seen == [inf]
    assert remaining() == inf


def test_question_that_could_outlast_the_request_is_not_begun() -> None:
    session = BoundedSession(Endpoint("http://127.0.0.1:9"), StaticCredentials(), limits=Limits(0.4, 0.8))
    with within(0.5), pytest.raises(Unreachable, match="no answer in time") as refused:
        session.request("POST", "/api")
    assert not refused.value.maybe_accepted
    with pytest.raises(Unreachable, match="connection refused"):
        session.request("POST", "/api")


class Silent:
    """A server that takes connections, and questions, and never answers."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.taken: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listening.getsockname()[1]}"

    def _run(self) -> None:
        with suppress(OSError):
            while True:
                self.taken.append(self.listening.accept()[0])

    def close(self) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self._thread.join(5)
        for sock in self.taken:
            sock.close()


@pytest.fixture
def silence() -> Iterator[Silent]:
    made = Silent()
    yield made
    made.close()


def test_pod_is_answered_though_the_api_server_does_not_answer_us(silence: Silent) -> None:
    client = Client(BoundedSession(Endpoint(silence.url), StaticCredentials(), limits=LIVE))
    cache = synced(node(cpu="8"), namespace("a", labels={"muster.dev/schedule": "true"}))
    service = ReviewDispatcher(cache, live=ClientReads(client), owners=OwnerCache(client))
    app = create_app(service, WebhookMetrics()).test_client()
    owners = [
        {"apiVersion": "x.example.com/v1", "kind": "Thing", "name": "t", "uid": "1", "controller": True}
    ]
    for place, patched in (("a", True), ("unknown", False)):
        review = envelope(pod(meta={"namespace": place, "ownerReferences": owners}))
        answer = app.post("/mutate?timeout=2s", json=review)
        assert answer.status_code == 200
        assert ("patch" in answer.get_json()["response"]) is patched
    # Of the time of each, 1.6 s, every question may take 0.8 s.
    assert 1 <= len(silence.taken) <= 4
