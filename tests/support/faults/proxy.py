"""A TLS proxy in front of an API server: what passes is written down, and meets faults on demand.

A proxy has doors. Each is a port with a kubeconfig of its own, so that one client can be cut off alone. What
comes over HTTP/2 meets the same faults as what comes over HTTP/1.1.
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
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from http import HTTPStatus
from http.client import HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import trustme
from h2.exceptions import H2Error

from tests.support.clusters.kept_links import LINKS
from tests.support.clusters.server import Server, write_kubeconfig
from tests.support.faults.listener import Listener
from tests.support.faults.rules import Call, Journal, Rule
from tests.support.faults.store import status_body
from tests.support.free_port import free_port
from tests.support.http2.conversation import HTTP_1, HTTP_2, OWN, Conversation, Http2Faults, Reply
from tests.support.http2.conversation import Call as SharedCall
from tests.support.stand_in_server import HOST, StandInHandler

_UPSTREAM_SECONDS = 120.0
_LOOK_MILLISECONDS = 250
_MOST_STREAMS = 100
_AT_ONCE = 32


class Proxy:
    """Doors to `server` with one journal. `with Proxy(server, folder) as proxy: proxy.door("first")`."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
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

    @contextmanager
    def upstream(self, call: SharedCall) -> Iterator[tuple[HTTPSConnection, HTTPResponse]]:
        """The server's answer and its connection, which is kept if the block reads the answer to its end.

        Raises OSError where the server breaks off.
        """
        place = self._server.url, self._server.ca_file
        link = LINKS.take(*place, _UPSTREAM_SECONDS)
        headers = {name: text for name, text in call.fields if name.lower() not in OWN and name[:1] != ":"}
        try:
            link.request(call.method, call.path, call.body or None, headers)
            with closing(link.getresponse()) as answer:
                yield link, answer
                whole = answer.isclosed()
        except HTTPException as broken:
            link.close()
            raise ConnectionResetError from broken
        except BaseException:
            link.close()
            raise
        if whole:
            LINKS.give_back(*place, link)
        else:
            link.close()

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

    def meet(self, call: SharedCall) -> tuple[Call, Rule | None]:
        """Write a request down; the fault that it meets."""
        verb = call.method if call.method != "GET" else "watch" if _is_watch(call) else "list"
        return self.proxy.journal.meet(self.name, verb, urlsplit(call.path).path, call.body)

    def exchange(self, asked: SharedCall) -> Reply:
        """The answer to a request that is no watch. Raises OSError where its connection breaks instead."""
        call, rule = self.meet(asked)
        if (refusal := _refusal(call, rule)) is not None:
            return refusal
        with self.proxy.upstream(asked) as (_, answer):
            call.status = answer.status
            reply = _whole(answer)
        if rule is not None:
            if (rule.after is not None and not rule.after.wait()) or rule.lose:
                raise ConnectionResetError
            time.sleep(rule.delay)
        call.answered = True
        return reply


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
            self._workers.submit(lambda: done(self._reply(call)))

    def _reply(self, call: SharedCall) -> Reply | None:
        with suppress(OSError):
            return self.door.exchange(call)
        return None


def _serve(connection: ssl.SSLSocket, address: Any, listener: _Listener) -> None:
    if connection.selected_alpn_protocol() == HTTP_2:
        listener.converse(connection)
    else:
        _Handler(connection, address, listener)


def _is_watch(call: SharedCall) -> bool:
    watch = parse_qs(urlsplit(call.path).query).get("watch", [""])[0]
    return call.method == "GET" and watch in ("1", "true")


def _refusal(call: Call, rule: Rule | None) -> Reply | None:
    """A fault's answer in the server's place, None if there is none. Raises OSError where it breaks off."""
    if rule is None:
        return None
    if rule.drop or (rule.before is not None and not rule.before.wait()):
        raise ConnectionResetError
    if not rule.status:
        return None
    call.status, call.answered = rule.status, True
    payload = json.dumps(status_body(rule.status, rule.reason, "a fault on demand")).encode()
    again = [] if rule.retry_after is None else [("retry-after", str(rule.retry_after))]
    return Reply(rule.status, [("content-type", "application/json"), *again, _length(payload)], payload)


def _whole(answer: HTTPResponse) -> Reply:
    """The server's answer without what is said of its connection."""
    payload = answer.read()
    told = [(name.lower(), text) for name, text in answer.getheaders()]
    kept = [(name, text) for name, text in told if name not in OWN]
    return Reply(answer.status, [*kept, _length(payload)], payload)


def _length(payload: bytes) -> tuple[str, str]:
    return "content-length", str(len(payload))


class _Handler(StandInHandler):
    server: _Listener

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        call = SharedCall(self.command, self.path, self.headers.items(), body)
        self.close_connection = True
        with suppress(OSError):
            if _is_watch(call):
                self._watch(call)
            else:
                self._send(self.server.door.exchange(call))

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _send(self, reply: Reply) -> None:
        self.send_response_only(reply.status)
        for name, value in reply.fields:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body)
        self.close_connection = False

    def _watch(self, asked: SharedCall) -> None:
        door = self.server.door
        call, rule = door.meet(asked)
        if (refusal := _refusal(call, rule)) is not None:
            self._send(refusal)
            return
        with door.proxy.upstream(asked) as (link, answer):
            call.status = answer.status
            if answer.status == HTTPStatus.OK:
                self._stream(link, answer, rule)
            else:
                self._send(_whole(answer))
            # Somebody may still be about to break it.
            link.close()

    def _stream(self, link: HTTPSConnection, answer: HTTPResponse, rule: Rule | None) -> None:
        self.send_response_only(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in rule.lines if rule else ():
            self._chunk(line)
        ended = threading.Event()
        threading.Thread(target=self._await_hang_up, args=(link.sock, ended), daemon=True).start()
        left = rule.cut_after if rule else None
        try:
            while line := answer.readline():
                if left == 0 or (rule and rule.after and not rule.after.wait()):
                    return
                self._chunk(line)
                left = left if left is None else left - 1
            self.wfile.write(b"0\r\n\r\n")
        finally:
            ended.set()

    def _await_hang_up(self, upstream: socket.socket, ended: threading.Event) -> None:
        """A client that leaves its watch ends it at the server too."""
        look = select.poll()
        look.register(self.connection, select.POLLRDHUP)
        while not ended.is_set():
            if look.poll(_LOOK_MILLISECONDS):
                with suppress(OSError):
                    socket.socket.shutdown(upstream, socket.SHUT_RDWR)
                return

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def expired() -> dt.datetime:
    """A moment that has passed."""
    return dt.datetime.now(dt.UTC) - dt.timedelta(minutes=10)
