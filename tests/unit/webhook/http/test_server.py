"""The server on a real socket: what it refuses, whom it does not wait for, how it is reloaded."""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
import stat
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler_core.certificates import CertificateError, KeyPair, issue_serving
from scheduler_core.health import PortTaken
from tests.support.eventually import eventually
from tests.support.tls_client import TlsClient
from tests.unit.webhook.http.reviews import Obj, envelope, namespace, node, quota, synced
from webhook.certs.store import FileStore, ensure
from webhook.http import review_endpoint
from webhook.http.app import create_app
from webhook.http.body import MAX_BODY
from webhook.http.health import Lifecycle, health_server
from webhook.http.server import WebhookServer, private_file
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.view.cache import Cache

NOW = time.time()
HOSTS = ("localhost", "127.0.0.1")
REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()


class Running(TlsClient):
    """A server with its certificates and everything a client needs."""

    def __init__(self, folder: Path, cache: Cache) -> None:
        self.certificates = ensure(FileStore(folder), HOSTS, NOW)
        self.life = Lifecycle()
        self.metrics = WebhookMetrics()
        app = create_app(ReviewDispatcher(cache), self.metrics, self.life)
        self.server = WebhookServer(app, ("127.0.0.1", 0), self.certificates.serving)
        self.server.start()
        self.door = health_server(
            ("127.0.0.1", 0), cache, self.metrics, self.life, problem=self.server.problem
        )
        super().__init__(self.server.port, self.certificates.authority.certificate)

    def page(self, path: str) -> tuple[int, str]:
        """Of the other port."""
        status, _, body = self.door.answer(path)
        return status, body.decode()

    def stop(self) -> None:
        self.server.stop()
        self.door.stop()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    made = Running(tmp_path, synced(node(cpu="8"), namespace("a"), quota(namespace="b")))
    yield made
    made.stop()


def decoded(body: bytes) -> Obj:
    found: Obj = json.loads(body)
    return found


def head(*lines: str) -> bytes:
    return "\r\n".join(["POST /validate HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


JSON_TYPE = "Content-Type: application/json"


def status_of(sock: ssl.SSLSocket) -> int:
    response = http.client.HTTPResponse(sock)
    try:
        response.begin()
        response.read()
        return response.status
    finally:
        response.close()


def test_rest_of_a_refused_chunked_body_is_no_next_request(running: Running) -> None:
    with running.raw() as sock:
        path = head("Content-Type: text/plain", "Transfer-Encoding: chunked").replace(
            b"/validate", b"/elsewhere"
        )
        sock.sendall(path + b"3\r\nabc\r\n0\r\n\r\n")
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert (response.status, response.getheader("Connection")) == (404, "close")
        response.read()
        response.close()
        assert sock.recv(100) == b""


def test_header_that_trickles_in_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler_core.serving.server.REQUEST_SECONDS", 0.3)
    with running.raw() as sock:
        sock.sendall(b"POST /validate HTTP/1.1\r\n")

        def refused() -> bool:
            try:
                sock.sendall(b"X-A: b\r\n")
            except OSError:
                return True
            return False

        assert eventually(refused, timeout=30)


def test_oversized_headers_get_413(running: Running) -> None:
    with running.raw() as sock:
        sock.sendall(head(JSON_TYPE, "X-Long: " + "x" * 20_000))
        assert status_of(sock) == 413


def test_body_that_trickles_in_is_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(review_endpoint, "READ_SECONDS", 0.3)
    with running.raw() as sock:
        sock.sendall(head(JSON_TYPE, "Content-Length: 100000"))
        answered = threading.Event()

        def trickle() -> None:
            while not answered.wait(0.02):
                try:
                    sock.sendall(b" " * 400)
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            assert status_of(sock) == 400
        finally:
            answered.set()
            thread.join(5)


def test_only_tls_and_http_1_1_are_spoken(running: Running) -> None:
    with socket.create_connection(("127.0.0.1", running.server.port), timeout=15) as plain:
        plain.sendall(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(100)
    context = running.context()
    context.set_alpn_protocols(["h2", "http/1.1"])
    with (
        socket.create_connection(("127.0.0.1", running.server.port), timeout=15) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as sock,
    ):
        assert sock.selected_alpn_protocol() == "http/1.1"
        assert sock.version() in ("TLSv1.2", "TLSv1.3")


def ask(connection: http.client.HTTPSConnection) -> http.client.HTTPResponse:
    connection.request("POST", "/validate", REVIEW, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 200
    return answer


def serial(running: Running) -> str:
    with running.raw() as sock:
        found = sock.getpeercert()
    assert found
    return str(found["serialNumber"])


def test_new_certificate_is_served_without_a_dropped_connection(running: Running) -> None:
    before = serial(running)
    connection = running.connect()
    try:
        ask(connection)
        renewed = issue_serving(running.certificates.authority, HOSTS, NOW)
        running.server.use(renewed)
        ask(connection)
    finally:
        connection.close()
    assert serial(running) != before


def test_bad_certificate_keeps_the_last_good_one(running: Running) -> None:
    before = serial(running)
    other = issue_serving(running.certificates.authority, HOSTS, NOW)
    served = running.certificates.serving
    for bad in (
        KeyPair(b"nonsense", served.key),
        KeyPair(served.certificate, b""),
        KeyPair(served.certificate, served.key[: len(served.key) // 2]),
        KeyPair(other.certificate, served.key),
    ):
        with pytest.raises(CertificateError, match="serving certificate: cannot be loaded"):
            running.server.use(bad)
        assert serial(running) == before


def test_readiness_is_withdrawn_before_the_end(running: Running) -> None:
    assert running.page("/readyz") == (200, "ok")
    running.life.stop()
    status, text = running.page("/readyz")
    assert (status, "[-]shutdown failed: stopping" in text) == (500, True)
    assert running.page("/livez") == (200, "ok")
    connection = running.connect()
    try:
        assert ask(connection).getheader("Connection") == "close"
    finally:
        connection.close()


def test_unsynced_webhook_is_alive_but_not_ready(tmp_path: Path) -> None:
    waiting = Running(tmp_path, Cache())
    try:
        assert waiting.page("/healthz")[0] == 200
        words = (
            "waiting for elasticquotas, namespaces, nodes, podgroups, quotaflavors, quotagroups, "
            "reservationledgers, resourcequotas"
        )
        status, text = waiting.page("/readyz")
        assert (status, f"[-]watches failed: {words}\n" in text) == (500, True)
        status, body = waiting.post(REVIEW)
        assert (status, decoded(body)["response"]["status"]["code"]) == (503, 503)
    finally:
        waiting.stop()


def test_a_server_that_accepts_no_connection_is_not_alive(running: Running) -> None:
    assert running.server.problem() == ""
    running.server.http_server.stop()
    eventually(lambda: running.server.problem() != "", timeout=30)
    status, text = running.page("/livez")
    assert (status, "[-]process failed: the thread webhook-accept ended" in text) == (500, True)


def test_metrics_count_what_was_decided(running: Running) -> None:
    running.metrics.certificate(1.5e9)
    running.post(REVIEW)
    running.post(json.dumps(envelope(quota(min={"cpu": 3}, max={"cpu": 2}))).encode())
    running.post(json.dumps(envelope({"kind": "Strange"})).encode())
    running.post(b"{")

    _, text = running.page("/metrics")
    prefix = "muster_admission_review_duration_seconds_count"
    assert f'{prefix}{{allowed="true",kind="ElasticQuota",operation="CREATE"}} 1.0' in text
    assert f'{prefix}{{allowed="false",kind="ElasticQuota",operation="CREATE"}} 1.0' in text
    assert f'{prefix}{{allowed="true",kind="other",operation="CREATE"}} 1.0' in text
    assert 'muster_admission_denials_total{rule="bounds"} 1.0' in text
    assert 'muster_admission_failures_total{code="400"} 1.0' in text
    assert "muster_webhook_cache_synced 1.0" in text
    assert "muster_webhook_cert_expiry_timestamp_seconds 1.5e+09" in text


def test_broken_code_is_a_503_without_its_traceback(
    running: Running, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Cache, "unsynced", property(lambda self: 1 / 0))
    status, body = running.post(REVIEW)
    assert status == 503
    assert decoded(body)["message"] == "internal error; see the webhook's log"
    assert "ZeroDivisionError" in caplog.text


def test_port_in_use_is_said(running: Running, tmp_path: Path) -> None:
    address = ("127.0.0.1", running.server.port)
    app = create_app(ReviewDispatcher(Cache()), WebhookMetrics())
    second = WebhookServer(app, address, running.certificates.serving)
    with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{address[1]}: the port is in use"):
        second.start()


def test_limit_is_seven_mebibytes() -> None:
    assert MAX_BODY == 7 * 1024 * 1024


@pytest.mark.parametrize("in_memory", [True, False], ids=["in memory", "on disk"])
def test_key_can_be_read_only_while_it_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    elif not hasattr(os, "memfd_create"):
        pytest.skip("this system has no files in memory")
    with private_file(b"key") as name:
        assert Path(name).read_bytes() == b"key"
        assert len(list(tmp_path.iterdir())) == (0 if in_memory else 1)
        assert in_memory or stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == []
