"""What of a request's head is read at all: on a real socket, and by any WSGI server."""

from __future__ import annotations

import http.client
import io
import json
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.webhook.http.reviews import envelope, namespace, node, quota, synced
from tests.unit.webhook.http.test_server import JSON_TYPE, Running, head, status_of
from webhook.http.app import create_app
from webhook.http.headers import MAX_LINES, MAX_TARGET, MAX_VALUE
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher

REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()
LENGTH = f"Content-Length: {len(REVIEW)}"
CHUNKED = "Transfer-Encoding: chunked"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("certificates"), synced(node(cpu="8"), namespace("a")))
    yield made
    made.stop()


def target(path: str) -> bytes:
    return head(JSON_TYPE, LENGTH).replace(b"/validate", path.encode())


REFUSED = [
    ("query too long", target("/validate?timeout=" + "9" * MAX_TARGET), 414),
    ("path too long", target("/" + "x" * MAX_TARGET), 414),
    ("target that is no URL", target("//[/validate"), 400),
    ("value too long", head(JSON_TYPE, LENGTH, "Authorization: " + "x" * (MAX_VALUE + 1)), 431),
    ("too many lines", head(JSON_TYPE, LENGTH, *(f"X-{i}: y" for i in range(MAX_LINES))), 431),
    ("one name too often", head(JSON_TYPE, LENGTH, *["Accept: a"] * MAX_LINES), 431),
    ("two hosts", head(JSON_TYPE, LENGTH, "Host: elsewhere"), 400),
    ("two types", head(JSON_TYPE, JSON_TYPE, LENGTH), 400),
    ("chunks in HTTP/1.0", head(JSON_TYPE, CHUNKED).replace(b"HTTP/1.1", b"HTTP/1.0"), 400),
    ("unknown coding", head(JSON_TYPE, "Transfer-Encoding: gzip, chunked"), 501),
    ("line that goes on in the next", head(JSON_TYPE, LENGTH, "X-A: b", " c"), 400),
    ("first line that goes on", head(" c", JSON_TYPE, LENGTH).replace(b"Host: localhost\r\n", b""), 400),
    ("space before the colon", head(JSON_TYPE, LENGTH, "X-A : b"), 400),
    ("line without a colon", head(JSON_TYPE, LENGTH, "X-A"), 400),
    ("line without a name", head(JSON_TYPE, LENGTH, ": b"), 400),
]


@pytest.mark.parametrize(("request_", "status"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_head_is_refused_before_its_body_is_read(
    running: Running, caplog: pytest.LogCaptureFixture, request_: bytes, status: int
) -> None:
    with running.raw() as sock:
        sock.sendall(request_)
        assert status_of(sock) == status
        # What follows is not taken for a request.
        assert ended(sock)
    assert "Traceback" not in caplog.text
    assert running.post(REVIEW)[0] == 200


LENGTHS = [
    ("length below zero", head(JSON_TYPE, "Content-Length: -1")),
    ("length with a sign", head(JSON_TYPE, f"Content-Length: +{len(REVIEW)}")),
    ("length with an underscore", head(JSON_TYPE, "Content-Length: 1_0")),
    ("length without digits", head(JSON_TYPE, "Content-Length: ")),
    ("length of many digits", head(JSON_TYPE, "Content-Length: " + "9" * 5000)),
    ("length in other digits", head(JSON_TYPE, "Content-Length: \u0661")),
    ("two lengths", head(JSON_TYPE, LENGTH, LENGTH)),
    ("two kinds of length", head(JSON_TYPE, LENGTH, CHUNKED)),
]


@pytest.mark.parametrize("request_", [r[1] for r in LENGTHS], ids=[r[0] for r in LENGTHS])
def test_length_must_be_plain_before_a_byte_of_the_body_is_read(running: Running, request_: bytes) -> None:
    with running.raw() as sock:
        sock.sendall(request_)
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert response.status == 400
        assert b"Content-Length" in response.read()
        response.close()
        assert ended(sock)


def ended(sock: ssl.SSLSocket) -> bool:
    try:
        return sock.recv(100) == b""
    except (ConnectionResetError, ssl.SSLEOFError):
        return True


ACCEPTED = [
    ("as API servers ask", head(JSON_TYPE, LENGTH).replace(b"/validate", b"/validate?timeout=10s")),
    ("a long token", head(JSON_TYPE, LENGTH, "Authorization: Bearer " + "x" * (MAX_VALUE - 7))),
    ("many lines", head(JSON_TYPE, LENGTH, *(f"X-{i}: y" for i in range(MAX_LINES - 3)))),
    ("a value of nothing", head(JSON_TYPE, LENGTH, "X-A:")),
    ("a name with an underscore is passed over", head(JSON_TYPE, LENGTH, "Content_Length: 1")),
    ("names in any case", head(JSON_TYPE.lower(), LENGTH.upper())),
]


@pytest.mark.parametrize("request_", [a[1] for a in ACCEPTED], ids=[a[0] for a in ACCEPTED])
def test_head_is_read(running: Running, request_: bytes) -> None:
    with running.raw() as sock:
        sock.sendall(request_ + REVIEW)
        response = http.client.HTTPResponse(sock)
        response.begin()
        assert (response.status, json.loads(response.read())["response"]["allowed"]) == (200, True)
        response.close()


def environ(**more: Any) -> dict[str, Any]:
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/validate",
        "QUERY_STRING": "timeout=10s",
        "SERVER_NAME": "localhost",
        "SERVER_PORT": "443",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(REVIEW)),
        "wsgi.input": io.BytesIO(REVIEW),
        "wsgi.url_scheme": "https",
        "wsgi.errors": io.StringIO(),
        **more,
    }


UNREADABLE = [
    ("query", {"QUERY_STRING": "timeout=" + "9" * MAX_TARGET}, 414),
    ("path", {"PATH_INFO": "/" * (MAX_TARGET + 1)}, 414),
    ("path of another resource", {"PATH_INFO": "/x" * MAX_TARGET, "REQUEST_METHOD": "GET"}, 414),
    ("header", {"HTTP_AUTHORIZATION": "x" * (MAX_VALUE + 1)}, 431),
    ("content type", {"CONTENT_TYPE": "application/json;" + "x" * MAX_VALUE}, 431),
    ("many headers", {f"HTTP_X_{i}": "y" for i in range(MAX_LINES + 1)}, 431),
]


@pytest.mark.parametrize(("more", "status"), [u[1:] for u in UNREADABLE], ids=[u[0] for u in UNREADABLE])
def test_any_wsgi_server_is_bounded(more: dict[str, Any], status: int) -> None:
    metrics = WebhookMetrics()
    app = create_app(ReviewDispatcher(synced(node(cpu="8"), namespace("a"))), metrics)
    began: list[tuple[str, list[tuple[str, str]]]] = []
    body = b"".join(app.wsgi_app(environ(**more), lambda code, headers: began.append((code, headers))))
    code, headers = began[0]
    assert code.startswith(str(status))
    assert dict(headers)["Connection"] == "close"
    assert json.loads(body)["code"] == status
    assert f'muster_admission_failures_total{{code="{status}"}} 1.0' in metrics.render(True, {}).decode()


def test_peer_that_speaks_no_http_is_told_so(running: Running) -> None:
    with running.raw() as sock:
        sock.sendall(b"\x00" * 300 + b"\r\n\r\n")
        assert status_of(sock) == 400


def test_line_without_an_end_is_refused_and_not_kept(running: Running) -> None:
    with running.raw() as sock:
        sock.settimeout(30)
        sock.sendall(b"POST /validate HTTP/1.1 " + b"x" * 40_000)
        assert status_of(sock) == 414
