from __future__ import annotations

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from scheduler_core import health
from scheduler_core.errors import MusterError
from scheduler_core.health import (
    BURST,
    MAX_CONNECTIONS,
    PER_SECOND,
    TEXT,
    ConnectionLimiter,
    HealthServer,
    PortTaken,
    checked,
)
from tests.support.eventually import eventually
from tests.support.kept import entries


class Busy(MusterError):
    def __str__(self) -> str:
        return "busy"


def busy() -> tuple[str, bytes]:
    raise Busy


@pytest.mark.parametrize(
    ("problem", "verbose", "status", "text"),
    [
        pytest.param("", False, 200, "ok", id="well"),
        pytest.param("", True, 200, "[+]loop ok\ncheck passed\n", id="well, in words"),
        pytest.param("it ended", False, 500, "[-]loop failed: it ended\ncheck failed\n", id="ill"),
    ],
)
def test_a_health_page_reads_as_in_kubernetes(problem: str, verbose: bool, status: int, text: str) -> None:
    assert checked([("loop", lambda: problem)], verbose) == (status, text)


@pytest.mark.parametrize(
    ("address", "family", "bound", "url"),
    [
        ("127.0.0.1", socket.AF_INET, ("127.0.0.1", 80), "http://127.0.0.1:80"),
        ("::1", socket.AF_INET6, ("::1", 80, 0, 0), "http://[::1]:80"),
    ],
    ids=["of version 4", "of version 6"],
)
def test_the_family_of_an_address_and_its_url(
    monkeypatch: pytest.MonkeyPatch, address: str, family: int, bound: tuple[Any, ...], url: str
) -> None:
    made: list[Any] = []

    class Listens:
        address_family = socket.AF_UNIX
        server_address = bound

        def __init__(self, where: tuple[str, int], handler: type) -> None:
            made.append((where, self.address_family))

        def serve_forever(self) -> None:
            """No client comes."""

    monkeypatch.setattr(health, "PageServer", Listens)
    assert HealthServer(address, 80, {}, {}).url == url
    assert made == [((address, 80), family)]


def test_pages_are_served_over_http_and_unknown_ones_are_named() -> None:
    pages = {"/page": lambda: (TEXT, b"text"), "/busy": busy}
    server = HealthServer("127.0.0.1", 0, {"/healthz": [("loop", lambda: "")]}, pages)
    server.start()
    try:
        with urllib.request.urlopen(f"{server.url}/page", timeout=60) as answer:
            assert (answer.read(), answer.headers["Content-Type"]) == (b"text", TEXT)
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(f"{server.url}/other", timeout=60)
        with refused.value as answer:
            assert (answer.code, b"/healthz" in answer.read()) == (404, True)
        assert server.answer("/busy") == (503, TEXT, b"busy\n")
        assert server.answer("/healthz?verbose")[2].startswith(b"[+]loop ok")
    finally:
        server.stop()


def test_the_body_does_not_wait_for_an_acknowledgement_of_the_head(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Nagle's algorithm it does, for up to 40 ms."""
    waits: list[bool] = []
    send = socket.socket.sendall

    def sendall(sock: socket.socket, data: bytes) -> None:
        if data.startswith((b"HTTP/1.1", b"x")):
            waits.append(not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        send(sock, data)

    monkeypatch.setattr(socket.socket, "sendall", sendall)
    server = HealthServer("127.0.0.1", 0, {}, {"/metrics": lambda: (TEXT, b"x" * 100_000)})
    server.start()
    try:
        with urllib.request.urlopen(f"{server.url}/metrics", timeout=60) as answer:
            assert len(answer.read()) == 100_000
    finally:
        server.stop()
    assert waits
    assert not any(waits)


def test_a_port_in_use_is_an_error_with_its_address() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as holder:
        port = holder.getsockname()[1]
        with pytest.raises(PortTaken, match=f"cannot listen on 127.0.0.1:{port}: address already in use"):
            HealthServer("127.0.0.1", port, {}, {})


class Sock:
    """A client's socket: whether it was given up."""

    def __init__(self) -> None:
        self.given_up = False

    def shutdown(self, how: int) -> None:
        self.given_up = True


def test_of_too_many_connections_the_oldest_goes() -> None:
    limiter, socks = ConnectionLimiter(), [Sock() for _ in range(MAX_CONNECTIONS + 2)]
    assert all(limiter.admit(sock, f"10.0.0.{number}") for number, sock in enumerate(socks))  # type: ignore[arg-type]
    assert [number for number, sock in enumerate(socks) if sock.given_up] == [0, 1]
    assert len(limiter) == MAX_CONNECTIONS
    limiter.release(socks[0])  # type: ignore[arg-type]
    limiter.release(socks[5])  # type: ignore[arg-type]
    assert len(limiter) == MAX_CONNECTIONS - 1


def test_an_address_that_asks_too_often_waits_and_no_other_does() -> None:
    now = [0.0]
    limiter = ConnectionLimiter(lambda: now[0])

    def served(address: str, times: int) -> int:
        return sum(limiter.admit(Sock(), address) for _ in range(times))  # type: ignore[arg-type]

    assert served("10.0.0.1", 1000) == BURST
    assert served("10.0.0.2", 1) == 1
    now[0] = 0.5
    assert served("10.0.0.1", 1000) == PER_SECOND / 2
    now[0] = 2.0**20
    assert served("10.0.0.1", 1000) == BURST, "no more than that is saved up"
    now[0] += 1 / 64
    assert served("10.0.0.1", 2) == 1, "1.6 connections more"
    for _ in range(2):
        now[0] += 1 / 128
        assert served("10.0.0.1", 1) == 0, "who asks before a whole one is due begins anew"
    now[0] += 1 / 64
    assert served("10.0.0.1", 2) == 1
    now[0] = 1e5
    assert served("10.0.0.1", 10) == 0, "a clock that goes back gives nothing"


def test_of_too_many_addresses_the_one_that_was_silent_longest_is_forgotten() -> None:
    limiter = ConnectionLimiter(lambda: 0.0)

    def served(address: str, times: int) -> int:
        return sum(limiter.admit(Sock(), address) for _ in range(times))  # type: ignore[arg-type]

    for address in ("first", "second"):
        assert served(address, 1000) == BURST
    for number in range(1022):
        served(str(number), 1)
    assert served("first", 1) == 0
    served("one more", 1)
    assert served("first", 1) == 0, "it has asked just now"
    assert served("second", 1) == 1


def test_a_connection_that_closes_meanwhile_makes_room_too() -> None:
    class Gone(Sock):
        def shutdown(self, how: int) -> None:
            raise OSError(107, "not connected")

    limiter = ConnectionLimiter()
    for number in range(MAX_CONNECTIONS + 1):
        assert limiter.admit(Gone(), str(number))  # type: ignore[arg-type]
    assert len(limiter) == MAX_CONNECTIONS
    limiter.release(Sock())  # type: ignore[arg-type]
    assert len(limiter) == MAX_CONNECTIONS


ANSWERS = [
    ("/ok", 200, "ok"),
    ("/ok?verbose", 200, "[+]one ok\n[+]two ok\ncheck passed\n"),
    ("/ok?other=1", 200, "ok"),
    ("/bad", 500, "[+]one ok\n[-]two failed: broken\ncheck failed\n"),
    ("/page", 200, "shown"),
    ("/page?verbose", 200, "shown"),
    ("/secret", 403, "access to this page is denied\n"),
    ("/late", 503, "not yet\n"),
    ("/none", 404, "no such page; the pages are: /bad /late /ok /page /secret\n"),
    ("//[", 400, "the target of the request is not a URL: Invalid IPv6 URL\n"),
]


@pytest.mark.parametrize(("target", "status", "text"), ANSWERS)
def test_what_each_target_is_answered(target: str, status: int, text: str) -> None:
    def late() -> tuple[str, bytes]:
        raise MusterError("not yet")

    good, bad = ("one", lambda: ""), ("two", lambda: "broken")
    pages = {path: lambda: ("text/html", b"shown") for path in ("/page", "/secret")} | {"/late": late}
    checks = {"/ok": [good, ("two", lambda: "")], "/bad": [good, bad]}
    door = HealthServer("127.0.0.1", 0, checks, pages, frozenset({"/secret"}))
    with closing(Stopped(door)):
        found = door.answer(target)
    assert (found[0], found[2].decode()) == (status, text)
    assert found[1] == ("text/html" if status == 200 and text == "shown" else "text/plain; charset=utf-8")


class Stopped:
    """Closes the port of a server."""

    def __init__(self, door: HealthServer) -> None:
        self.close = door.stop


def test_addresses_that_are_remembered_are_bounded() -> None:
    limiter = ConnectionLimiter(lambda: 0.0)
    for number in range(5000):
        limiter.admit(Sock(), str(number))  # type: ignore[arg-type]
    assert entries(limiter) - len(limiter) <= 1024


@pytest.fixture
def door() -> Iterator[HealthServer]:
    made = HealthServer("127.0.0.1", 0, {"/healthz": []}, {"/page": lambda: (TEXT, b"text")})
    made.start()
    yield made
    made.stop()


def test_silent_clients_hold_a_few_threads_and_delay_no_other_client(door: HealthServer) -> None:
    before = threading.active_count()
    host, port = door.url.removeprefix("http://").split(":")
    with ExitStack() as opened:
        for _ in range(int(BURST) - 10):
            opened.enter_context(socket.create_connection((host, int(port)), timeout=30))
        with urllib.request.urlopen(f"{door.url}/healthz", timeout=30) as answer:
            assert (answer.read(), answer.headers["Connection"]) == (b"ok", "close")
        eventually(lambda: threading.active_count() <= before + MAX_CONNECTIONS)


def test_a_client_that_leaves_is_no_traceback(
    door: HealthServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    host, port = door.url.removeprefix("http://").split(":")
    for said in (b"", b"GET ", b"GET /page HTTP/1.1\r\n", b"GET /page HTTP/1.1\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=30) as sock:
            sock.sendall(said)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    with urllib.request.urlopen(f"{door.url}/page", timeout=30) as answer:
        assert answer.read() == b"text"
    assert "Traceback" not in capfd.readouterr().err + caplog.text


@pytest.mark.parametrize(
    ("path", "authorization", "status"),
    [
        ("/open", "", 200),
        ("/kept", "Bearer right", 200),
        ("/kept?x=y", "", 403),
        ("/kept", "Bearer wrong", 403),
        ("//kept", "", 404),
        ("//[kept", "", 400),
        ("/kept/", "", 404),
        ("/Kept", "", 404),
        ("/%6bept", "", 404),
        ("http://x/kept", "", 403),
    ],
)
def test_guarded_pages_are_shown_to_authorized_clients_only(
    path: str, authorization: str, status: int
) -> None:
    def gate(path: str, said: str) -> tuple[int, str]:
        assert path == "/kept"
        return (200, "") if said == "Bearer right" else (403, "no")

    shown = {name: (lambda: (TEXT, b"secret")) for name in ("/open", "/kept")}
    door = HealthServer("127.0.0.1", 0, {}, shown, frozenset({"/kept"}), gate)
    try:
        found, _, body = door.answer(path, authorization)
    finally:
        door.stop()
    assert found == status
    assert (b"secret" in body) is (status == 200)
