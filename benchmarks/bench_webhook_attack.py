"""Latency of pod creations while two connections send the most expensive known requests to the webhook.

Pods are created as dry runs on a real kube-apiserver; without one, the benchmark is skipped. Rounds with and
without the attack alternate, so that other work of the machine affects both.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench_process import require_apiserver
from benchmarks.bench_webhook import percentile
from benchmarks.bench_webhook_creates import MUSTER, SIZES, Creator, prepare
from benchmarks.support.row import Row
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import Server
from tests.support.eventually import eventually
from tests.support.webhooks.attackers import attacked
from tests.support.webhooks.process import WebhookProcess

ROUNDS = 4
CREATIONS = 300
ATTACKERS = 2


def creations(server: Server, count: int) -> list[float]:
    """Seconds of each creation of one client; the webhook must patch all pods."""
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
        yield Row(f"a pod created beside attackers, {title}", after, "ms")
        ceiling = 2.0 if title == "p99" else None
        yield Row(f"beside attackers, {title}", after / before, "times", ceiling=ceiling)


def main(small: bool = False) -> list[Row]:
    """Milliseconds of a creation with and without the attack, and their ratio."""
    require_apiserver()
    rounds, count, attackers = (1, 20, 1) if small else (ROUNDS, CREATIONS, ATTACKERS)
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
                with attacked(webhook.port, attackers):
                    hostile += creations(server, count)
        finally:
            webhook.kill()
    return list(rows_of(sorted(quiet), sorted(hostile)))
