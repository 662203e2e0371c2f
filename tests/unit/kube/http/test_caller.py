"""Calls of servers that hang, drip and send too much, against a real one."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scheduler_core.certificates import issue_serving, make_authority
from scheduler_core.kube.http.caller import Caller, CallFailed
from scheduler_core.kube.http.endpoint import Endpoint
from tests.support.extender_server import Handler, extender_server
from tests.support.free_port import free_port

SECONDS = 0.4
# The end of a call that took its time in full; no bound for a machine that is busy.
MUCH = 20.0


def call(url: str, seconds: float = SECONDS, most: int = 1 << 20, **trust: Any) -> bytes:
    return Caller(Endpoint(url, **trust), seconds).post("v", b'{"a": 1}', most)


def test_a_request_does_not_wait_for_acknowledgements(monkeypatch: pytest.MonkeyPatch) -> None:
    """With Nagle's algorithm the last part of a long one would, and a request behind a TLS handshake."""
    waits: list[bool] = []
    send = socket.socket.send

    def observed(sock: socket.socket, data: bytes) -> int:
        if bytes(data[:4]) == b"POST":
            waits.append(not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        return send(sock, data)

    monkeypatch.setattr(socket.socket, "send", observed)
    with extender_server(v=lambda handler, body: body) as server:
        assert call(server.url, MUCH) == b'{"a": 1}'
    assert waits == [False]


def drip(handler: Handler, body: Any) -> None:
    """A byte of the body at a time, each long before a time limit for single reads."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _ in range(1000):
        handler.wfile.write(b" ")
        if handler.hold(0.05):
            return


def drip_head(handler: Handler, body: Any) -> None:
    for letter in b"HTTP/1.1 200 OK\r\n" * 40:
        handler.wfile.write(bytes([letter]))
        handler.wfile.flush()
        if handler.hold(0.05):
            return


def hang(handler: Handler, body: Any) -> None:
    handler.hold()


def flood(handler: Handler, body: Any) -> None:
    """A hundred MB without a length."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    for _ in range(1600):
        handler.wfile.write(b" " * 65536)


def large(handler: Handler, body: Any) -> None:
    """A hundred MB, and says so."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(100 << 20))
    handler.end_headers()
    flood_body = b" " * 65536
    for _ in range(1600):
        handler.wfile.write(flood_body)


def chunked(handler: Handler, body: Any) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _ in range(1600):
        handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")


def cut(handler: Handler, body: Any) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b'{"nodenames":')


def away(handler: Handler, body: Any) -> None:
    handler.send_response(307)
    handler.send_header("Location", "/base/elsewhere")
    handler.send_header("Content-Length", "0")
    handler.end_headers()


def broken(handler: Handler, body: Any) -> None:
    handler.say(b"no", status=500)


def babble(handler: Handler, body: Any) -> None:
    handler.wfile.write(b"SSH-2.0-x\r\n")


def silence(handler: Handler, body: Any) -> None:
    handler.close_connection = True


TROUBLE: list[tuple[Callable[[Handler, Any], None], str, str]] = [
    (hang, "timeout", "no complete answer within 0.4 s"),
    (drip, "timeout", "no complete answer within 0.4 s"),
    (drip_head, "timeout", "no complete answer within 0.4 s"),
    (flood, "too-large", "the answer has more than 1048576 bytes"),
    (large, "too-large", "the answer has more than 1048576 bytes"),
    (chunked, "too-large", "the answer has more than 1048576 bytes"),
    (cut, "connection", "the connection broke"),
    (away, "status", "it answered 307, not 200"),
    (broken, "status", "it answered 500, not 200"),
    (babble, "connection", "the connection broke"),
    (silence, "connection", "the connection broke"),
]


@pytest.mark.parametrize(("act", "reason", "problem"), TROUBLE, ids=[row[0].__name__ for row in TROUBLE])
def test_a_call_ends_whatever_the_server_does(
    act: Callable[[Handler, Any], None], reason: str, problem: str
) -> None:
    patience = SECONDS if reason == "timeout" else MUCH
    with extender_server(v=act, elsewhere=lambda handler, body: {}) as server:
        with pytest.raises(CallFailed) as failed:
            call(server.url, patience)
        assert (failed.value.reason, failed.value.url) == (reason, f"{server.url}/v")
        assert str(failed.value).startswith(f"POST {server.url}/v: {problem}")
        assert [path for path, _ in server.calls] == ["/base/v"], "nothing is repeated, no redirect followed"


def test_an_answer_is_given_back_as_it_is() -> None:
    with extender_server(v=lambda handler, body: {"got": body}) as server:
        assert call(server.url, MUCH) == b'{"got": {"a": 1}}'
        assert call(server.url + "/", MUCH) == b'{"got": {"a": 1}}'
        assert {path for path, _ in server.calls} == {"/base/v"}


def test_the_extender_does_not_listen() -> None:
    with pytest.raises(CallFailed, match="connection refused"):
        call(f"http://127.0.0.1:{free_port()}", MUCH)


def test_all_addresses_of_a_host_share_the_time_of_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0

    class Dead:
        """Nobody answers at its address."""

        def __init__(self, *args: Any) -> None:
            self.seconds = 0.0

        def settimeout(self, seconds: float) -> None:
            self.seconds = seconds

        def connect(self, address: Any) -> None:
            nonlocal now
            now += self.seconds
            raise TimeoutError

        def close(self) -> None:
            return

    listed = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"192.0.2.{i}", 80)) for i in range(1, 4)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, port, *args, **kw: listed)
    monkeypatch.setattr(socket, "socket", Dead)
    caller = Caller(Endpoint("http://extender.example"), 5.0, monotonic=lambda: now)
    with pytest.raises(CallFailed, match="no complete answer within 5 s"):
        caller.post("v", b"{}")
    assert now == 5.0


def test_the_certificate_is_verified_by_the_given_authority(tmp_path: Path) -> None:
    authority = make_authority(time.time())
    pair = issue_serving(authority, ["127.0.0.1"], time.time())
    (tmp_path / "pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    with extender_server(context, v=lambda handler, body: {}) as server:
        assert call(server.url, MUCH, ca=authority.certificate.decode()) == b"{}"
        assert call(server.url, MUCH, insecure=True) == b"{}"
        with pytest.raises(CallFailed, match="its certificate is not trusted"):
            call(server.url, MUCH)
