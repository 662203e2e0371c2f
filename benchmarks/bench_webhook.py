"""Cost of one admission review: in process, and over TLS on loopback."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple

from benchmarks.support.row import Row
from benchmarks.support.threads import run_all
from scheduler_core.certificates import issue_serving, make_authority
from scheduler_core.kube.watch.tracker import Event
from webhook.http.admission_review import ReviewRequest, review
from webhook.http.app import create_app
from webhook.http.server import WebhookServer
from webhook.metrics import WebhookMetrics
from webhook.policy.review_dispatcher import ReviewDispatcher
from webhook.policy.verdict import Verdict
from webhook.process import settle_memory
from webhook.view.cache import WATCHED, Cache

SECONDS = 2.0
WINDOWS = 5
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
    """A pod whose environment variables make the review about `size` bytes long."""
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
    """A cache of 1,000 namespaces with a quota each, and 1,000 nodes."""
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


def in_process(
    body: bytes, decide: Callable[[ReviewRequest], Verdict], seconds: float = SECONDS
) -> list[float]:
    """Sorted durations of single reviews in seconds."""
    times = []
    until = time.perf_counter() + seconds
    while (began := time.perf_counter()) < until:
        answer = review(body, decide)
        times.append(time.perf_counter() - began)
        assert answer.status == 200
    return sorted(times)


class Served(NamedTuple):
    """Address and certificate of the server process for clients."""

    port: int
    authority: str


def serve(link: Connection, fast_path: bool) -> None:
    """Run the server as `muster-webhook` does, until the pipe gets a message or is closed."""
    now = time.time()
    authority = make_authority(now)
    app = create_app(ReviewDispatcher(filled_cache()), WebhookMetrics(), fast_path=fast_path)
    server = WebhookServer(app, ("127.0.0.1", 0), issue_serving(authority, ("127.0.0.1",), now))
    server.start()
    settle_memory()
    link.send(Served(server.port, authority.certificate.decode()))
    before = time.process_time()
    while link.poll(None):
        try:
            link.recv()
        except EOFError:
            break
        link.send(time.process_time() - before)
        before = time.process_time()
    server.stop()


class Remote:
    """A server in a separate process, so that its CPU time excludes the clients."""

    def __init__(self, *, fast_path: bool = True) -> None:
        context = get_context("spawn")
        self._link, theirs = context.Pipe()
        self._process = context.Process(target=serve, args=(theirs, fast_path), daemon=True)
        self._process.start()
        theirs.close()
        served: Served = self._link.recv()
        self.port = served.port
        self._context = ssl.create_default_context(cadata=served.authority)

    def connect(self) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection("127.0.0.1", self.port, context=self._context, timeout=30)

    def cpu(self) -> float:
        """CPU seconds since the last call."""
        self._link.send(None)
        used: float = self._link.recv()
        return used

    def close(self) -> None:
        self._link.close()
        self._process.join(20)


def paced(remote: Remote, body: bytes, rate: int, connections: int, seconds: float) -> list[float]:
    """Sorted latencies of requests that are due at fixed times, regardless of earlier responses.

    A latency starts at the due time, so that a stalled server is not favoured.
    """
    times: list[list[float]] = [[] for _ in range(connections)]
    begin = time.perf_counter() + 0.5

    def client(number: int) -> None:
        link = remote.connect()
        post(link, body)
        for position in range(number, int(rate * seconds), connections):
            due = begin + position / rate
            time.sleep(max(0.0, due - time.perf_counter()))
            post(link, body)
            times[number].append(time.perf_counter() - due)
        link.close()

    run_all([threading.Thread(target=client, args=(number,)) for number in range(connections)])
    return sorted(t for mine in times for t in mine)


def pressed(remote: Remote, body: bytes, clients: int, seconds: float) -> float:
    """Reviews per second of several concurrent clients."""
    until = time.perf_counter() + seconds
    counts = [0] * clients

    def client(number: int) -> None:
        link = remote.connect()
        while time.perf_counter() < until:
            post(link, body)
            counts[number] += 1
        link.close()

    run_all([threading.Thread(target=client, args=(number,)) for number in range(clients)])
    return sum(counts) / seconds


def post(link: http.client.HTTPSConnection, body: bytes) -> None:
    link.request("POST", "/mutate?timeout=2s", body, {"Content-Type": "application/json"})
    answer = link.getresponse()
    answer.read()
    assert answer.status == 200


def over_tls(body: bytes, windows: int, seconds: float) -> Iterator[Row]:
    """Latencies and CPU time at the target rates.

    The best of several windows counts, because other work of the machine disturbs it least.
    """
    remote = Remote()
    try:
        paced(remote, body, 100, 4, min(1.0, seconds))
        for rate, connections, ceiling in ((100, 4, 10.0), (500, 16, 50.0)):
            remote.cpu()
            taken = [paced(remote, body, rate, connections, seconds) for _ in range(windows)]
            cpu = remote.cpu() / sum(map(len, taken))
            best = min(taken, key=lambda times: percentile(times, 0.99))
            name = f"pod over TLS at {rate}/s"
            yield Row(f"{name}, p50", percentile(best, 0.5) * 1e3, "ms")
            yield Row(f"{name}, p99", percentile(best, 0.99) * 1e3, "ms", ceiling=ceiling)
            yield Row(f"{name}, the server's CPU", cpu * 1e6, "us CPU", ceiling=2500)
        yield Row("pods over TLS, 8 clients", pressed(remote, body, 8, seconds), "1/s", floor=300)
    finally:
        remote.close()


def through_flask(body: bytes, windows: int, seconds: float) -> Iterator[Row]:
    """What the fast path saves: the same application with it and without, in turns.

    Of each the medians over all windows: what else the machine does disturbs both alike.
    """
    servers = {"fast path": Remote(), "through Flask": Remote(fast_path=False)}
    rates: dict[str, list[float]] = {name: [] for name in servers}
    costs: dict[str, list[float]] = {name: [] for name in servers}
    try:
        for remote in servers.values():
            pressed(remote, body, 8, min(1.0, seconds))
        for _ in range(windows):
            for name, remote in servers.items():
                remote.cpu()
                rates[name].append(pressed(remote, body, 8, seconds))
                costs[name].append(remote.cpu() / (rates[name][-1] * seconds))
    finally:
        for remote in servers.values():
            remote.close()
    for name in servers:
        yield Row(f"pods over TLS, 8 clients, {name}", median(rates[name]), "1/s")
    for name in servers:
        yield Row(f"the server's CPU for a pod, {name}", median(costs[name]) * 1e6, "us CPU")


def main(small: bool = False) -> list[Row]:
    """Reviews in process (microseconds), then over TLS between two processes."""
    windows, seconds = (1, 0.2) if small else (WINDOWS, SECONDS)
    service = ReviewDispatcher(filled_cache())
    plain = envelope(pod(10_000))
    changed = envelope(quota("ns-1", 5, 9), quota("ns-1", 4, 8))
    patched = in_process(plain, service.mutate, seconds)
    created = in_process(envelope(quota("new", 4, 8)), service.validate, seconds)
    updated = in_process(changed, service.validate, seconds)
    scale = f"{NAMESPACES:,} quotas"
    return [
        Row("pod of 10 KB, patched, p50", percentile(patched, 0.5) * 1e6, "us"),
        Row("pod of 10 KB, patched, p99", percentile(patched, 0.99) * 1e6, "us", ceiling=3000),
        Row(f"quota created beside {scale}, p50", percentile(created, 0.5) * 1e6, "us"),
        Row(f"quota changed among {scale}, p50", percentile(updated, 0.5) * 1e6, "us"),
        *over_tls(plain, windows, seconds),
        *through_flask(plain, windows, seconds),
    ]
