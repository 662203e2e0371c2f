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

from scheduler_core.kube.wire import Wire
from tests.support.portions import portions
from tests.support.wire_peer import (
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

# More than any socket buffers.
MUCH = bytes(range(256)) * (1 << 15)


@pytest.fixture(params=[PLAIN, *SECURE])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[Wire, Peer]]:
    with connected(request.param) as made:
        yield made


@pytest.fixture(params=SECURE)
def secure_pair(request: pytest.FixtureRequest) -> Iterator[tuple[Wire, Peer]]:
    with connected(request.param) as made:
        yield made


def all_read(wire: Wire) -> bytes:
    """What is there, of a wire that does not wait."""
    data = b""
    with suppress(BlockingIOError):
        while part := wire.read():
            data += part
    return data


WAYS = st.sampled_from([PLAIN, *SECURE])
SIZES = st.lists(st.integers(1, 40_000), max_size=6)
CUTS = st.lists(st.integers(0, 1 << 20), max_size=12)


@settings(max_examples=40)
@given(WAYS, SIZES)
def test_whatever_the_portions_what_is_written_arrives(way: str, sizes: list[int]) -> None:
    parts = [MUCH[:size] for size in sizes]
    with connected(way) as (wire, peer):
        wire.wait(0)
        heard = b""
        for part in parts:
            wire.write(part)
            heard += peer.hear()
        while wire.unsent:
            wire.flush()
            heard += peer.hear()
        assert heard == b"".join(parts)


@settings(max_examples=40)
@given(WAYS, SIZES, CUTS)
def test_however_the_bytes_arrive_the_same_is_read(way: str, sizes: list[int], cuts: list[int]) -> None:
    parts = [MUCH[:size] for size in sizes]
    with connected(way) as (wire, peer):
        wire.wait(0)
        sent = peer.encoded(*parts)
        found = all_read(wire)
        for portion in portions(sent, cuts):
            # A piece at a time, as a socket that nobody reads takes little.
            for at in range(0, len(portion), CHUNK):
                peer.raw.sendall(portion[at : at + CHUNK])
                found += all_read(wire)
        assert found == b"".join(parts)


def test_one_read_takes_many_records(pair: tuple[Wire, Peer]) -> None:
    wire, peer = pair
    parts = [b"%d;" % number for number in range(300)]
    peer.say(*parts)
    assert wire.read() == b"".join(parts)


def test_half_a_record_is_nothing_yet(secure_pair: tuple[Wire, Peer]) -> None:
    wire, peer = secure_pair
    wire.wait(0)
    record = peer.encoded(b"whole")
    peer.raw.sendall(record[:-1])
    with pytest.raises(BlockingIOError):
        wire.read()
    peer.raw.sendall(record[-1:])
    assert wire.read() == b"whole"


def test_an_end_that_tls_tells_is_an_end(secure_pair: tuple[Wire, Peer]) -> None:
    wire, peer = secure_pair
    peer.say(b"last words")
    peer.say_farewell()
    assert wire.read() == b"last words"
    # Known without asking the socket, which is still open.
    assert wire.holds_more()
    assert [wire.read(), wire.read()] == [b"", b""]


def test_an_end_without_farewell_is_an_end(pair: tuple[Wire, Peer]) -> None:
    wire, peer = pair
    peer.say(b"last words")
    peer.raw.close()
    assert wire.read() == b"last words"
    assert [wire.read(), wire.read()] == [b"", b""]


@pytest.mark.parametrize("way", SECURE)
def test_what_comes_with_the_end_of_the_handshake_is_read(way: str) -> None:
    with connected(way, b"the first ", b"words") as (wire, _):
        heard = wire.read()
        while heard != b"the first words":
            heard += wire.read()


@pytest.mark.parametrize("way", SECURE)
@pytest.mark.parametrize("gone", [False, True], ids=["open", "closed"])
def test_what_came_before_a_broken_record_is_told_first_and_the_breach_next(way: str, gone: bool) -> None:
    with connected(way) as (wire, peer):
        broken = bytearray(peer.encoded(b"good", b"bad"))
        broken[-1] ^= 1
        peer.raw.sendall(broken)
        if gone:
            peer.raw.close()
        assert wire.read() == b"good"
        assert wire.holds_more()
        with pytest.raises(ssl.SSLError):
            wire.read()


@pytest.mark.parametrize("way", SECURE)
def test_a_breach_is_told_to_the_peer(way: str) -> None:
    with connected(way) as (wire, peer):
        peer.raw.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        with pytest.raises(ssl.SSLError):
            wire.read()
        with pytest.raises(ssl.SSLError, match="alert"):
            peer.hear()


def test_an_end_within_a_record_leaves_what_came_before(secure_pair: tuple[Wire, Peer]) -> None:
    wire, peer = secure_pair
    peer.raw.sendall(peer.encoded(b"whole", b"half")[:-1])
    peer.raw.close()
    assert [wire.read(), wire.read()] == [b"whole", b""]


def test_a_read_waits_as_long_as_it_is_told_to(pair: tuple[Wire, Peer]) -> None:
    wire, peer = pair
    wire.wait(0)
    with pytest.raises(BlockingIOError):
        wire.read()
    wire.wait(0.02)
    with pytest.raises(TimeoutError):
        wire.read()
    wire.wait(None)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(wire.read)
        peer.say(b"at last")
        assert reading.result(SECONDS) == b"at last"


def test_what_the_socket_does_not_take_at_once_is_flushed_later(pair: tuple[Wire, Peer]) -> None:
    wire, peer = pair
    wire.wait(0)
    before = wire.sent
    wire.write(MUCH)
    assert wire.unsent
    assert 0 < wire.sent - before < len(MUCH)
    # Behind it, not in between.
    wire.write(b"the end")
    heard = b""
    while wire.unsent:
        heard += peer.hear()
        wire.flush()
    heard += peer.hear()
    assert heard == MUCH + b"the end"
    assert wire.sent - before == peer.received >= len(heard)


def test_a_write_that_waits_sends_all_or_tells(pair: tuple[Wire, Peer]) -> None:
    wire, peer = pair
    wire.write(b"small")
    assert not wire.unsent
    assert peer.hear() == b"small"
    wire.wait(0.02)
    with pytest.raises(TimeoutError):
        wire.write(MUCH)
    assert wire.unsent
    peer.raw.close()
    with pytest.raises(OSError):
        wire.flush()


def test_a_reader_takes_lines_and_leaves_the_rest_to_the_next(pair: tuple[Wire, Peer]) -> None:
    wire, peer = pair
    peer.say(b"first\nsec", b"ond\nrest")
    with wire.makefile("rb") as reader:
        assert reader.readline() == b"first\n"
        assert reader.read(4) == b"seco"
        assert reader.readline() == b"nd\n"
    # The reader's own buffer held all of it.
    assert not wire.holds_more()


def test_what_does_not_fit_is_kept_for_the_next_read(pair: tuple[Wire, Peer]) -> None:
    wire, peer = pair
    peer.say(b"0123456789")
    target = bytearray(4)
    assert wire.read_into(memoryview(target)) == 4
    assert (bytes(target), wire.holds_more(), wire.polled()) == (b"0123", True, False)
    assert wire.read_into(memoryview(target)[:2]) == 2
    assert (bytes(target[:2]), wire.holds_more()) == (b"45", True)
    assert wire.read() == b"6789"
    assert not wire.holds_more()
    peer.say(b"more")
    assert (wire.holds_more(), wire.polled()) == (False, True)
    assert wire.read_into(memoryview(target)) == 4
    assert (bytes(target), wire.holds_more()) == (b"more", False)
    peer.raw.close()
    assert wire.read_into(memoryview(target)) == 0


@pytest.mark.parametrize(
    ("offered", "agreed"),
    [((), ""), (("first",), ""), (("third", "second"), "second"), (("first", "third"), "third")],
)
@pytest.mark.parametrize("version", SECURE)
def test_the_protocol_is_what_both_sides_speak(version: str, offered: tuple[str, ...], agreed: str) -> None:
    with ends() as (wire, peer):
        assert wire.protocol == ""
        with meanwhile(peer, version):
            wire.secure(client_context(*offered), NAME)
        assert wire.protocol == agreed


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
    with ends() as (wire, peer):
        with meanwhile(peer, version) as shaken, pytest.raises(ssl.SSLCertVerificationError, match=problem):
            wire.secure(client_context(trusting=trusting), name)
        assert "alert" in str(shaken.exception())


def test_a_handshake_that_the_server_leaves_is_a_broken_connection() -> None:
    with ends() as (wire, peer):
        peer.raw.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionResetError, match="during the handshake"):
            wire.secure(client_context(), NAME)


def test_a_handshake_without_an_answer_ends_in_time() -> None:
    with ends() as (wire, _):
        wire.wait(0.02)
        with pytest.raises(TimeoutError):
            wire.secure(client_context(), NAME)


def test_an_answer_that_is_not_tls_is_told_as_such() -> None:
    with ends() as (wire, peer):
        peer.say(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        with pytest.raises(ssl.SSLError) as caught:
            wire.secure(client_context(), NAME)
        assert caught.value.reason in ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG")


def test_bytes_that_nobody_encrypted_are_refused(secure_pair: tuple[Wire, Peer]) -> None:
    wire, peer = secure_pair
    peer.raw.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    with pytest.raises(ssl.SSLError):
        wire.read()


def test_a_reader_is_woken_from_another_thread(pair: tuple[Wire, Peer]) -> None:
    wire, _ = pair
    wire.wait(None)
    reads = threading.Event()

    def read() -> bytes:
        reads.set()
        return wire.read()

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert reads.wait(SECONDS)
        wire.abort()
        assert reading.result(SECONDS) == b""
    # Whoever comes too late does no harm.
    wire.close()
    wire.abort()
