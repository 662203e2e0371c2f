"""What admission adds to the creation of a pod, on a real kube-apiserver; no rows where there is none.

Pods of kube-system are never sent to the webhook, those of the other namespace to both of its paths. They are
created in turn, as dry runs, so that whatever else the machine does falls on both alike.
"""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from benchmarks.bench_webhook import percentile, pod, quota
from benchmarks.row import Row
from tests.support.control_plane import ControlPlane
from tests.support.eventually import eventually
from tests.support.server import Server, request
from tests.support.webhook_process import WebhookProcess
from tests.tools.build import possible

CRD = Path(__file__).parents[1] / "charts" / "muster" / "crds"
TENANT = "tenant"
OUTSIDE = "kube-system"
PAIRS = 600
CLIENTS = 8
SECONDS = 8.0


class Creator:
    """One connection to the API server."""

    def __init__(self, server: Server) -> None:
        parts = urlsplit(server.url)
        context = ssl.create_default_context(cafile=server.ca_file)
        self._link = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, context=context, timeout=30
        )
        self._headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/json"}
        self._bodies = {name: json.dumps(self._pod(name)) for name in (TENANT, OUTSIDE)}

    @staticmethod
    def _pod(namespace: str) -> dict[str, object]:
        made = pod(10_000)
        return {**made, "metadata": {"generateName": "p-", "namespace": namespace}}

    def create(self, namespace: str) -> tuple[float, str]:
        """Seconds, and the scheduler's name in the answer."""
        began = time.perf_counter()
        path = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
        self._link.request("POST", path, self._bodies[namespace], self._headers)
        answer = self._link.getresponse()
        raw = answer.read()
        took = time.perf_counter() - began
        assert answer.status == 201, raw
        return took, json.loads(raw)["spec"]["schedulerName"]

    def close(self) -> None:
        self._link.close()


def prepare(server: Server) -> None:
    """CRDs, and a namespace with a quota."""
    for file in sorted(CRD.glob("*.yaml")):
        definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
        request(server, "POST", definitions, yaml.safe_load(file.read_text()))
    request(server, "POST", "/api/v1/namespaces", {"metadata": {"name": TENANT}})
    body = {**quota(TENANT, 1, 100), "metadata": {"name": "quota"}}

    def stored() -> bool:
        try:
            request(server, "POST", f"/apis/{body['apiVersion']}/namespaces/{TENANT}/elasticquotas", body)
        except Exception as error:
            raise AssertionError(str(error)) from error
        return True

    eventually(stored, timeout=30)


def added(server: Server) -> tuple[list[float], list[float]]:
    """Sorted seconds of creations outside and inside of the webhook's reach."""
    creator = Creator(server)
    for name in (OUTSIDE, TENANT) * 50:
        creator.create(name)
    times: dict[str, list[float]] = {OUTSIDE: [], TENANT: []}
    for _ in range(PAIRS):
        for name, mine in times.items():
            mine.append(creator.create(name)[0])
    creator.close()
    return sorted(times[OUTSIDE]), sorted(times[TENANT])


def rate(server: Server) -> float:
    """Creations per second by all clients together."""
    counts = [0] * CLIENTS
    until = time.perf_counter() + SECONDS

    def client(number: int) -> None:
        creator = Creator(server)
        while time.perf_counter() < until:
            creator.create(TENANT)
            counts[number] += 1
        creator.close()

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / SECONDS


def main() -> list[Row]:
    """Milliseconds that the webhook adds, and what eight clients get done."""
    if not (possible("kube-apiserver") and possible("etcd")):
        return []
    with ControlPlane() as server, tempfile.TemporaryDirectory() as folder:
        prepare(server)
        options = ("--cert-dir", folder, "--register", "--drain", "0")
        webhook = WebhookProcess(server, Path(folder) / "webhook.log", *options)
        try:
            creator = Creator(server)
            eventually(lambda: creator.create(TENANT)[1] == "muster-scheduler", timeout=30)
            creator.close()
            without, behind = added(server)
            pods = rate(server)
        finally:
            webhook.kill()
    return [
        Row("pod create without the webhook, p50", percentile(without, 0.5) * 1e3, "ms"),
        Row("added, p50", (percentile(behind, 0.5) - percentile(without, 0.5)) * 1e3, "ms"),
        Row("pod create without the webhook, p99", percentile(without, 0.99) * 1e3, "ms"),
        Row("added, p99", (percentile(behind, 0.99) - percentile(without, 0.99)) * 1e3, "ms", ceiling=100),
        Row(f"pod creates, {CLIENTS} clients", pods, "1/s", floor=50),
    ]
