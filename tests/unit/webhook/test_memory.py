"""A webhook without memory ends, wherever it notices: one that listens on answers nobody."""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from scheduler_core.logs.out_of_memory import OUT_OF_MEMORY
from tests.support.webhooks.alone import WebhookAlone
from tests.unit.webhook.http.reviews import envelope, quota

REVIEW = json.dumps(envelope(quota(min={"cpu": 1}, max={"cpu": 2}))).encode()
LARGE = json.dumps(envelope(quota(meta={"annotations": {"a": "x" * (6 << 20)}}))).encode()
JSON = {"Content-Type": "application/json"}
ALLOWANCE = 4 << 20
SECONDS = 60
# Each is a line of the log, of 300 bytes or more: a pipe holds 64 KiB.
MANY = 400
# Libraries in C that do not check what they are given crash before Python notices: rare, and an end as well.
CRASHES = (-signal.SIGSEGV, -signal.SIGABRT)

pytestmark = pytest.mark.long
PLACES = {
    "a review": ("webhook.http.review_endpoint", "review"),
    "the log line about it": ("webhook.http.review_endpoint", "log_review"),
    "the body": ("webhook.http.review_endpoint", "read_body"),
    "the head of a request": ("scheduler_core.serving.stream.ClientReader", "readline"),
    "the answer": ("scheduler_core.serving.stream.ClientWriter", "write"),
    "a handshake": ("scheduler_core.serving.connections", "client_name"),
    "a newcomer": ("scheduler_core.serving.server.BoundedServer", "process_conn"),
    "what rests": ("scheduler_core.serving.idle_connections.IdleConnections", "expire"),
    "slow clients": ("scheduler_core.serving.server.BoundedServer", "cut_off"),
    "an answer that nobody foresaw": ("webhook.http.review_endpoint.ReviewEndpoint", "fail"),
}
CHANGE = """
import importlib

def no_memory(*args, **kwargs):
    raise MemoryError

path, name = {place!r}
module, _, owner = path.rpartition(".") if path.rpartition(".")[2][0].isupper() else (path, "", "")
target = importlib.import_module(module)
setattr(getattr(target, owner) if owner else target, name, no_memory)
if name == "fail":
    target.seconds_of = None
"""


def ask(running: WebhookAlone, body: bytes) -> None:
    link = running.connect()
    with suppress(OSError, Exception):
        link.request("POST", "/validate", body, JSON)
        link.getresponse().read()
    link.close()


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_it_ends_wherever_memory_does(place: tuple[str, str], tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("w") as stream:
        running = WebhookAlone(stderr=stream, changes=CHANGE.format(place=place))
    try:
        ask(running, REVIEW)
        assert running.process.wait(SECONDS) == OUT_OF_MEMORY
    finally:
        running.stop()
    assert "out of memory: the process ends" in log.read_text()


def test_it_ends_where_the_system_gives_no_more() -> None:
    running = WebhookAlone()
    try:
        ask(running, LARGE)
        (size,) = (
            int(line.split()[1]) << 10
            for line in Path(f"/proc/{running.process.pid}/status").read_text().splitlines()
            if line.startswith("VmData:")
        )
        resource.prlimit(running.process.pid, resource.RLIMIT_DATA, (size + ALLOWANCE, size + ALLOWANCE))
        askers = [threading.Thread(target=ask, args=(running, LARGE)) for _ in range(16)]
        for asker in askers:
            asker.start()
        assert running.process.wait(SECONDS) in (OUT_OF_MEMORY, *CRASHES)
        for asker in askers:
            asker.join(SECONDS)
    finally:
        running.stop()


@pytest.mark.parametrize("reader", ["reads nothing", "is gone"])
def test_reviews_are_answered_whoever_reads_the_log(reader: str) -> None:
    """A line each at this verbosity, far more than a pipe holds."""
    running = WebhookAlone(stderr=subprocess.PIPE)
    assert running.process.stderr is not None
    try:
        if reader == "is gone":
            running.process.stderr.close()
        link = running.connect()
        for _ in range(MANY):
            link.request("POST", "/validate", REVIEW, JSON)
            answer = link.getresponse()
            answer.read()
            assert answer.status == 200
        link.close()
    finally:
        running.stop()
        running.process.stderr.close()
