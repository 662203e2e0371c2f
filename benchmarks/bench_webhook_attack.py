"""What two connections with the dearest requests that are known do to the pod creations of others.

On a real kube-apiserver, as dry runs; left out where there is none. Rounds with and without the attack take
turns, so that whatever else the machine does falls on both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench_process import require_apiserver
from benchmarks.bench_webhook import percentile
from benchmarks.bench_webhook_creates import MUSTER, SIZES, Creator, prepare
from benchmarks.row import Row
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.server import Server
from tests.support.webhook_attackers import attacked
from tests.support.webhook_process import WebhookProcess

ROUNDS = 4
CREATIONS = 300
ATTACKERS = 2


def creations(server: Server, count: int) -> list[float]:
    """Seconds of each of one client's creations, all of which were patched by the webhook."""
    creator = Creator(server, SIZES["a pod"])
    taken = []
    try:
        for _ in range(count):
            seconds, answer = creator.create(MUSTER)
            assert b"muster-scheduler" in answer, "a pod passed by the webhook"
            taken.append(seconds)
    finally:
        creator.close()
    return taken


def rows_of(quiet: list[float], hostile: list[float]) -> Iterator[Row]:
    """Figures of sorted seconds."""
    for share, title in ((0.5, "p50"), (0.99, "p99")):
        before, after = percentile(quiet, share) * 1e3, percentile(hostile, share) * 1e3
        yield Row(f"a pod created, {title}", before, "ms")
        yield Row(f"a pod created beside {ATTACKERS} attackers, {title}", after, "ms")
        ceiling = 2.0 if title == "p99" else None
        yield Row(f"beside {ATTACKERS} attackers, {title}", after / before, "times", ceiling=ceiling)


def main(small: bool = False) -> list[Row]:
    """Milliseconds of a creation with and without the attack, and how many times as much that is."""
    require_apiserver()
    rounds, count = (1, 20) if small else (ROUNDS, CREATIONS)
    quiet: list[float] = []
    hostile: list[float] = []
    with ControlPlane() as server, tempfile.TemporaryDirectory() as folder:
        prepare(server)
        log = Path(folder) / "webhook.log"
        webhook = WebhookProcess(server, log, "--cert-dir", folder, "--register", "--drain", "0")
        try:
            creator = Creator(server, 0)
            eventually(lambda: b"muster-scheduler" in creator.create(MUSTER)[1], timeout=30)
            creator.close()
            creations(server, count)
            for _ in range(rounds):
                quiet += creations(server, count)
                with attacked(webhook.port, ATTACKERS):
                    hostile += creations(server, count)
        finally:
            webhook.kill()
    return list(rows_of(sorted(quiet), sorted(hostile)))
