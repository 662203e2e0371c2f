"""Who is cut off where clients keep workers waiting: decided on the monotonic clock, without a socket."""

from __future__ import annotations

import errno
import logging
import socket
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler_core.serving import connections
from scheduler_core.serving import idle_connections as resting
from scheduler_core.serving.connections import BoundedConnection
from scheduler_core.serving.idle_connections import IDLE_SECONDS, IdleConnections
from scheduler_core.serving.server import (
    PRESSED_AT_ONCE,
    PRESSED_SECONDS,
    REQUEST_SECONDS,
    BoundedServer,
    limit_of,
)

NOW = 1000.0


class Client:
    """A connection: since when a worker waits for it (None: it does not), and whether it was given up."""

    def __init__(self, since: float | None = None, *, asked: bool = False) -> None:
        self.waiting_since = since
        self.asked = asked
        self.last_used: float | None = since
        self.given_up = False
        self.closed = False
        self.idle_until = 0.0
        self.rfile = SimpleNamespace(has_data=lambda: False)
        self.socket, self.peer = socket.socketpair()

    def give_up(self) -> None:
        self.given_up = True

    def close(self) -> None:
        self.closed = True

    def __del__(self) -> None:
        self.socket.close()
        self.peer.close()


def server(
    *active: Client,
    queued: int = 0,
) -> Any:
    made = SimpleNamespace(
        active=set(active),
        requests=SimpleNamespace(qsize=queued),
    )
    return cast(BoundedServer, made)


def cut_off(*clients: Client, queued: int = 0) -> list[bool]:
    BoundedServer.cut_off(server(*clients, queued=queued), NOW)
    return [client.given_up for client in clients]


def test_a_client_that_keeps_a_worker_waiting_too_long_is_disconnected() -> None:
    late, just, idle = Client(NOW - REQUEST_SECONDS - 0.1), Client(NOW - REQUEST_SECONDS), Client(None)
    assert cut_off(late, just, idle) == [True, False, False]


def test_where_others_queue_those_that_wait_longest_have_less_time() -> None:
    old = Client(NOW - PRESSED_SECONDS - 0.1)
    assert cut_off(old) == [False]
    assert cut_off(old, queued=1) == [True]
    assert cut_off(Client(NOW - PRESSED_SECONDS), queued=1) == [False]


def test_no_more_are_pressed_than_is_useful() -> None:
    clients = [Client(NOW - PRESSED_SECONDS - 1 - number / 100) for number in range(PRESSED_AT_ONCE + 3)]
    given_up = cut_off(*clients, queued=1)
    assert given_up == [False] * 3 + [True] * PRESSED_AT_ONCE, "those that wait longest go"
    again = [Client(NOW - PRESSED_SECONDS - 1) for _ in range(PRESSED_AT_ONCE + 3)]
    assert all(cut_off(*again, queued=PRESSED_AT_ONCE + 3)), "as many as are waited for"


def at_rest(*clients: Client) -> Any:
    """Connections that wait for their clients, who were active and may be idle as each of them says."""
    listening = Client()
    server = SimpleNamespace(timeout=5, log=logging.getLogger("muster.test"), socket=listening.socket)
    server.listening = listening
    made = IdleConnections(server)
    for client in clients:
        active, until = client.last_used, client.idle_until
        made.put(client)
        client.last_used, client.idle_until = active, until
    return made


def test_beyond_the_limit_the_oldest_that_never_asked_makes_room() -> None:
    asked, new, old = Client(1.0, asked=True), Client(3.0), Client(2.0)
    full = at_rest(asked, new, old)
    full.make_room(3)
    assert [client.closed for client in (asked, old, new)] == [False, True, False]
    full.make_room(3)
    assert not new.closed, "within the limit: who was closed counts no longer"
    at_rest(asked).make_room(0)
    assert not asked.closed, "who asked may rest"


@pytest.mark.parametrize(
    ("descriptors", "limit"), [(16, 8), (64, 32), (128, 64), (1024, 960), (1 << 20, 4096)]
)
def test_there_is_room_for_clients_and_for_the_process_itself(descriptors: int, limit: int) -> None:
    assert limit_of(descriptors) == limit


def test_resting_connections_end_by_their_own_time() -> None:
    over, just, later = Client(), Client(), Client()
    over.idle_until, just.idle_until, later.idle_until = NOW - 1, NOW, NOW + 1
    made = at_rest(over, just, later)
    made.expire(NOW)
    assert [client.closed for client in (over, just, later)] == [True, False, False]
    made.make_room(3)
    assert not later.closed, "who was closed counts no longer"


def test_a_client_that_sent_a_request_before_may_be_idle_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: NOW)
    monkeypatch.setattr(resting.ConnectionManager, "put", lambda self, conn: None)
    made = at_rest()
    for asked, until in ((True, NOW + IDLE_SECONDS), (False, NOW + 5)):
        client = Client(asked=asked)
        made.put(client)
        assert client.idle_until == until


@pytest.mark.parametrize("error", [OSError(9, "bad"), ValueError("-1"), KeyError("registered already")])
def test_a_connection_that_cannot_rest_costs_no_worker(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def put(self: Any, conn: Any) -> None:
        raise error

    monkeypatch.setattr(resting.ConnectionManager, "put", put)
    client = Client()
    at_rest().put(client)
    assert client.closed


LISTENING, INTERVAL = 3, 0.5


class Turns:
    """A selector that says who is ready turn by turn, each a quarter of a second later, and then stops."""

    def __init__(self, made: Any, *ready: Sequence[Any]) -> None:
        self.made = made
        self.ready = list(ready)
        self.now = NOW
        self.waits: list[float] = []
        self.known = {fd: conn for fd, conn in made._selector.connections if conn is not made.server}  # noqa: SLF001
        made._selector.close()  # noqa: SLF001
        made._selector = self  # noqa: SLF001
        self.listens = True

    @property
    def connections(self) -> list[tuple[int, Any]]:
        return list(self.known.items())

    def select(self, timeout: float) -> list[tuple[int, Any]]:
        self.waits.append(timeout)
        self.now += 0.25
        if not self.ready:
            self.made._stop_requested = True  # noqa: SLF001
            return []
        return [
            (LISTENING if conn is self.made.server else self.place(conn), conn) for conn in self.ready.pop(0)
        ]

    def place(self, conn: Any) -> int:
        return next(fd for fd, known in self.known.items() if known is conn)

    def unregister(self, descriptor: int) -> None:
        if descriptor == LISTENING:
            assert self.listens
            self.listens = False
        else:
            del self.known[descriptor]

    def register(self, descriptor: int, events: int, data: Any) -> None:
        assert (descriptor, data, self.listens) == (LISTENING, self.made.server, False)
        self.listens = True

    def close(self) -> None:
        """Nothing is open."""


def turned(
    monkeypatch: pytest.MonkeyPatch, clients: Sequence[Client], accepts: Sequence[Any], *ready: Sequence[Any]
) -> tuple[Turns, list[Any]]:
    """Turns with these clients at rest: `server` in `ready` stands for a new client, `accepts` for each of
    them or the error. Returns whom a worker got, in their order.
    """
    made = at_rest(*clients)
    given: list[Any] = []
    made.server.process_conn = given.append
    made.server.socket = SimpleNamespace(fileno=lambda: LISTENING)
    answers = iter(accepts)

    def accept(sock: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    made._from_server_socket = accept  # noqa: SLF001
    turns = Turns(made, *[[made.server if one == "new" else one for one in turn] for turn in ready])
    monkeypatch.setattr(time, "monotonic", lambda: turns.now)
    made.run(INTERVAL)
    return turns, given


FULL = OSError(errno.EMFILE, "Too many open files")


def test_who_sends_something_is_served_before_a_new_client(monkeypatch: pytest.MonkeyPatch) -> None:
    sends, rests, new = Client(1.0), Client(2.0), Client()
    sends.idle_until = rests.idle_until = NOW + 60
    turns, given = turned(monkeypatch, [sends, rests], [new], ["new", sends])
    assert given == [sends, new]
    assert [conn for _, conn in turns.connections] == [rests]
    assert not rests.closed


def test_a_client_that_left_before_it_was_accepted_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    rests = Client(1.0)
    rests.idle_until = NOW + 60
    turns, given = turned(monkeypatch, [rests], [OSError(errno.ECONNABORTED, "gone"), None], ["new"], ["new"])
    assert (given, rests.closed, turns.listens) == ([], False, True)
    assert turns.waits == [INTERVAL] * 3


def test_without_a_descriptor_the_oldest_makes_room_first_of_those_that_never_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, old, late = Client(1.0, asked=True), Client(3.0), Client(2.0)
    for each in (asked, old, late):
        each.idle_until = NOW + 60
    for times, closed in ((1, [late]), (2, [late, old]), (3, [late, old, asked])):
        for each in (asked, old, late):
            each.closed = False
        turns, _ = turned(monkeypatch, [asked, old, late], [FULL] * times, *[["new"]] * times)
        assert [each for each in (late, old, asked) if each.closed] == closed
        assert turns.listens


def test_without_any_to_close_accepting_pauses_and_says_so_once_a_second(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    new = Client()
    turns, given = turned(monkeypatch, [], [*[FULL] * 5, new], *[["new"], []] * 5, ["new"])
    assert given == [new]
    assert turns.listens
    assert turns.waits == [*[INTERVAL, resting.PAUSE_SECONDS] * 5, INTERVAL, INTERVAL]
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert told == ["no descriptor for another client: Too many open files"] * 3


def test_those_whose_time_is_over_are_closed_once_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    over, later = Client(1.0), Client(2.0)
    over.idle_until, later.idle_until = NOW + 0.6, NOW + 60
    for turns, closed in ((0, False), (1, False), (2, True)):
        over.closed = later.closed = False
        turned(monkeypatch, [over, later], [], *[[]] * turns)
        assert (over.closed, later.closed) == (closed, False), f"after {turns + 1} turns"


class Socket:
    """What a client sends, in pieces; an empty piece is the end."""

    def __init__(self, *pieces: bytes, pending: int = 0) -> None:
        self.pieces = list(pieces)
        self.left = pending

    def pending(self) -> int:
        return self.left

    def settimeout(self, seconds: float) -> None:
        pass

    def recv(self, size: int) -> bytes:
        if not self.pieces:
            raise TimeoutError
        return self.pieces.pop(0)


def connection(sock: Socket, *, held: bool = False, polled: bool = False, **state: Any) -> Any:
    made = SimpleNamespace(ready=True, active=set(), lingering=1, requests=SimpleNamespace(qsize=0), **state)
    return SimpleNamespace(
        waiting_since=NOW,
        shaken=True,
        socket=sock,
        server=made,
        rfile=SimpleNamespace(has_data=lambda: held),
        wfile=SimpleNamespace(flush=lambda: None),
        readable=SimpleNamespace(poll=lambda milliseconds: [1] if polled else []),
    )


@pytest.mark.parametrize(
    ("conn", "more"),
    [
        pytest.param(connection(Socket(), held=True), True, id="a request was received"),
        pytest.param(connection(Socket(pending=3)), True, id="a record of TLS was received"),
        pytest.param(connection(Socket(), polled=True), True, id="one comes within a moment"),
        pytest.param(connection(Socket()), False, id="none comes"),
    ],
)
def test_a_worker_stays_with_its_client_while_requests_come(conn: Any, more: bool) -> None:
    assert BoundedConnection.another_comes(conn) is more
    assert conn.waiting_since is None


@pytest.mark.parametrize("reason", ["stopping", "others queue", "too many linger"])
def test_a_worker_does_not_linger_where_it_is_needed(reason: str) -> None:
    conn = connection(Socket(), polled=True)
    if reason == "stopping":
        conn.server.ready = False
    elif reason == "others queue":
        conn.server.requests.qsize = 1
    else:
        conn.server.active = {1, 2}
    assert BoundedConnection.another_comes(conn) is False


def test_the_rest_of_a_refused_clients_body_is_read_to_its_end_or_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sock = Socket(b"x" * 10, b"y", b"", b"beyond the end")
    BoundedConnection.drain(connection(sock))
    assert sock.pieces == [b"beyond the end"]
    monkeypatch.setattr(connections, "DRAIN_READS", 2)
    sock = Socket(b"123", b"45", b"6")
    BoundedConnection.drain(connection(sock))
    assert sock.pieces == [b"6"], "no more than so much"
    sock = Socket(b"1")
    BoundedConnection.drain(connection(sock))
    assert sock.pieces == [], "a client that says nothing is left"
