"""A small scripted API server on loopback: real list and watch semantics, and faults on demand.

Its `objects` are the ground truth. A fault is queued with `fail` and consumed by the next matching requests.
"""

from __future__ import annotations

import json
import re
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.faults.listener import Listener
from tests.support.faults.store import Fault, FaultStore, Key, Request, carry_out, status_body
from tests.support.free_port import free_port
from tests.support.stand_in_server import StandInHandler

_PATH = re.compile(
    r"^/apis?/(?:[^/]+/)?v[^/]+/(?:namespaces/(?P<ns>[^/]+)/)?(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>.+))?$"
)


class FaultServer(FaultStore):
    """`with FaultServer() as server:` serves on a loopback port until the block ends."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        super().__init__()
        self._context = context
        self._httpd: _Server | None = None
        self.port = 0

    def __enter__(self) -> FaultServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def url(self) -> str:
        return f"{'https' if self._context else 'http'}://127.0.0.1:{self.port}"

    @property
    def running(self) -> bool:
        return self._httpd is not None

    @contextmanager
    def side_door(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """A second URL of the same server, and what closes it for good: a partition of whoever uses it."""
        door = _Server(0, self, None)
        door.start()
        yield f"http://127.0.0.1:{door.port}", door.close
        door.close()

    def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        self._httpd = _Server(self.port or free_port(), self, self._context)
        self.port = self._httpd.port
        self._httpd.start()

    def kill(self) -> None:
        """Stop listening and break every connection."""
        httpd, self._httpd = self._httpd, None
        if httpd is not None:
            httpd.close()
        with self.changed:
            self.changed.notify_all()

    def break_streams(self) -> None:
        """Break every open connection; go on listening."""
        if self._httpd is not None:
            self._httpd.break_connections()


class _Server(Listener):
    def __init__(self, port: int, owner: FaultServer, context: ssl.SSLContext | None) -> None:
        self.owner = owner
        super().__init__(port, _Handler, context)

    def opened(self) -> None:
        with self.owner.changed:
            self.owner.connections += 1


class _Handler(StandInHandler):
    server: _Server

    def _serve(self) -> None:
        owner = self.server.owner
        url = urlsplit(self.path)
        query = {key: values[0] for key, values in parse_qs(url.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        raw = self.rfile.read(length)
        match = _PATH.match(url.path)
        verb = self.command
        if verb == "GET" and match and not match["name"]:
            verb = "watch" if query.get("watch") == "true" else "list"
        body = json.loads(raw) if raw else None
        owner.record(Request(time.monotonic(), verb, url.path, query, body, dict(self.headers)))
        fault = owner.take_fault(verb, url.path)
        if fault is not None and fault.silent:
            self._hold()
            return
        if fault is not None and fault.late:
            time.sleep(fault.late)
        if fault is not None and fault.status:
            self._status(fault.status, fault.reason or "Scripted", "scripted fault", fault.retry_after)
            return
        if match is None:
            self._status(404, "NotFound", "the server could not find the requested resource")
            return
        plural, namespace = match["plural"], unquote(match["ns"] or "")
        if plural in owner.absent:
            self._status(404, "NotFound", "the server could not find the requested resource")
        elif verb == "watch":
            self._watch(plural, query, fault)
        elif verb == "list":
            self._list(plural, namespace, query)
        else:
            self._object(
                verb, (plural, namespace, unquote(match["name"] or "")), match["sub"] or "", body, fault
            )

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve

    def _hold(self) -> None:
        """Never answer; leave when the server dies or the client hangs up."""
        self.connection.settimeout(0.05)
        self.close_connection = True
        while self.server.owner.running:
            try:
                if not self.connection.recv(1):
                    return
            except TimeoutError:
                continue

    def _answer(self, code: int, body: Any, retry_after: int | None = None) -> None:
        later = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self.answer(code, json.dumps(body).encode(), {"Content-Type": "application/json", **later})

    def _status(self, code: int, reason: str, message: str, retry_after: int | None = None) -> None:
        self._answer(code, status_body(code, reason, message), retry_after)

    def _list(self, plural: str, namespace: str, query: dict[str, str]) -> None:
        owner = self.server.owner
        with owner.changed:
            version, start = owner.version, 0
            if token := query.get("continue"):
                version, start = (int(part) for part in token.split("-"))
                if version < owner.compacted:
                    self._status(410, "Expired", "the provided continue parameter is too old")
                    return
            found = [
                o for (p, ns, _), o in sorted(owner.objects.items()) if p == plural and namespace in ("", ns)
            ]
        limit = int(query.get("limit") or 0) or len(found) or 1
        metadata = {"resourceVersion": str(version)}
        if start + limit < len(found):
            metadata["continue"] = f"{version}-{start + limit}"
        self._answer(
            200, {"kind": "List", "metadata": metadata, "items": found[start : start + limit] or None}
        )

    def _watch(self, plural: str, query: dict[str, str], fault: Fault | None) -> None:
        owner = self.server.owner
        version = int(query["resourceVersion"])
        if version < owner.compacted:
            self._status(410, "Expired", "too old resource version")
            return
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        if fault is not None and fault.mute:
            self.wfile.flush()
            self._hold()
            return
        for line in fault.lines if fault else ():
            self._chunk(line)
        left = fault.cut_after if fault is not None else None
        if fault is not None and fault.lines and left is None:
            self.wfile.write(b"0\r\n\r\n")
            return
        until = time.monotonic() + float(query.get("timeoutSeconds", "300"))
        while owner.running and time.monotonic() < until and left != 0:
            with owner.changed:
                news = [entry for entry in owner.history if entry[0] > version]
                if not news and not owner.changed.wait(0.1):
                    continue
            for number, type_, kind, obj in news:
                version = number
                if kind != plural:
                    continue
                line = json.dumps({"type": type_, "object": obj}).encode() + b"\n"
                for _ in range(owner.repeat_events):
                    self._chunk(line)
                if left is not None:
                    left -= 1
                    if left == 0:
                        return
        if owner.running and left is None:
            if owner.bookmarks:
                mark = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": str(version)}}}
                self._chunk(json.dumps(mark).encode() + b"\n")
            self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _object(self, verb: str, key: Key, sub: str, body: Any, fault: Fault | None) -> None:
        owner = self.server.owner
        with owner.changed:
            code, answer = carry_out(owner, verb, key, sub, body)
        if fault is not None and fault.lose:
            self.close_connection = True
            return
        self._answer(code, answer)
