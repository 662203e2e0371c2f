"""Clients that lie, stall, or ask in odd ways: nobody waits for them, and nobody is believed for a trick."""

from __future__ import annotations

import http.client
import io
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import pytest
import trustme

from kubectl_plugin.console.access.bearer import BearerGate, ProxyTrust
from kubectl_plugin.console.access.rights import RightsReader
from kubectl_plugin.console.pages.all import all_pages
from kubectl_plugin.console.web.app import create_app
from kubectl_plugin.console.web.cluster_console import ConsoleOptions, certificate_of
from kubectl_plugin.console.web.connections import HEAD_LIMITS
from kubectl_plugin.console.web.server import ConsoleServer
from scheduler_core.kube.access_reviews import ReviewedUser
from scheduler_core.serving.heads import read_headers
from tests.support.builders import make_quota
from tests.support.console_scene import Scene

PROXY = "proxy.example.com"
CROWD = 40


class Reviews:
    """An API server with a user per token, who may list everything in the namespace of their name."""

    def user_of(self, token: str) -> ReviewedUser | None:
        return ReviewedUser(token.removeprefix("token-")) if token.startswith("token-") else None

    def may_list(self, user: ReviewedUser, resource: Any, namespace: str = "") -> bool:
        return user.username == "admin" or user.username == namespace


class Running:
    """The console in the cluster on a real socket, with or without TLS."""

    def __init__(self, folder: Path, *, tls: bool) -> None:
        scene = Scene([make_quota(f"{name}/quota").min(cpu=1).dict() for name in ("anna", "bert")])
        self.known, self.unknown = trustme.CA(), trustme.CA()
        options = ConsoleOptions()
        if tls:
            pair = self.known.issue_cert("localhost", "127.0.0.1")
            pair.private_key_pem.write_to_path(folder / "key")
            pair.cert_chain_pems[0].write_to_path(folder / "crt")
            self.known.cert_pem.write_to_path(folder / "ca")
            names = {name: str(folder / name) for name in ("key", "crt", "ca")}
            options = ConsoleOptions(certificate=names["crt"], key=names["key"], client_ca=names["ca"])
        reviews: Any = Reviews()
        cluster = scene.watch.cluster
        gate = BearerGate(
            reviews, RightsReader(reviews, cluster.namespaces, set), ProxyTrust(frozenset({PROXY}))
        )
        self.tls = tls
        self.server = ConsoleServer(("127.0.0.1", 0), certificate_of(options))
        self.port = self.server.listen()
        self.server.serve(create_app(scene.services, gate, all_pages(), frozenset()))

    def context(self, authority: trustme.CA | None = None, name: str = PROXY) -> ssl.SSLContext:
        made = ssl.create_default_context(cadata=self.known.cert_pem.bytes().decode())
        if authority is not None:
            authority.issue_cert("client.example.com", common_name=name).configure_cert(made)
        return made

    def link(self, context: ssl.SSLContext | None = None) -> closing[http.client.HTTPConnection]:
        if not self.tls:
            return closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30))
        made = http.client.HTTPSConnection("127.0.0.1", self.port, context=context or self.context())
        return closing(made)

    def sees(
        self, headers: list[tuple[str, str]], context: ssl.SSLContext | None = None
    ) -> tuple[int, set[str]]:
        """The status of /now, and the namespaces that it shows."""
        with self.link(context) as link:
            link.putrequest("GET", "/now?format=json")
            for name, value in headers:
                link.putheader(name, value)
            link.endheaders()
            answer = link.getresponse()
            return answer.status, set(re.findall(r'"namespace": "(\w+)"', answer.read().decode()))

    def plain(self, sent: bytes) -> bytes:
        """All that comes back for some bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as sock:
            sock.sendall(sent)
            sock.shutdown(socket.SHUT_WR)
            parts = []
            while part := sock.recv(1 << 16):
                parts.append(part)
            return b"".join(parts)


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("tls"), tls=True)
    yield made
    made.server.stop()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(tmp_path_factory.mktemp("plain"), tls=False)
    yield made
    made.server.stop()


def test_a_proxy_is_believed_by_its_certificate_alone(secure: Running) -> None:
    named = [("X-Remote-User", "anna")]
    assert secure.sees(named, secure.context(secure.known)) == (200, {"anna"})
    assert secure.sees(named, secure.context(secure.known, "another"))[0] == 403
    assert secure.sees(named)[0] == 403
    assert secure.sees([*named, ("Authorization", "Bearer token-anna")])[0] == 403
    assert secure.sees([("Authorization", "Bearer token-anna")]) == (200, {"anna"})
    with pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException)):
        secure.sees(named, secure.context(secure.unknown))


@pytest.mark.parametrize(
    "smuggled",
    [
        # What the proxy takes for another header and passes on.
        [("X_Remote_User", "admin")],
        [("X-Remote_User", "admin")],
        [("x_remote_user", "admin"), ("X_REMOTE_GROUP", "system:masters")],
        [("HTTP-X-Remote-User", "admin")],
        [("SSL-CLIENT-VERIFY", "SUCCESS")],
    ],
)
def test_a_client_of_a_proxy_cannot_become_another_user(
    secure: Running, smuggled: list[tuple[str, str]]
) -> None:
    context = secure.context(secure.known)
    for headers in ([("X-Remote-User", "anna"), *smuggled], [*smuggled, ("X-Remote-User", "anna")]):
        assert secure.sees(headers, context) == (200, {"anna"})


@pytest.mark.parametrize(
    "headers",
    [
        [("X-Remote-User", "anna"), ("X-Remote-User", "admin")],
        [("X-Remote-User", "anna"), ("x-remote-user", "admin")],
        [("X-Remote-User", "anna"), ("X-Remote-User ", "admin")],
        [("X-Remote-User", "anna\r\n admin")],
    ],
)
def test_heads_that_may_be_read_in_two_ways_are_refused(
    secure: Running, headers: list[tuple[str, str]]
) -> None:
    with secure.link(secure.context(secure.known)) as link:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        link.connect()
        link.sock.sendall(f"GET /now?format=json HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        answer = http.client.HTTPResponse(link.sock)
        answer.begin()
        assert answer.status == 400


def test_groups_of_a_proxy_may_come_in_several_headers() -> None:
    lines = b"X-Remote-Group: a\r\nx-remote-group: b,c\r\nCookie: x=1\r\nCookie: y=2\r\n\r\n"
    found = read_headers(io.BytesIO(lines), {}, HEAD_LIMITS)
    assert found == {b"X-Remote-Group": b"a, b,c", b"Cookie": b"x=1; y=2"}


HEAD = b"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-anna\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET /now " + HEAD + b"\r\n", 200),
        (b"HEAD /now " + HEAD + b"\r\n", 200),
        (b"TRACE /now " + HEAD + b"\r\n", 405),
        (b"DELETE /now " + HEAD + b"\r\n", 405),
        (b"GET //now " + HEAD + b"\r\n", None),
        (b"GET //evil.example.com/%2e%2e " + HEAD + b"\r\n", None),
        (b"GET /static/..%2fpages%2fnow.py " + HEAD + b"\r\n", 404),
        (b"GET /static/../web/app.py " + HEAD + b"\r\n", 404),
        (b"GET /static/%2e%2e/web/app.py " + HEAD + b"\r\n", 404),
        (b"GET /static/console.css%00 " + HEAD + b"\r\n", 404),
        (b"GET /gangs/%ff%fe/%00 " + HEAD + b"\r\n", 404),
        (b"GET /gangs/a/" + b"%F0%9F%98%80" * 50 + b" " + HEAD + b"\r\n", 404),
        (b"GET /now?format=%ff " + HEAD + b"\r\n", 400),
        (b"GET /now?from=9999999999&sort=%00&q=%ff%3Cscript%3E " + HEAD + b"\r\n", 200),
        (b"GET /now?from=%D9%A3 " + HEAD + b"\r\n", 200),
        (b"GET /now " + HEAD + b"Origin: http://[\r\n\r\n", 403),
        (b"GET /now " + HEAD + b"Origin: null\r\n\r\n", 403),
        (b"GET /now " + HEAD + b"Origin: http://x\r\n\r\n", 200),
        (b"GET /now HTTP/1.1\r\nAuthorization: Bearer token-anna\r\nOrigin: null\r\n\r\n", 403),
        (b"GET /now " + HEAD + b"Sec-Fetch-Site: cross-site\r\n\r\n", 403),
        (b"POST /what-if " + HEAD + b"Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n\r\n", 403),
        (b"GET /now HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\xf6ken\r\n\r\n", 401),
        (b"GET /now HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"token-" * 4000 + b"\r\n\r\n", 401),
        (b"GET /now HTTP/1.1\r\nHost: x\r\nCookie: muster-console=\xff\xfe; muster-console=x\r\n\r\n", 401),
        (b"GET /now " + HEAD + b"X: y\r\n" * 500 + b"\r\n", 431),
        (b"GET http://[ HTTP/1.1\r\nHost: x\r\n\r\n", 400),
        (b"POST /what-if " + HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"POST /what-if " + HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400),
        (b"POST /what-if " + HEAD + b"Content-Length: -1\r\n\r\n", 400),
        (b"POST /what-if " + HEAD + b"Content-Length: +1\r\n\r\na", 400),
        (b"POST /what-if " + HEAD + b"Content-Length: 99999999\r\n\r\n", 413),
        (
            b"POST /login HTTP/1.1\r\nHost: x\r\nContent-Length: 13\r\n"
            b"Content-Type: application/x-www-form-urlencoded\r\n\r\ntoken=%ff%00x",
            401,
        ),
    ],
)
def test_odd_requests(plain: Running, sent: bytes, status: int | None) -> None:
    reply = plain.plain(sent)
    got = int(reply.split(b" ", 2)[1])
    assert got == status if status is not None else got in (301, 308, 400, 404)
    assert b"Traceback" not in reply
    head = reply.partition(b"\r\n\r\n")[0]
    # Nothing sends a browser to another site.
    for location in re.findall(rb"(?i)\nlocation: ([^\r]*)", head):
        assert not re.match(rb"(?:https?:)?//(?!x/)", location), location


def test_a_head_without_end_is_not_read_to_its_end(plain: Running) -> None:
    with socket.create_connection(("127.0.0.1", plain.port), timeout=20) as sock:
        sock.sendall(b"GET /now HTTP/1.1\r\nHost: x\r\nX: ")
        sent = 0
        # A reset or a broken pipe, as the system tells it.
        with suppress(OSError):
            while sent < 1 << 28:
                sent += sock.send(b"a" * (1 << 16))
    assert sent < 1 << 26
    assert plain.sees([("Authorization", "Bearer token-anna")])[0] == 200


def test_a_body_that_is_not_read_is_no_second_request(plain: Running) -> None:
    """A proxy may send the requests of several users over one connection."""
    second = b"GET /now?format=json HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer token-admin\r\n\r\n"
    for head in (
        b"GET /now " + HEAD + b"Content-Length: %d\r\n\r\n" % len(second),
        b"POST /logout " + HEAD + b"Content-Length: %d\r\n\r\n" % len(second),
        b"GET /now " + HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(second),
        b"GET /now " + HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
        b"GET /now " + HEAD + b"Transfer-Encoding: identity\r\n\r\n",
    ):
        reply = plain.plain(head + second)
        assert reply.count(b"HTTP/1.1 ") == 1, reply
        assert b"bert" not in reply


def silent(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    """Says nothing."""


def half_head(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    """Sends the beginning of a request."""
    sock.sendall(b"GET /now HTTP/1.1\r\nHost: x\r\n")


def half_body(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    """Sends a part of its body."""
    sock.sendall(b"POST /what-if " + HEAD + b"Content-Length: 1000\r\n\r\nset=")


def half_hello(sock: socket.socket, context: ssl.SSLContext | None) -> None:
    """Begins a handshake."""
    sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")


@pytest.mark.long
@pytest.mark.parametrize(
    ("tls", "kind"),
    [(True, silent), (True, half_hello), (False, silent), (False, half_head), (False, half_body)],
)
def test_clients_that_stall_do_not_keep_others_from_being_answered(
    tmp_path: Path, tls: bool, kind: Any
) -> None:
    """With cheroot's defaults eight of them, or one that makes no handshake, stop it for ten seconds."""
    running = Running(tmp_path, tls=tls)
    with ExitStack() as stack:
        stack.callback(running.server.stop)
        assert running.sees([("Authorization", "Bearer token-anna")])[0] == 200
        for _ in range(CROWD):
            sock = stack.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            kind(sock, None)
        began = time.monotonic()
        assert running.sees([("Authorization", "Bearer token-anna")])[0] == 200
        # Each of the threads is free after a second, and they share the crowd.
        assert time.monotonic() - began < 9


@pytest.mark.long
def test_a_client_that_drips_is_cut_off(plain: Running) -> None:
    """A byte now and then is no reason to wait on."""
    with socket.create_connection(("127.0.0.1", plain.port), timeout=30) as sock:
        began = time.monotonic()
        sock.sendall(b"GET /now HTTP/1.1\r\n")
        with suppress(OSError):
            while time.monotonic() - began < 60:
                sock.sendall(b"X")
                time.sleep(0.2)
    assert time.monotonic() - began < 50


def test_of_too_many_connections_the_oldest_that_asked_nothing_go(
    monkeypatch: pytest.MonkeyPatch, plain: Running
) -> None:
    monkeypatch.setattr(plain.server.http_server, "limit", 10)
    with ExitStack() as stack:
        crowd = [
            stack.enter_context(socket.create_connection(("127.0.0.1", plain.port), timeout=60))
            for _ in range(30)
        ]
        assert [sock.recv(1) for sock in crowd[:20]] == [b""] * 20
        for sock in crowd[20:]:
            sock.sendall(b"GET /now " + HEAD + b"\r\n")
            assert sock.recv(12) == b"HTTP/1.1 200"
