"""Latency that admission adds to pod creations on a real kube-apiserver; skipped without one.

There are three namespaces: without a webhook, with both paths of Muster's webhook, and with an empty webhook
in Go under the same rules, which shows the share of the API server. Pods are created in turn as dry runs, so
that other work of the machine affects all three.
"""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import trustme
import yaml

from benchmarks.bench_process import require_apiserver
from benchmarks.bench_webhook import percentile, pod, quota
from benchmarks.support.row import NotHere, Row
from benchmarks.support.threads import run_all
from scheduler_core.model.admission_webhooks import (
    WebhookEndpoint,
    mutating_configuration,
    validating_configuration,
)
from tests.support.clusters.control_plane import ControlPlane
from tests.support.clusters.server import Server, request
from tests.support.eventually import eventually
from tests.support.webhooks.process import WebhookProcess

CRD = Path(__file__).parents[1] / "charts" / "muster" / "crds"
GO = Path(__file__).parent / "empty_webhook"
MUSTER = "tenant"
EMPTY = "empty"
OUTSIDE = "kube-system"
ROUNDS = 600
CLIENTS = 8
SECONDS = 6.0
SIZES = {"a pod": 500, "a pod of 10 KB": 10_000}


def _answers(creator: Creator, name: str) -> bool:
    return b"muster-scheduler" in creator.create(name)[1]


class Creator:
    """One connection to the API server with minimal cost in the client."""

    def __init__(self, server: Server, size: int) -> None:
        parts = urlsplit(server.url)
        context = ssl.create_default_context(cafile=server.ca_file)
        plain = socket.create_connection((parts.hostname or "", parts.port or 443), timeout=30)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._link = context.wrap_socket(plain, server_hostname=parts.hostname)
        self._calls = {name: _call(server, name, size) for name in (OUTSIDE, EMPTY, MUSTER)}

    def create(self, namespace: str) -> tuple[float, bytes]:
        """Seconds and response of one creation."""
        began = time.perf_counter()
        self._link.sendall(self._calls[namespace])
        raw = self._link.recv(1 << 16)
        while not _whole(raw):
            raw += self._link.recv(1 << 16)
        took = time.perf_counter() - began
        assert raw.startswith(b"HTTP/1.1 201"), raw
        return took, raw

    def close(self) -> None:
        self._link.close()


def _whole(answer: bytes) -> bool:
    """True for a complete response: short ones have a Content-Length, long ones are chunked."""
    head, end, body = answer.partition(b"\r\n\r\n")
    stated = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
    if stated:
        return len(body) >= int(stated[0].split(b":")[1])
    return bool(end) and body.endswith(b"\r\n0\r\n\r\n")


def _call(server: Server, namespace: str, size: int) -> bytes:
    made = {**pod(size), "metadata": {"generateName": "p-", "namespace": namespace}}
    body = json.dumps(made).encode()
    head = (
        f"POST /api/v1/namespaces/{namespace}/pods?dryRun=All HTTP/1.1\r\n"
        f"Host: {urlsplit(server.url).netloc}\r\n"
        f"Authorization: Bearer {server.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def prepare(server: Server) -> None:
    """Create the CRDs and two namespaces, one with a quota."""
    for file in sorted(CRD.glob("*.yaml")):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        request(server, "POST", definitions, yaml.safe_load(file.read_text()))
    for name in (MUSTER, EMPTY):
        request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    body = {**quota(MUSTER, 1, 100), "metadata": {"name": "quota"}}

    def stored() -> bool:
        try:
            request(server, "POST", f"/apis/{body['apiVersion']}/namespaces/{MUSTER}/elasticquotas", body)
        except Exception as error:
            raise AssertionError(str(error)) from error
        return True

    eventually(stored, timeout=30)


@contextmanager
def empty_webhook(server: Server, folder: Path) -> Iterator[None]:
    """The empty webhook, registered for its namespace with the rules of Muster's webhook."""
    authority = trustme.CA()
    leaf = authority.issue_cert("127.0.0.1")
    leaf.cert_chain_pems[0].write_to_path(folder / "empty.crt")
    leaf.private_key_pem.write_to_path(folder / "empty.key")
    binary = folder / "empty-webhook"
    subprocess.run(["go", "build", "-o", str(binary), "."], cwd=GO, check=True, timeout=300)
    command = [str(binary), str(folder / "empty.crt"), str(folder / "empty.key")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = f"https://127.0.0.1:{process.stdout.readline().strip()}"
            _register_empty(server, WebhookEndpoint(authority.cert_pem.bytes(), url=url))
            yield
        finally:
            process.kill()


def _register_empty(server: Server, endpoint: WebhookEndpoint) -> None:
    only = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [EMPTY]}]
    for kind, made in (
        ("mutatingwebhookconfigurations", mutating_configuration(endpoint)),
        ("validatingwebhookconfigurations", validating_configuration(endpoint)),
    ):
        made["metadata"] = {"name": "empty"}
        made["webhooks"] = [
            {**entry, "failurePolicy": "Fail", "namespaceSelector": {"matchExpressions": only}}
            for entry in made["webhooks"]
            if entry["name"].startswith("pods.")
        ]
        request(server, "POST", f"/apis/admissionregistration.k8s.io/v1/{kind}", made)


def in_turn(server: Server, size: int, rounds: int) -> dict[str, list[float]]:
    """Sorted seconds of creations by namespace."""
    creator = Creator(server, size)
    times: dict[str, list[float]] = {OUTSIDE: [], EMPTY: [], MUSTER: []}
    for _ in range(rounds // 12):
        for name in times:
            creator.create(name)
    for _ in range(rounds):
        for name, mine in times.items():
            mine.append(creator.create(name)[0])
    creator.close()
    return {name: sorted(mine) for name, mine in times.items()}


def rate(server: Server, namespace: str, seconds: float) -> float:
    """Creations of small pods per second by all clients together."""
    counts = [0] * CLIENTS
    until = time.perf_counter() + seconds

    def client(number: int) -> None:
        creator = Creator(server, SIZES["a pod"])
        while time.perf_counter() < until:
            creator.create(namespace)
            counts[number] += 1
        creator.close()

    run_all([threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)])
    return sum(counts) / seconds


def rows_of(name: str, times: dict[str, list[float]]) -> Iterator[Row]:
    """Rows for creations without a webhook, and for the time that each webhook adds."""
    for share, title, ceiling in ((0.5, "p50", 20.0), (0.99, "p99", 100.0)):
        without, empty, muster = (percentile(times[where], share) * 1e3 for where in (OUTSIDE, EMPTY, MUSTER))
        yield Row(f"{name}, created without a webhook, {title}", without, "ms")
        yield Row(f"{name}, added by an empty webhook in Go, {title}", empty - without, "ms")
        yield Row(f"{name}, added by Muster, {title}", muster - without, "ms", ceiling=ceiling)


def main(small: bool = False) -> list[Row]:
    """Milliseconds that the webhook adds, and the throughput of eight clients."""
    require_apiserver()
    if shutil.which("go") is None:
        raise NotHere("it needs Go, which builds the webhook that does nothing")
    rounds, seconds = (6, 0.2) if small else (ROUNDS, SECONDS)
    rows: list[Row] = []
    with ControlPlane() as server, tempfile.TemporaryDirectory() as folder:
        prepare(server)
        options = ("--cert-dir", folder, "--register", "--drain", "0", "--exempt-namespace", EMPTY)
        webhook = WebhookProcess(server, Path(folder) / "webhook.log", *options)
        try:
            with empty_webhook(server, Path(folder)):
                creator = Creator(server, 0)
                for name in (MUSTER, EMPTY):
                    eventually(partial(_answers, creator, name), timeout=30)
                creator.close()
                for title, size in SIZES.items():
                    rows += rows_of(title, in_turn(server, size, rounds))
                for title, name in (
                    ("without a webhook", OUTSIDE),
                    ("an empty webhook in Go", EMPTY),
                    ("Muster", MUSTER),
                ):
                    pods = rate(server, name, seconds)
                    rows.append(
                        Row(f"{CLIENTS} clients, {title}", pods, "1/s", floor=50 if name == MUSTER else None)
                    )
        finally:
            webhook.kill()
    return rows
