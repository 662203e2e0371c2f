"""Another implementation of HTTP/2 hears what we say, and is heard."""

from __future__ import annotations

from random import Random
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded
from hypothesis import given
from hypothesis import strategies as st

from scheduler_core.kube.http.http2_connection import MOST_STREAMS, Http2Connection, Outcome
from scheduler_core.kube.http.http2_frames import MAX_FRAME
from scheduler_core.kube.http.http2_headers import RequestHeaders
from scheduler_core.kube.http.response_parser import MAX_BODY, SUCCESS, ApiResponse
from tests.support.portions import portions

IDENTITY = [("Authorization", "Bearer " + "a1." * 300), ("Impersonate-User", "system:eve")]
BLOCK = RequestHeaders("api", ()).block("POST", "/api/v1/bindings", "application/json", 2)


def plain(outcomes: list[tuple[int, Outcome]]) -> list[tuple[int, Any]]:
    """Outcomes that can be compared."""
    return [
        (
            stream,
            (found.status, found.retry_after, found.body) if isinstance(found, ApiResponse) else type(found),
        )
        for stream, found in outcomes
    ]


class Server:
    """What another implementation of HTTP/2 makes of the client's bytes."""

    def __init__(self) -> None:
        self.connection = H2Connection(H2Configuration(client_side=False, header_encoding="latin-1"))
        self.connection.initiate_connection()
        self.heads: dict[int, list[tuple[str, str]]] = {}
        self.bodies: dict[int, bytes] = {}
        self.whole: set[int] = set()

    def heard(self, data: bytes) -> bytes:
        """What it says to that."""
        for event in self.connection.receive_data(data):
            match event:
                case RequestReceived(stream_id=stream, headers=headers):
                    self.heads[stream] = sorted((str(name), str(value)) for name, value in headers)
                    self.bodies[stream] = b""
                case DataReceived(stream_id=stream, data=body, flow_controlled_length=size):
                    self.bodies[stream] += body
                    self.connection.acknowledge_received_data(size, stream)
                case StreamEnded(stream_id=stream):
                    self.whole.add(stream)
        return self.connection.data_to_send()

    def begin(self, stream: int, status: int, retry_after: int | None = None) -> None:
        later = [] if retry_after is None else [("retry-after", str(retry_after))]
        self.connection.send_headers(stream, [(":status", str(status)), ("date", "today"), *later])

    def end(self, stream: int, body: bytes, padding: int | None = None) -> None:
        *parts, last = [body[start : start + 16000] for start in range(0, len(body) or 1, 16000)]
        for part in parts:
            self.connection.send_data(stream, part, pad_length=padding)
        self.connection.send_data(stream, last, end_stream=True, pad_length=padding)


def until_quiet(client: Http2Connection, server: Server, cuts: list[int]) -> list[tuple[int, Outcome]]:
    """Streams that have ended when nobody has more to say."""
    outcomes = []
    while data := server.heard(client.data_to_send()):
        for portion in portions(data, cuts):
            outcomes += client.receive_data(portion)
    return outcomes


def bodies(most: int) -> st.SearchStrategy[tuple[bytes, int]]:
    """What to repeat, and up to which size."""
    sizes = st.integers(0, 300) | st.integers(0, most) | st.just(most)
    return st.tuples(st.binary(min_size=1, max_size=9), sizes)


def repeated(part: bytes, size: int) -> bytes:
    return (part * size)[:size]


REQUESTS = st.tuples(
    st.sampled_from(["POST", "PATCH", "PUT", "DELETE"]),
    st.builds(
        lambda text, times: "/" + text * times, st.sampled_from(["a", "p?x=%20&"]), st.integers(0, 300)
    ),
    st.sampled_from(["application/json", "application/strategic-merge-patch+json"]),
    bodies(MAX_FRAME),
)
STATUSES = st.sampled_from([200, 201, 204, 400, 404, 409, 429, 500, 503])
REPLIES = st.tuples(STATUSES, st.none() | st.integers(0, 999), bodies(40000), st.none() | st.integers(0, 255))


@given(
    st.lists(st.tuples(REQUESTS, REPLIES), max_size=10),
    st.sampled_from([[], IDENTITY[:1], IDENTITY]),
    st.lists(st.integers(0, 1 << 18), max_size=20),
    st.integers(0, 99),
)
def test_another_implementation_hears_every_request_and_all_that_it_answers_is_heard(
    both: list[tuple[Any, Any]], identity: list[tuple[str, str]], cuts: list[int], seed: int
) -> None:
    client, server = Http2Connection(), Server()
    fields = RequestHeaders("api:6443", identity)
    common = [(":scheme", "https"), (":authority", "api:6443"), ("accept", "application/json")]
    common += [(name.lower(), value) for name, value in identity]
    heads: dict[int, list[tuple[str, str]]] = {}
    contents, replies = {}, {}
    for (method, path, kind, sent), (status, later, answer, padding) in both:
        body = repeated(*sent)
        if not client.capacity:
            assert until_quiet(client, server, cuts) == []
        assert client.capacity == MOST_STREAMS - len(heads)
        head = fields.block(method, path, kind, len(body))
        assert client.fits(head, body)
        stream = client.send(head, body)
        own = [(":method", method), (":path", path), ("content-type", kind)]
        own.append(("content-length", str(len(body))))
        heads[stream], contents[stream] = sorted(common + own), body
        replies[stream] = status, later, repeated(*answer), padding
    assert until_quiet(client, server, cuts) == []
    assert (server.heads, server.bodies, server.whole) == (heads, contents, set(heads))
    order = Random(seed)
    for stream in order.sample(list(replies), len(replies)):
        server.begin(stream, *replies[stream][:2])
    for stream in order.sample(list(replies), len(replies)):
        server.end(stream, *replies[stream][2:])
    outcomes = until_quiet(client, server, cuts)
    assert sorted(plain(outcomes)) == [
        (stream, (status, later, body) if status >= 300 else (200, None, b""))
        for stream, (status, later, body, _) in replies.items()
    ]
    assert all((outcome is SUCCESS) == (replies[stream][0] < 300) for stream, outcome in outcomes)
    assert client.capacity == MOST_STREAMS


def test_the_server_is_told_what_the_client_takes() -> None:
    server = Server()
    server.heard(Http2Connection().data_to_send())
    told = server.connection.remote_settings
    assert (told.header_table_size, told.enable_push, told.initial_window_size) == (0, 0, MAX_BODY)
    assert server.connection.outbound_flow_control_window == 1 << 30


def test_the_server_may_always_go_on() -> None:
    client, server = Http2Connection(), Server()
    for n in range(80):
        stream = client.send(BLOCK, b"{}")
        assert until_quiet(client, server, []) == []
        server.begin(stream, 409 if n % 2 else 200)
        server.end(stream, bytes(40000), padding=255)
        if n % 3 == 0:
            client.cancel(stream)
        assert len(until_quiet(client, server, [])) == (n % 3 > 0)
        assert server.connection.outbound_flow_control_window > (1 << 30) - (1 << 20)
