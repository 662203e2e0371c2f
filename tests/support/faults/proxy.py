"""A TLS proxy in front of an API server: what passes is written down, and meets faults on demand.

A proxy has doors. Each is a port with a kubeconfig of its own, so that one client can be cut off alone. What
comes over HTTP/2 goes through the same door once more, as a request of HTTP/1.1, and meets its faults there.
"""

from __future__ import annotations

import datetime as dt
import json
import select
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
from h2.exceptions import H2Error

from tests.support.clusters.server import Server, write_kubeconfig
from tests.support.faults.listener import Listener
from tests.support.faults.rules import Call, Journal, Rule
from tests.support.faults.store import status_body
from tests.support.free_port import free_port
from tests.support.http2.conversation import HTTP_1, HTTP_2, Conversation, Http2Faults, Reply, handed_on
from tests.support.http2.conversation import Call as SharedCall
from tests.support.stand_in_server import HOST, StandInHandler

_UPSTREAM_SECONDS = 120.0
_LOOK_MILLISECONDS = 250
_MOST_STREAMS = 100
_AT_ONCE = 32
_HOP = frozenset({"host", "connection", "transfer-encoding", "keep-alive"})


class Proxy:
    """Doors to `server` with one journal. `with Proxy(server, folder) as proxy: proxy.door("first")`."""

    def __init__(self, server: Server, folder: Path) -> None:
        place = urlsplit(server.url)
        self.upstream = (place.hostname or "", place.port or 0)
        self.trust = ssl.create_default_context(cafile=str(server.ca_file))
        self.token = server.token
        self.journal = Journal()
        self.folder = folder
        self.authority = trustme.CA()
        self.doors: dict[str, Door] = {}
        self.ca_file = folder / "proxy-ca.crt"
        self.authority.cert_pem.write_to_path(self.ca_file)

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.clear()
        for door in self.doors.values():
            door.close()

    def door(self, name: str, *, protocols: tuple[str, ...] = (HTTP_2, HTTP_1)) -> Door:
        """The door of that name, open; a new one speaks these protocols."""
        if name not in self.doors:
            self.doors[name] = Door(self, name, self.context(protocols=protocols))
        return self.doors[name]

    def context(
        self, not_after: dt.datetime | None = None, protocols: tuple[str, ...] = (HTTP_2, HTTP_1)
    ) -> ssl.SSLContext:
        """A serving certificate, valid until then."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.authority.issue_cert(HOST, not_after=not_after).configure_cert(context)
        context.set_alpn_protocols(list(protocols))
        return context


class Door:
    """A port of the proxy; the attributes of `tests.support.clusters.server.Server` lead through it."""

    def __init__(self, proxy: Proxy, name: str, context: ssl.SSLContext) -> None:
        self.proxy = proxy
        self.name = name
        self.http2 = Http2Faults(_MOST_STREAMS)
        self._context = context
        self._listener: _Listener | None = _Listener(self, free_port(), self._context)
        self._port = self._listener.port
        self.token = proxy.token
        self.ca_file = proxy.ca_file
        self.url = f"https://{HOST}:{self._port}"
        self.kubeconfig = proxy.folder / f"{name}.kubeconfig"
        write_kubeconfig(self.kubeconfig, self.url, self.ca_file, self.token)
        self._listener.start()

    def close(self) -> None:
        """Nobody listens any more, and what was open is broken."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()

    def open(self) -> None:
        """Listen again, on the same port."""
        if self._listener is None:
            self._listener = _Listener(self, self._port, self._context)
            self._listener.start()

    def show(self, context: ssl.SSLContext) -> None:
        """Serve with another certificate from now on; who is connected has to come again."""
        self._context = context
        if self._listener is not None:
            self._listener.context = context
        self.break_connections()

    def break_connections(self) -> None:
        if self._listener is not None:
            self._listener.break_connections()


class _Listener(Listener):
    def __init__(self, door: Door, port: int, context: ssl.SSLContext) -> None:
        self.door = door
        self._workers = ThreadPoolExecutor(_AT_ONCE, "door")
        super().__init__(port, _serve, context)  # type: ignore[arg-type]

    def close(self) -> None:
        super().close()
        self._workers.shutdown(wait=False, cancel_futures=True)

    def converse(self, connection: ssl.SSLSocket) -> None:
        """HTTP/2 until the connection ends. Raises OSError."""
        with self.door.http2.lock:
            self.door.http2.connections[HTTP_2] += 1
        try:
            Conversation(connection, self.door.http2, self._hand_on).run()
        except H2Error:
            self.door.http2.violations.append(traceback.format_exc())

    def _hand_on(self, call: SharedCall, done: Callable[[Reply | None], None]) -> None:
        # A door that was closed in the meantime takes nothing.
        with suppress(RuntimeError):
            self._workers.submit(lambda: done(self._ask_again(call)))

    def _ask_again(self, call: SharedCall) -> Reply | None:
        """The answer to the same request of HTTP/1.1 through this door, None if there is none."""
        trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        # It is ourselves, whatever certificate is shown to others.
        trust.check_hostname, trust.verify_mode = False, ssl.CERT_NONE
        again = HTTPSConnection(HOST, self.port, timeout=_UPSTREAM_SECONDS, context=trust)
        return handed_on(again, call)


def _serve(connection: ssl.SSLSocket, address: Any, listener: _Listener) -> None:
    if connection.selected_alpn_protocol() == HTTP_2:
        listener.converse(connection)
    else:
        _Handler(connection, address, listener)


class _Handler(StandInHandler):
    server: _Listener

    def setup(self) -> None:
        super().setup()
        proxy = self.server.door.proxy
        host, port = proxy.upstream
        self.upstream = HTTPSConnection(host, port, timeout=_UPSTREAM_SECONDS, context=proxy.trust)

    def finish(self) -> None:
        self.upstream.close()
        super().finish()

    def _serve(self) -> None:
        door = self.server.door
        url = urlsplit(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        verb = self.command
        if verb == "GET":
            watch = parse_qs(url.query).get("watch", [""])[0]
            verb = "watch" if watch in ("1", "true") else "list"
        call, rule = door.proxy.journal.meet(door.name, verb, url.path, body)
        self.close_connection = True
        if rule is not None:
            if rule.before is not None and not rule.before.wait():
                return
            if rule.drop:
                return
            if rule.status:
                self._refuse(call, rule)
                return
        try:
            answer = self._ask(body)
        except (OSError, HTTPException):
            # As the server's connection breaks, so does the client's.
            return
        call.status = answer.status
        with closing(answer):
            if verb == "watch" and answer.status == 200:
                self._stream(answer, rule)
            else:
                self._pass_on(call, answer, rule)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _ask(self, body: bytes) -> HTTPResponse:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _HOP}
        self.upstream.request(self.command, self.path, body or None, headers)
        return self.upstream.getresponse()

    def _refuse(self, call: Call, rule: Rule) -> None:
        call.status = rule.status
        payload = json.dumps(status_body(rule.status, rule.reason, "a fault on demand")).encode()
        extra = {} if rule.retry_after is None else {"Retry-After": str(rule.retry_after)}
        self._send(rule.status, payload, {"Content-Type": "application/json", **extra})
        call.answered = True

    def _pass_on(self, call: Call, answer: HTTPResponse, rule: Rule | None) -> None:
        payload = answer.read()
        if rule is not None:
            if rule.after is not None and not rule.after.wait():
                return
            if rule.lose:
                return
            time.sleep(rule.delay)
        kept = {name: value for name, value in answer.getheaders() if name.lower() not in _HOP}
        kept.pop("Content-Length", None)
        self._send(answer.status, payload, kept)
        call.answered = True

    def _send(self, status: int, payload: bytes, headers: dict[str, str]) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
        self.close_connection = False

    def _stream(self, answer: HTTPResponse, rule: Rule | None) -> None:
        self.send_response_only(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in rule.lines if rule else ():
            self._chunk(line)
        ended = threading.Event()
        threading.Thread(target=self._await_hang_up, args=(ended,), daemon=True).start()
        left = rule.cut_after if rule else None
        try:
            while line := answer.readline():
                if left == 0 or (rule and rule.after and not rule.after.wait()):
                    return
                self._chunk(line)
                left = left if left is None else left - 1
            self.wfile.write(b"0\r\n\r\n")
        except (OSError, HTTPException):
            return
        finally:
            ended.set()

    def _await_hang_up(self, ended: threading.Event) -> None:
        """A client that leaves its watch ends it at the server too."""
        look = select.poll()
        look.register(self.connection, select.POLLRDHUP)
        while not ended.is_set():
            if look.poll(_LOOK_MILLISECONDS):
                raw = self.upstream.sock
                if raw is not None:
                    with suppress(OSError):
                        socket.socket.shutdown(raw, socket.SHUT_RDWR)
                return

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def expired() -> dt.datetime:
    """A moment that has passed."""
    return dt.datetime.now(dt.UTC) - dt.timedelta(minutes=10)
