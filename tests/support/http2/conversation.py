"""The server's side of one HTTP/2 connection, and the faults it commits on demand."""

from __future__ import annotations

import select
import socket
import ssl
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http.client import HTTPConnection, HTTPException
from queue import Empty, SimpleQueue
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.events import DataReceived, RequestReceived, SettingsAcknowledged, StreamEnded, StreamReset
from h2.settings import SettingCodes
from hyperframe.frame import GoAwayFrame

HTTP_1, HTTP_2 = "http/1.1", "h2"
_CHUNK = 1 << 16
_SECONDS = 10.0
# Fields of one connection, and those that are told anew.
OWN = frozenset(("host", "connection", "transfer-encoding", "keep-alive", "content-length"))


@dataclass(frozen=True)
class Call:
    """A request."""

    method: str
    path: str
    fields: list[tuple[str, str]]
    body: bytes


@dataclass(frozen=True)
class Reply:
    """Its answer."""

    status: int
    fields: list[tuple[str, str]]
    body: bytes


def handed_on(connection: HTTPConnection, call: Call) -> Reply | None:
    """The answer to the same request over HTTP/1.1, None if there is none. Closes the connection."""
    headers = {name: text for name, text in call.fields if name.lower() not in OWN and name[:1] != ":"}
    try:
        connection.request(call.method, call.path, call.body or None, headers)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    fields = [(name.lower(), text) for name, text in answer.getheaders() if name.lower() not in OWN]
    return Reply(answer.status, [*fields, ("content-length", str(len(body)))], body)


class Http2Faults:
    """What is to go wrong next, and what has come so far.

    Streams beyond `most_streams` are refused until the client has acknowledged that number; from then on they
    end the connection. `lost_code` resets streams for which there is no answer. Of all requests every
    `refuse_each`-th is refused, behind every `go_away_each`-th no more are taken on its connection, and with
    every `cut_each`-th it breaks; `hits` counts how often that came. `violations` has what the client did
    against the protocol, and what went wrong in here.
    """

    def __init__(self, most_streams: int) -> None:
        self.most_streams = most_streams
        self.lost_code = ErrorCodes.INTERNAL_ERROR
        # By protocol; requests are those that came in whole and were not refused.
        self.connections: Counter[str] = Counter()
        self.requests: Counter[str] = Counter()
        self.refused = 0
        self.cancelled = 0
        self.refuse_each = self.go_away_each = self.cut_each = 0
        self.hits = 0
        self.violations: list[str] = []
        self.lock = threading.Lock()
        self._refusals: list[ErrorCodes] = []
        self._silences = 0
        self._greetings: list[bytes] = []
        self._until_goaway = 0

    def refuse(self, *codes: ErrorCodes) -> None:
        """Reset the next streams with these codes, and do nothing about them."""
        with self.lock:
            self._refusals.extend(codes)

    def be_silent(self, times: int = 1) -> None:
        """Take the next requests, and neither hand them on nor answer."""
        with self.lock:
            self._silences = times

    def greet_with(self, data: bytes) -> None:
        """Say this on the next connection of HTTP/2, and nothing else."""
        with self.lock:
            self._greetings.append(data)

    def go_away_after(self, requests: int) -> None:
        """Take so many requests more of the connection that brings the last of them; ignore those behind."""
        with self.lock:
            self._until_goaway = requests

    def greeting(self) -> bytes:
        """What a new connection is greeted with instead of HTTP/2."""
        with self.lock:
            return self._greetings.pop(0) if self._greetings else b""

    def refusal(self, full: bool) -> ErrorCodes | None:
        """What a new stream is reset with, if it is."""
        with self.lock:
            code = ErrorCodes.REFUSED_STREAM if full else self._refusals.pop(0) if self._refusals else None
            if self._due(self.refuse_each, self.requests[HTTP_2] + self.refused + 1):
                code = ErrorCodes.REFUSED_STREAM
            self.refused += code is not None
            return code

    def taken(self) -> tuple[bool, bool]:
        """A whole request has come over HTTP/2: whether it is the last one here, and whether to be silent."""
        with self.lock:
            self.requests[HTTP_2] += 1
            last, silent = self._until_goaway == 1, self._silences > 0
            self._until_goaway = max(0, self._until_goaway - 1)
            self._silences = max(0, self._silences - 1)
            return last or self._due(self.go_away_each, self.requests[HTTP_2]), silent

    def cuts(self) -> bool:
        """Whether the connection breaks now that a request was handed on."""
        with self.lock:
            return self._due(self.cut_each, self.requests[HTTP_2])

    def be_well(self) -> None:
        """Nothing goes wrong from now on."""
        with self.lock:
            self.refuse_each = self.go_away_each = self.cut_each = 0

    def _due(self, each: int, number: int) -> bool:
        due = each > 0 and number % each == 0
        self.hits += due
        return due


class Conversation:
    """Its own thread, in `run`, alone touches its TLS and the state of the protocol.

    `hand_on` takes a request, and what its answer is told to, or None where there is none, from any thread.
    """

    def __init__(
        self,
        connection: ssl.SSLSocket,
        faults: Http2Faults,
        hand_on: Callable[[Call, Callable[[Reply | None], None]], None],
    ) -> None:
        self._connection = connection
        self._faults = faults
        self._hand_on = hand_on
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self._acts: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._wake_in, self._wake_out = socket.socketpair()
        # Requests that wait for their answers: their fields, and what has come of their bodies.
        self._open: dict[int, tuple[list[Any], bytearray]] = {}
        self._newest = 0
        self._last: int | None = None
        self._agreed = False
        self._handlers: dict[type, Callable[[Any], None]] = {
            RequestReceived: self._on_request,
            DataReceived: self._on_data,
            StreamEnded: self._on_end,
            StreamReset: self._on_reset,
            SettingsAcknowledged: self._on_acknowledged,
        }

    def go_away(self) -> None:
        """Take no more requests, and answer what has come. From any thread."""
        self._act(lambda: self._go_away(self._newest))

    def run(self) -> None:
        """Until the connection ends. Raises OSError, ProtocolError."""
        with self._wake_in, self._wake_out:
            if greeting := self._faults.greeting():
                self._connection.sendall(greeting)
                while self._connection.recv(_CHUNK):
                    pass
            else:
                self._talk()

    def _act(self, act: Callable[[], None]) -> None:
        """Do this on the connection's thread, if it lives. From any thread."""
        self._acts.put(act)
        with suppress(OSError):
            self._wake_in.send(b"x")

    def _talk(self) -> None:
        self._h2.initiate_connection()
        # Not among the first settings, as those are held against the client before it knows them.
        self._h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: self._faults.most_streams})
        while True:
            self._send(self._h2.data_to_send())
            ready, _, _ = select.select([self._connection, self._wake_out], [], [])
            if self._wake_out in ready:
                self._wake_out.recv(_CHUNK)
                with suppress(Empty):
                    while True:
                        self._acts.get_nowait()()
            if self._connection in ready:
                for event in self._h2.receive_data(self._received()):
                    if handler := self._handlers.get(type(event)):
                        handler(event)

    def _send(self, data: bytes) -> None:
        self._connection.settimeout(_SECONDS)
        self._connection.sendall(data)

    def _received(self) -> bytes:
        """All that is there, perhaps nothing. Raises OSError, at the end of the connection too."""
        self._connection.settimeout(0)
        data = bytearray()
        with suppress(ssl.SSLWantReadError):
            while part := self._connection.recv(_CHUNK):
                data += part
            if not data:
                raise ConnectionResetError
        return bytes(data)

    def _go_away(self, last: int) -> None:
        # By hand: the library says nothing more once it has said this.
        self._last = last
        self._send(self._h2.data_to_send() + GoAwayFrame(0, last).serialize())

    def _behind_the_last(self, stream: int) -> bool:
        return self._last is not None and stream > self._last

    def _on_request(self, event: RequestReceived) -> None:
        stream = event.stream_id
        if self._behind_the_last(stream):
            return
        self._newest = stream
        full = len(self._open) >= self._faults.most_streams and not self._agreed
        if (code := self._faults.refusal(full)) is not None:
            self._h2.reset_stream(stream, code)
        else:
            self._open[stream] = event.headers, bytearray()

    def _on_data(self, event: DataReceived) -> None:
        self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if event.stream_id in self._open:
            self._open[event.stream_id][1].extend(event.data)

    def _on_end(self, event: StreamEnded) -> None:
        stream = event.stream_id
        if stream not in self._open:
            return
        if self._behind_the_last(stream):
            del self._open[stream]
            return
        last, silent = self._faults.taken()
        if last:
            self._go_away(stream)
        if not silent:
            fields, body = self._open[stream]
            named = dict(fields)
            call = Call(named[":method"], named[":path"], fields, bytes(body))
            self._hand_on(call, lambda reply: self._act(partial(self._finish, stream, reply)))
        if self._faults.cuts():
            raise ConnectionResetError

    def _on_reset(self, event: StreamReset) -> None:
        if self._open.pop(event.stream_id, None) is not None:
            with self._faults.lock:
                self._faults.cancelled += 1

    def _on_acknowledged(self, event: SettingsAcknowledged) -> None:
        self._agreed = True

    def _finish(self, stream: int, reply: Reply | None) -> None:
        if self._open.pop(stream, None) is None:
            return
        if reply is None:
            self._h2.reset_stream(stream, self._faults.lost_code)
            return
        self._h2.send_headers(stream, [(":status", str(reply.status)), *reply.fields])
        size = self._h2.max_outbound_frame_size
        for at in range(0, len(reply.body), size):
            self._h2.send_data(stream, reply.body[at : at + size])
        self._h2.end_stream(stream)
