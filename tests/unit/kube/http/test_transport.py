"""What goes over a wire, in the clear and through TLS, and how it ends."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.kube.http.transport import Transport
from tests.support.http2.peer import (
    CHUNK,
    NAME,
    PLAIN,
    SECONDS,
    SECURE,
    Peer,
    client_context,
    connected,
    ends,
    meanwhile,
)
from tests.support.portions import portions
from tests.support.searches import cases

# More than any socket buffers.
MUCH = bytes(range(256)) * (1 << 15)


@pytest.fixture(params=[PLAIN, *SECURE])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Transport, Peer]]:
    with connected(request.param) as made:
        yield made


@pytest.fixture(params=SECURE)
def secure_pair(request: pytest.FixtureRequest) -> Iterator[tuple[Transport, Peer]]:
    with connected(request.param) as made:
        yield made


def all_read(transport: Transport) -> bytes:
    """What is there, of a wire that does not wait."""
    data = b""
    with suppress(BlockingIOError):
        while part := transport.read():
            data += part
    return data


WAYS = st.sampled_from([PLAIN, *SECURE])
SIZES = st.lists(st.integers(1, 40_000), max_size=6)
CUTS = st.lists(st.integers(0, 1 << 20), max_size=12)


@settings(max_examples=cases(40))
@given(WAYS, SIZES)
def test_written_data_arrives_in_any_portions(way: str, sizes: list[int]) -> None:
    parts = [MUCH[:size] for size in sizes]
    with connected(way) as (transport, peer):
        transport.wait(0)
        heard = b""
        for part in parts:
            transport.write(part)
            heard += peer.hear()
        while transport.unsent:
            transport.flush()
            heard += peer.hear()
        assert heard == b"".join(parts)


@settings(max_examples=cases(40))
@given(WAYS, SIZES, CUTS)
def test_however_the_bytes_arrive_the_same_is_read(way: str, sizes: list[int], cuts: list[int]) -> None:
    parts = [MUCH[:size] for size in sizes]
    with connected(way) as (transport, peer):
        transport.wait(0)
        sent = peer.encoded(*parts)
        found = all_read(transport)
        for portion in portions(sent, cuts):
            # A piece at a time, as a socket that nobody reads takes little.
            for at in range(0, len(portion), CHUNK):
                peer.raw.sendall(portion[at : at + CHUNK])
                found += all_read(transport)
        assert found == b"".join(parts)


def test_one_read_takes_many_records(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    parts = [b"%d;" % number for number in range(300)]
    peer.say(*parts)
    assert transport.read() == b"".join(parts)


def test_half_a_record_is_nothing_yet(secure_pair: tuple[Transport, Peer]) -> None:
    transport, peer = secure_pair
    transport.wait(0)
    record = peer.encoded(b"whole")
    peer.raw.sendall(record[:-1])
    with pytest.raises(BlockingIOError):
        transport.read()
    peer.raw.sendall(record[-1:])
    assert transport.read() == b"whole"


def test_an_end_that_tls_tells_is_an_end(secure_pair: tuple[Transport, Peer]) -> None:
    transport, peer = secure_pair
    peer.say(b"last words")
    peer.say_farewell()
    assert transport.read() == b"last words"
    # Known without asking the socket, which is still open.
    assert transport.has_buffered_data()
    assert [transport.read(), transport.read()] == [b"", b""]


def test_an_end_without_farewell_is_an_end(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    peer.say(b"last words")
    peer.raw.close()
    assert transport.read() == b"last words"
    assert [transport.read(), transport.read()] == [b"", b""]


@pytest.mark.parametrize("way", SECURE)
def test_data_that_arrives_with_the_end_of_the_handshake_is_read(way: str) -> None:
    with connected(way, b"the first ", b"words") as (transport, _):
        heard = transport.read()
        while heard != b"the first words":
            heard += transport.read()


@pytest.mark.parametrize("way", SECURE)
@pytest.mark.parametrize("gone", [False, True], ids=["open", "closed"])
def test_data_before_a_broken_record_is_delivered_before_the_error(way: str, gone: bool) -> None:
    with connected(way) as (transport, peer):
        broken = bytearray(peer.encoded(b"good", b"bad"))
        broken[-1] ^= 1
        peer.raw.sendall(broken)
        if gone:
            peer.raw.close()
        assert transport.read() == b"good"
        assert transport.has_buffered_data()
        with pytest.raises(ssl.SSLError):
            transport.read()


@pytest.mark.parametrize("way", SECURE)
def test_a_breach_is_told_to_the_peer(way: str) -> None:
    with connected(way) as (transport, peer):
        peer.raw.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with pytest.raises(ssl.SSLError):
            transport.read()
        with pytest.raises(ssl.SSLError, match="alert"):
            peer.hear()


def test_an_end_within_a_record_leaves_what_came_before(secure_pair: tuple[Transport, Peer]) -> None:
    transport, peer = secure_pair
    peer.raw.sendall(peer.encoded(b"whole", b"half")[:-1])
    peer.raw.close()
    assert [transport.read(), transport.read()] == [b"whole", b""]


def test_a_read_waits_as_long_as_it_is_told_to(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    transport.wait(0)
    with pytest.raises(BlockingIOError):
        transport.read()
    transport.wait(0.02)
    with pytest.raises(TimeoutError):
        transport.read()
    transport.wait(None)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(transport.read)
        peer.say(b"at last")
        assert reading.result(SECONDS) == b"at last"


def test_data_that_the_socket_does_not_accept_at_once_is_flushed_later(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    transport.wait(0)
    before = transport.sent
    transport.write(MUCH)
    assert transport.unsent
    assert 0 < transport.sent - before < len(MUCH)
    # Behind it, not in between.
    transport.write(b"the end")
    heard = b""
    while transport.unsent:
        heard += peer.hear()
        transport.flush()
    heard += peer.hear()
    assert heard == MUCH + b"the end"
    assert transport.sent - before == peer.received >= len(heard)


def test_a_write_that_waits_sends_all_or_tells(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    transport.write(b"small")
    assert not transport.unsent
    assert peer.hear() == b"small"
    transport.wait(0.02)
    with pytest.raises(TimeoutError):
        transport.write(MUCH)
    assert transport.unsent
    peer.raw.close()
    with pytest.raises(OSError):
        transport.flush()


def test_a_reader_takes_lines_and_leaves_the_rest_to_the_next(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    peer.say(b"first\nsec", b"ond\nrest")
    with transport.makefile("rb") as reader:
        assert reader.readline() == b"first\n"
        assert reader.read(4) == b"seco"
        assert reader.readline() == b"nd\n"
    # The reader's own buffer held all of it.
    assert not transport.has_buffered_data()


def test_data_that_does_not_fit_is_kept_for_the_next_read(pair: tuple[Transport, Peer]) -> None:
    transport, peer = pair
    peer.say(b"0123456789")
    target = bytearray(4)
    assert transport.read_into(memoryview(target)) == 4
    assert (bytes(target), transport.has_buffered_data(), transport.is_readable()) == (b"0123", True, False)
    assert transport.read_into(memoryview(target)[:2]) == 2
    assert (bytes(target[:2]), transport.has_buffered_data()) == (b"45", True)
    assert transport.read() == b"6789"
    assert not transport.has_buffered_data()
    peer.say(b"more")
    assert (transport.has_buffered_data(), transport.is_readable()) == (False, True)
    assert transport.read_into(memoryview(target)) == 4
    assert (bytes(target), transport.has_buffered_data()) == (b"more", False)
    peer.raw.close()
    assert transport.read_into(memoryview(target)) == 0


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [((), ""), (("first",), ""), (("third", "second"), "second"), (("first", "third"), "third")],
)
@pytest.mark.parametrize("version", SECURE)
def test_the_protocol_is_what_both_sides_speak(version: str, offered: tuple[str, ...], agreed: str) -> None:
    with ends() as (transport, peer):
        assert transport.protocol == ""
        with meanwhile(peer, version):
            transport.start_tls(client_context(*offered), NAME)
        assert transport.protocol == agreed


@pytest.mark.parametrize(
    ("trusting", "name", "problem"),
    [
        pytest.param(False, NAME, "unable to get local issuer certificate", id="unknown authority"),
        pytest.param(True, "elsewhere", "Hostname mismatch", id="another name"),
    ],
)
@pytest.mark.parametrize("version", SECURE)
def test_a_certificate_that_is_not_trusted_is_told_to_both_sides(
    version: str, trusting: bool, name: str, problem: str
) -> None:
    with ends() as (transport, peer):
        with meanwhile(peer, version) as shaken, pytest.raises(ssl.SSLCertVerificationError, match=problem):
            transport.start_tls(client_context(trusting=trusting), name)
        assert "alert" in str(shaken.exception())


def test_a_handshake_that_the_server_leaves_is_a_broken_connection() -> None:
    with ends() as (transport, peer):
        peer.raw.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError, match="during the handshake"):
            transport.start_tls(client_context(), NAME)


def test_a_handshake_without_an_answer_ends_in_time() -> None:
    with ends() as (transport, _):
        transport.wait(0.02)
        with pytest.raises(TimeoutError):
            transport.start_tls(client_context(), NAME)


def test_an_answer_that_is_not_tls_is_told_as_such() -> None:
    with ends() as (transport, peer):
        peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(ssl.SSLError) as caught:
            transport.start_tls(client_context(), NAME)
        assert caught.value.reason in ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG")


def test_bytes_that_nobody_encrypted_are_refused(secure_pair: tuple[Transport, Peer]) -> None:
    transport, peer = secure_pair
    peer.raw.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(ssl.SSLError):
        transport.read()


def test_a_reader_is_woken_from_another_thread(pair: tuple[Transport, Peer]) -> None:
    transport, _ = pair
    transport.wait(None)
    reads = threading.Event()

    def read() -> bytes:
        reads.set()
        return transport.read()

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert reads.wait(SECONDS)
        transport.abort()
        assert reading.result(SECONDS) == b""
    # Whoever comes too late does no harm.
    transport.close()
    transport.abort()
