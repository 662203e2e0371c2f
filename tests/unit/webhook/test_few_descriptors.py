"""A process that may open few files goes on answering, whatever strangers open."""

from __future__ import annotations

import json
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.support.eventually import eventually
from tests.support.webhooks.alone import WebhookAlone
from tests.support.webhooks.clients import HEAD, Asker, half_body, half_handshake, half_header, shaken, silent
from tests.unit.webhook.http.reviews import envelope, quota

pytestmark = pytest.mark.long

REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()
DESCRIPTORS = 64
CLIENTS = 200


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[WebhookAlone, Path]]:
    log = tmp_path / "log"
    with log.open("w") as stream:
        made = WebhookAlone(DESCRIPTORS, stream)
    yield made, log
    made.stop()


@pytest.mark.parametrize("kind", [silent, half_handshake])
def test_reviews_are_answered_beside_more_clients_than_descriptors(
    small: tuple[WebhookAlone, Path], kind: Callable[[int, ssl.SSLContext], socket.socket]
) -> None:
    running, log = small
    asker = Asker(running.connect, REVIEW, pause=0.01)
    with ExitStack() as opened:
        asker.start()
        for _ in range(CLIENTS):
            with suppress(OSError):
                opened.enter_context(kind(running.port, running.context))
        before = asker.answered
        eventually(lambda: asker.answered >= before + 50, timeout=60)
        asker.stop()
    assert asker.failures == []
    assert "Traceback" not in log.read_text()


def test_descriptors_that_workers_hold_cost_a_pause_and_no_processor(
    small: tuple[WebhookAlone, Path],
) -> None:
    """Nothing rests that could make room: whoever comes waits until a worker is done with a slow client."""
    running, log = small
    with ExitStack() as opened:
        for _ in range(DESCRIPTORS * 2):
            with suppress(OSError):
                sock = socket.create_connection(("127.0.0.1", running.port), timeout=30)
                opened.enter_context(sock)
                sock.sendall(b"\x16\x03\x01\x02\x00\x01\x00")
        used, began = running.processor_seconds(), time.monotonic()
        eventually(lambda: time.monotonic() - began > 3, timeout=30)
        assert running.processor_seconds() - used < 1.5
    asker = Asker(running.connect, REVIEW)
    asker.start()
    eventually(lambda: asker.answered >= 20, timeout=60)
    asker.stop()
    assert asker.failures == []
    assert "Traceback" not in log.read_text()
    assert log.read_text().count("no descriptor") <= 60


LEAVERS = {
    "before a word": silent,
    "in the handshake": half_handshake,
    "after it": shaken,
    "in the header": half_header,
    "in the body": half_body,
}


@pytest.mark.parametrize("kind", LEAVERS.values(), ids=LEAVERS)
@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_client_that_leaves_is_a_line_at_most(
    small: tuple[WebhookAlone, Path], kind: Callable[[int, ssl.SSLContext], socket.socket], reset: bool
) -> None:
    running, log = small
    for _ in range(10):
        sock = kind(running.port, running.context)
        if reset:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        sock.close()
    leave_while_answered(running)
    asker = Asker(running.connect, REVIEW)
    asker.start()
    eventually(lambda: asker.answered >= 5, timeout=60)
    asker.stop()
    lines = log.read_text().splitlines()
    assert "Traceback" not in log.read_text()
    assert not [line for line in lines if re.search("WARNING|ERROR", line)], lines
    assert len([line for line in lines if " client" in line]) <= 11, lines


def leave_while_answered(running: WebhookAlone) -> None:
    """Ask, and be gone when the answer comes."""
    sock = shaken(running.port, running.context)
    sock.sendall(HEAD + f"Content-Length: {len(REVIEW)}\r\n\r\n".encode() + REVIEW)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    sock.close()
