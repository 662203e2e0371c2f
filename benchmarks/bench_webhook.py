"""What one admission review costs: in process, and over TLS on loopback."""

from __future__ import annotations

import http.client
import json
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.row import Row
from scheduler_core.kube.tracker import Event
from webhook.app import create_app
from webhook.cache import WATCHED, Cache
from webhook.cert_store import FileStore, ensure
from webhook.metrics import Metrics
from webhook.review import Request, review
from webhook.server import WebhookServer
from webhook.service import Service
from webhook.verdict import Verdict

SECONDS = 2.0
NAMESPACES = 1000
QUOTA = "scheduling.x-k8s.io/v1alpha1"


def quota(namespace: str, low: int, high: int) -> dict[str, Any]:
    return {
        "apiVersion": QUOTA,
        "kind": "ElasticQuota",
        "metadata": {"name": "quota", "namespace": namespace, "resourceVersion": "1"},
        "spec": {
            "min": {"cpu": str(low), "memory": f"{low}Gi"},
            "max": {"cpu": str(high), "memory": f"{high}Gi"},
        },
    }


def pod(size: int) -> dict[str, Any]:
    """A pod whose environment fills the review to about `size` bytes."""
    variables = [{"name": f"VARIABLE_{i}", "value": "x" * 80} for i in range(size // 118)]
    container = {"name": "main", "image": "example.com/app:1", "env": variables}
    spec = {"containers": [container], "schedulerName": "default-scheduler"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns-1"}, "spec": spec}


def envelope(obj: dict[str, Any], old: dict[str, Any] | None = None) -> bytes:
    group, _, version = obj["apiVersion"].rpartition("/")
    request = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "operation": "UPDATE" if old else "CREATE",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "namespace": obj["metadata"]["namespace"],
        "object": obj,
        "oldObject": old,
        "dryRun": True,
    }
    review_ = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(review_).encode()


def filled_cache() -> Cache:
    """1,000 namespaces with a quota each, on 1,000 nodes."""
    cache = Cache()
    objects: dict[str, list[dict[str, Any]]] = {
        "ElasticQuota": [quota(f"ns-{i}", 4, 8) for i in range(NAMESPACES)],
        "Namespace": [{"metadata": {"name": f"ns-{i}"}} for i in range(NAMESPACES)],
        "Node": [
            {"metadata": {"name": f"n-{i}"}, "status": {"allocatable": {"cpu": "64", "memory": "256Gi"}}}
            for i in range(1000)
        ],
    }
    for resource, parse in WATCHED:
        for raw in objects.get(resource.kind, ()):
            meta = raw["metadata"]
            key = f"{meta['namespace']}/{meta['name']}" if "namespace" in meta else meta["name"]
            cache.sink(Event("ADDED", resource, key, "", parse(raw)))
        cache.sink(Event("SYNCED", resource))
    return cache


def percentile(sorted_times: list[float], share: float) -> float:
    return sorted_times[min(len(sorted_times) - 1, int(len(sorted_times) * share))]


def in_process(body: bytes, decide: Callable[[Request], Verdict]) -> list[float]:
    """Sorted times of single reviews in seconds."""
    times = []
    until = time.perf_counter() + SECONDS
    while (began := time.perf_counter()) < until:
        answer = review(body, decide)
        times.append(time.perf_counter() - began)
        assert answer.status == 200
    return sorted(times)


@contextmanager
def served(service: Service) -> Iterator[Callable[[], http.client.HTTPSConnection]]:
    """A server on loopback, and how to connect to it."""
    with tempfile.TemporaryDirectory() as folder:
        certificates = ensure(FileStore(Path(folder)), ("127.0.0.1",), time.time())
        app = create_app(service, Metrics())
        server = WebhookServer(app, ("127.0.0.1", 0), certificates.serving)
        server.start()
        context = ssl.create_default_context(cadata=certificates.authority.certificate.decode())
        try:
            yield lambda: http.client.HTTPSConnection("127.0.0.1", server.port, context=context, timeout=10)
        finally:
            server.stop()


def over_tls(
    connect: Callable[[], http.client.HTTPSConnection], body: bytes, path: str, clients: int, pause: float
) -> list[float]:
    """Sorted times of requests over keep-alive connections, one per client, `pause` seconds in between."""
    times: list[list[float]] = [[] for _ in range(clients)]
    until = time.perf_counter() + SECONDS

    def client(mine: list[float]) -> None:
        link = connect()
        while (began := time.perf_counter()) < until:
            link.request("POST", path, body, {"Content-Type": "application/json"})
            answer = link.getresponse()
            answer.read()
            assert answer.status == 200
            mine.append(time.perf_counter() - began)
            time.sleep(pause)
        link.close()

    threads = [threading.Thread(target=client, args=(mine,)) for mine in times]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(t for mine in times for t in mine)


def main() -> list[Row]:
    """Reviews in process (microseconds), then over TLS with the clients in the same process."""
    service = Service(filled_cache())
    small = envelope(pod(10_000))
    changed = envelope(quota("ns-1", 5, 9), quota("ns-1", 4, 8))
    patched = in_process(small, service.mutate)
    created = in_process(envelope(quota("new", 4, 8)), service.validate)
    updated = in_process(changed, service.validate)
    scale = f"{NAMESPACES:,} quotas"
    rows = [
        Row("pod of 10 KB, patched, p50", percentile(patched, 0.5) * 1e6, "us"),
        Row("pod of 10 KB, patched, p99", percentile(patched, 0.99) * 1e6, "us", ceiling=3000),
        Row(f"quota created beside {scale}, p50", percentile(created, 0.5) * 1e6, "us"),
        Row(f"quota changed among {scale}, p50", percentile(updated, 0.5) * 1e6, "us"),
    ]
    with served(service) as connect:
        paced = over_tls(connect, small, "/mutate", 1, 0.01)
        pressed = over_tls(connect, small, "/mutate", 8, 0.0)
    return [
        *rows,
        Row("pod over TLS at 100/s, p50", percentile(paced, 0.5) * 1e3, "ms"),
        Row("pod over TLS at 100/s, p99", percentile(paced, 0.99) * 1e3, "ms", ceiling=50),
        Row("pods over TLS, 8 clients", len(pressed) / SECONDS, "1/s", floor=300),
    ]
