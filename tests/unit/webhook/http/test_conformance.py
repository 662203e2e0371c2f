"""What every server of the application must do: our own, and gunicorn with threads."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler_core.certificates import KeyPair, issue_serving, make_authority
from tests.support.eventually import eventually
from tests.support.tls_client import TlsClient
from tests.support.webhooks.app import make
from tests.unit.webhook.http.reviews import Obj, envelope, pod, quota
from webhook.http.body import MAX_BODY
from webhook.http.server import WebhookServer

ROOT = Path(__file__).parents[4]
REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()


def gunicorn(folder: Path, pair: KeyPair, authority: bytes) -> Iterator[TlsClient]:
    """A process of its own that listens on a socket of ours."""
    certificate, key = folder / "tls.crt", folder / "tls.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listening:
        command = [sys.executable, "-m", "gunicorn", "--bind", f"fd://{listening.fileno()}"]
        command += ["--certfile", str(certificate), "--keyfile", str(key), "--threads", "16"]
        command += ["--worker-class", "gthread", "--keep-alive", "120", "--no-control-socket"]
        command += ["tests.support.webhooks.app:make()"]
        with (folder / "gunicorn.log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=log, stderr=log, pass_fds=[listening.fileno()]
            )
        try:
            running = TlsClient(listening.getsockname()[1], authority)

            def answers() -> bool:
                assert process.poll() is None, (folder / "gunicorn.log").read_text()
                with suppress(OSError):
                    return running.post(REVIEW)[0] == 200
                return False

            eventually(answers, timeout=60)
            yield running
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)


@pytest.fixture(scope="module", params=["cheroot", "gunicorn"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsClient]:
    now = time.time()
    authority = make_authority(now)
    pair = issue_serving(authority, ("localhost", "127.0.0.1"), now)
    if request.param == "gunicorn":
        yield from gunicorn(tmp_path_factory.mktemp("gunicorn"), pair, authority.certificate)
        return
    server = WebhookServer(make(), ("127.0.0.1", 0), pair)
    server.start()
    yield TlsClient(server.port, authority.certificate)
    server.stop()


def decoded(body: bytes) -> Obj:
    found: Obj = json.loads(body)
    return found


def test_reviews_are_answered_on_one_connection(running: TlsClient) -> None:
    connection = running.connect()
    try:
        for _ in range(20):
            connection.request("POST", "/validate?timeout=5s", REVIEW, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.version == 11
            assert answer.getheader("Connection") != "close"
            assert decoded(answer.read())["response"]["allowed"] is True
    finally:
        connection.close()


def test_pods_are_answered_with_a_patch(running: TlsClient) -> None:
    status, body = running.post(json.dumps(envelope(pod(meta={"namespace": "b"}))).encode(), "/mutate")
    assert status == 200
    assert decoded(body)["response"]["patchType"] == "JSONPatch"


def test_large_review_within_the_limit_is_answered(running: TlsClient) -> None:
    big = json.dumps(envelope(quota(meta={"annotations": {"a": "x" * (6 << 20)}}))).encode()
    status, body = running.post(big)
    assert (status, decoded(body)["response"]["allowed"]) == (200, True)


REFUSED = [
    ("no JSON", b"{", "/validate", {}, 400),
    ("empty", b"", "/validate", {}, 400),
    ("another content type", REVIEW, "/validate", {"Content-Type": "text/plain"}, 415),
    ("another path", REVIEW, "/elsewhere", {}, 404),
]


@pytest.mark.parametrize(
    ("body", "path", "headers", "code"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refusals_are_json(
    running: TlsClient, body: bytes, path: str, headers: dict[str, str], code: int
) -> None:
    status, answer = running.post(body, path, **headers)
    assert status == code
    assert decoded(answer)


def head(*lines: str) -> bytes:
    return "\r\n".join(["POST /validate HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


JSON_TYPE = "Content-Type: application/json"
CHUNK = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"


def send_until_refused(sock: ssl.SSLSocket, piece: bytes, times: int) -> None:
    try:
        for _ in range(times):
            sock.sendall(piece)
    except OSError:
        return


def status_of(sock: ssl.SSLSocket) -> int:
    response = http.client.HTTPResponse(sock)
    try:
        response.begin()
        response.read()
        return response.status
    finally:
        response.close()


OVERSIZED = [
    ("Content-Length", f"Content-Length: {300 << 20}", b"x" * 0x10000, 200),
    ("8 MiB, all of it sent", f"Content-Length: {8 << 20}", b"x" * 0x10000, 128),
    ("chunks", "Transfer-Encoding: chunked", CHUNK, 400),
    ("one chunk", f"Transfer-Encoding: chunked\r\n\r\n{300 << 20:x}", b"x" * 0x10000, 400),
]


@pytest.mark.parametrize(
    ("header", "piece", "times"), [o[1:] for o in OVERSIZED], ids=[o[0] for o in OVERSIZED]
)
def test_oversized_bodies_get_413(running: TlsClient, header: str, piece: bytes, times: int) -> None:
    with running.raw() as sock:
        sock.sendall(head(JSON_TYPE, header).removesuffix(b"\r\n" if "\r\n\r\n" in header else b""))
        send_until_refused(sock, piece, times)
        assert status_of(sock) == 413
    assert running.post(REVIEW)[0] == 200


def heavy(body: Obj) -> bytes:
    """A review of more than is read, which begins as those of API servers do."""
    return json.dumps(body, separators=(",", ":")).encode().replace(b"FAT", b"\\u003c" * 1_300_000)


def test_pods_of_which_more_comes_than_is_read_are_refused_so_that_none_passes_without_a_verdict(
    running: TlsClient,
) -> None:
    resource = {"group": "", "version": "v1", "resource": "pods"}
    made = envelope(pod(meta={"annotations": {"a": "FAT"}}), resource=resource)
    status, body = running.post(heavy(made))
    response = decoded(body)["response"]
    assert (status, response["allowed"], response["uid"]) == (200, False, made["request"]["uid"])
    assert response["status"]["code"] == 422
    assert f"larger than {MAX_BODY} bytes" in response["status"]["message"]

    made["request"]["resource"]["resource"] = "configmaps"
    assert running.post(heavy(made))[0] == 413


def test_chunked_review_is_answered(running: TlsClient) -> None:
    with running.raw() as sock:
        sock.sendall(head(JSON_TYPE, "Transfer-Encoding: chunked"))
        half = len(REVIEW) // 2
        for part in (REVIEW[:half], REVIEW[half:], b""):
            sock.sendall(b"%x\r\n%b\r\n" % (len(part), part))
        assert status_of(sock) == 200


def test_broken_chunks_get_400(running: TlsClient) -> None:
    with running.raw() as sock:
        sock.sendall(head(JSON_TYPE, "Transfer-Encoding: chunked") + b"zz\r\nabc\r\n0\r\n\r\n")
        assert status_of(sock) == 400


def test_malformed_reviews_are_answered_with_their_uid(running: TlsClient) -> None:
    status, body = running.post(json.dumps({"request": {"uid": "u-1", "operation": "CREATE"}}).encode())
    assert status == 400
    assert decoded(body)["response"]["uid"] == "u-1"


def test_refusals_carry_reason_causes_and_audit_annotations(running: TlsClient) -> None:
    status, body = running.post(json.dumps(envelope(quota(min={"cpu": 3}, max={"cpu": 2}))).encode())
    response = decoded(body)["response"]
    assert (status, response["allowed"], response["status"]["code"]) == (200, False, 403)
    assert response["status"]["details"]["causes"][0]["field"] == "spec.min[cpu]"
    assert response["auditAnnotations"] == {"decision": "deny", "rules": "bounds", "quota": "a/eq"}


@pytest.mark.parametrize("path", ["/", "/livez", "/healthz", "/readyz", "/metrics", "/debug/cache"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"])
def test_the_port_of_reviews_shows_nothing_else(running: TlsClient, method: str, path: str) -> None:
    connection = running.connect()
    try:
        connection.request(method, path)
        assert connection.getresponse().status == 404
    finally:
        connection.close()


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
def test_reviews_are_posted(running: TlsClient, method: str) -> None:
    connection = running.connect()
    try:
        connection.request(method, "/validate")
        assert connection.getresponse().status == 405
    finally:
        connection.close()


def test_body_that_stops_is_no_end_of_the_server(running: TlsClient) -> None:
    with running.raw() as sock:
        sock.sendall(head(JSON_TYPE, "Content-Length: 100") + b"{")
        assert running.post(REVIEW)[0] == 200
