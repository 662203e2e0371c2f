"""Reviews for clients with a certificate of a known CA alone."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import trustme

from scheduler_core.certificates import CertificateError, issue_serving, make_authority
from tests.support.eventually import eventually
from tests.support.webhooks.clients import Asker, half_body, half_header, silent
from tests.unit.webhook.http.reviews import envelope, node, quota, synced
from webhook.http.app import create_app
from webhook.http.client_certificates import ClientCertificates
from webhook.http.server import THREADS, WebhookServer
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher

REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()
API_SERVER = "kube-apiserver"


class Running:
    """A server that knows one CA of clients, and one common name where `names` has it."""

    def __init__(self, folder: Path, names: frozenset[str] = frozenset()) -> None:
        now = time.time()
        authority = make_authority(now)
        self.authority = authority.certificate.decode()
        self.known, self.unknown = trustme.CA(), trustme.CA()
        self.file = folder / "clients.crt"
        self.file.write_bytes(self.known.cert_pem.bytes())
        clients = ClientCertificates(self.file, names)
        app = create_app(ReviewDispatcher(synced(node(cpu="8"))), WebhookMetrics(), clients=clients)
        pair = issue_serving(authority, ("localhost", "127.0.0.1"), now)
        self.server = WebhookServer(app, ("127.0.0.1", 0), pair, clients)
        self.server.start()

    def context(self, authority: trustme.CA | None = None, name: str = API_SERVER) -> ssl.SSLContext:
        """Of a client with a certificate of that CA, or with none."""
        made = ssl.create_default_context(cadata=self.authority)
        if authority is not None:
            authority.issue_cert("client.example.com", common_name=name).configure_cert(made)
        return made

    def link(self, context: ssl.SSLContext) -> closing[http.client.HTTPSConnection]:
        port = self.server.port
        return closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60))

    def ask(self, context: ssl.SSLContext) -> int:
        with self.link(context) as link:
            link.request("POST", "/validate", REVIEW, {"Content-Type": "application/json"})
            return link.getresponse().status


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """For tests after which it still knows the same clients."""
    made = Running(tmp_path_factory.mktemp("known"))
    yield made
    made.server.stop()


def test_a_review_needs_a_certificate_of_the_known_authority(running: Running) -> None:
    assert running.ask(running.context(running.known)) == 200
    assert running.ask(running.context(running.known, "another")) == 200
    assert running.ask(running.context()) == 403
    with pytest.raises((ssl.SSLError, ConnectionError)):
        running.ask(running.context(running.unknown))


def test_of_the_known_only_those_that_are_named_may_ask(tmp_path: Path) -> None:
    running = Running(tmp_path, frozenset({API_SERVER}))
    try:
        assert running.ask(running.context(running.known)) == 200
        assert running.ask(running.context(running.known, "kubelet")) == 403
    finally:
        running.server.stop()


def test_another_authority_is_known_as_soon_as_its_file_is_reread(tmp_path: Path) -> None:
    running = Running(tmp_path)
    try:
        running.file.write_bytes(running.known.cert_pem.bytes() + running.unknown.cert_pem.bytes())
        running.server.reread_clients()
        assert running.ask(running.context(running.unknown)) == 200
        assert running.ask(running.context(running.known)) == 200
    finally:
        running.server.stop()


@pytest.mark.parametrize("content", [b"", b"no certificate", b"\xff"])
def test_a_file_without_certificates_changes_nothing(running: Running, content: bytes) -> None:
    running.file.write_bytes(content)
    with pytest.raises(CertificateError):
        running.server.reread_clients()
    assert running.ask(running.context(running.known)) == 200
    assert running.ask(running.context()) == 403


def test_a_file_that_is_away_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="No such file"):
        ClientCertificates(tmp_path / "none").read()


@pytest.mark.parametrize("kind", [silent, half_header, half_body])
def test_unknown_clients_fail_no_request_of_known_ones(
    running: Running,
    kind: Callable[[int, ssl.SSLContext], socket.socket],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A machine that stops for a second shall not look like a queue of connections.
    monkeypatch.setattr("scheduler_core.serving.server.PRESSED_SECONDS", 20.0)
    context, port = running.context(running.known), running.server.port
    askers = [
        Asker(
            lambda: http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60),
            REVIEW,
            pause=0.01,
        )
        for _ in range(4)
    ]
    unknown = running.context()
    with ExitStack() as opened:
        for asker in askers:
            asker.start()
        # More than there are threads.
        for _ in range(THREADS + 12):
            opened.enter_context(kind(port, unknown))
        for asker in askers:
            before = asker.answered
            eventually(lambda a=asker, b=before: a.answered >= b + 10, timeout=60)  # type: ignore[misc]
            asker.stop()
    assert [failure for asker in askers for failure in asker.failures] == []
    assert [asker.repeated for asker in askers] == [0] * 4
