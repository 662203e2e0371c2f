"""The console with 1,000 nodes, 50,000 pods and 200 quotas, and how soon it opens on a cluster of 100 nodes.

The server on loopback sends prepared lists and, in its watches, changes of pods; the console is a process of
its own. CPU is that of the console, read from the system; it contains what the changes themselves cost.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from benchmarks.bench_cli import CREATED, PROGRAM, write_kubeconfig
from benchmarks.support.row import Row
from tests.support.stand_in_server import StandInHandler, StandInServer

_REFRESHES = 20
_TICK = os.sysconf("SC_CLK_TCK")


def cluster(nodes: int, pods: int, quotas: int) -> dict[str, list[dict[str, Any]]]:
    """Nodes with 8 GPUs, quotas of three resources, and pods of which one in ten waits."""
    amounts = {"cpu": str(pods // quotas * 2), "memory": f"{pods // quotas}Gi", "nvidia.com/gpu": "40"}
    return {
        "nodes": [
            {
                "metadata": {"name": f"node-{i:04}", "uid": f"n{i}", "labels": {"rack": f"rack-{i // 16}"}},
                "status": {
                    "allocatable": {"cpu": "128", "memory": "512Gi", "nvidia.com/gpu": "8", "pods": "250"}
                },
            }
            for i in range(nodes)
        ],
        "elasticquotas": [
            {"metadata": _meta(i, "quota"), "spec": {"min": amounts, "max": {**amounts, "cpu": "9000"}}}
            for i in range(quotas)
        ],
        # As an API server lists them.
        "pods": sorted(
            (pod(i, nodes, quotas, waits=i % 10 == 0) for i in range(pods)),
            key=lambda obj: (obj["metadata"]["namespace"], obj["metadata"]["name"]),
        ),
    }


def _meta(index: int, name: str) -> dict[str, Any]:
    return {
        "namespace": f"team-{index:03}",
        "name": name,
        "uid": f"0f2c9a1e-{index:05}-{name}",
        "resourceVersion": "1",
        "creationTimestamp": CREATED,
    }


def pod(index: int, nodes: int, quotas: int, *, waits: bool) -> dict[str, Any]:
    """A pod as an API server sends it, with what kubelet and field managers add; eight are of one Job."""
    job = index // 8
    container = {
        "name": "main",
        "image": "train:1",
        "resources": {
            "requests": {"cpu": "1", "memory": "1Gi", **({"nvidia.com/gpu": "1"} if index % 8 == 0 else {})}
        },
        "args": ["--run", str(job)],
        "volumeMounts": [
            {
                "name": f"kube-api-access-{index % 100_000:05}",
                "mountPath": "/var/run/secrets",
                "readOnly": True,
            }
        ],
        "terminationMessagePath": "/dev/termination-log",
    }
    fields = {"f:metadata": {"f:labels": {".": {}, "f:app": {}}}, "f:spec": {"f:containers": {}}}
    scheduled = {
        "type": "PodScheduled",
        "status": "False" if waits else "True",
        "lastTransitionTime": CREATED,
    }
    return {
        "metadata": {
            **_meta(job % quotas, f"train-{index}"),
            "uid": f"0f2c9a1e-7d1b-4f3c-9f00-{index:012}",
            "labels": {"app": "train", "job-name": f"train-{job}"},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": f"train-{job}",
                    "uid": "1",
                    "controller": True,
                }
            ],
            "managedFields": [{"manager": "kubelet", "operation": "Update", "fieldsV1": fields}],
        },
        # In the order of the API server's fields.
        "spec": {
            "containers": [container],
            **({} if waits else {"nodeName": f"node-{index % nodes:04}"}),
            "schedulerName": "muster-scheduler",
        },
        "status": {
            "phase": "Pending" if waits else "Running",
            "startTime": CREATED,
            "conditions": [scheduled],
        },
    }


class WatchedServer:
    """Lists in pages, and watches that send what `change` is given."""

    def __init__(self, content: dict[str, list[dict[str, Any]]]) -> None:
        self.lists = {
            plural: [msgspec.json.encode(item) for item in items] for plural, items in content.items()
        }
        self._watches: dict[str, list[queue.SimpleQueue[bytes]]] = {}
        self._lock = threading.Lock()
        self._version = 1
        outer = self

        class Handler(StandInHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                query = parse_qs(url.query)
                plural = url.path.rpartition("/")[2]
                if "watch" in query:
                    outer.stream(self, plural)
                else:
                    outer.page(self, plural, query)

        self._http = StandInServer(Handler)
        self._http.start()
        self.url = f"http://127.0.0.1:{self._http.port}"

    def page(self, handler: StandInHandler, plural: str, query: dict[str, list[str]]) -> None:
        """One page of a list."""
        items = self.lists.get(plural, [])
        start = int(query.get("continue", ["0"])[0])
        end = start + int(query.get("limit", [str(len(items))])[0])
        head = json.dumps({"resourceVersion": "1", "continue": str(end) if end < len(items) else ""}).encode()
        body = b'{"metadata":%s,"items":[%s]}' % (head, b",".join(items[start:end]))
        handler.answer(200, body)

    def stream(self, handler: StandInHandler, plural: str) -> None:
        """A watch: what is changed from now on."""
        changes: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        with self._lock:
            self._watches.setdefault(plural, []).append(changes)
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        while True:
            line = changes.get()
            try:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            except OSError:
                return

    def change(self, plural: str, obj: dict[str, Any]) -> None:
        """Send a changed object to all watches of its kind."""
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        line = msgspec.json.encode({"type": "MODIFIED", "object": obj}) + b"\n"
        for changes in self._watches.get(plural, []):
            changes.put(line)

    def close(self) -> None:
        """End the server."""
        self._http.shutdown()
        self._http.server_close()


class Console:
    """A console process, and a browser's session with it."""

    def __init__(self, folder: Path, url: str) -> None:
        kubeconfig = folder / "kubeconfig"
        write_kubeconfig(kubeconfig, url)
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [str(PROGRAM), "ui", "--no-open", "--kubeconfig", str(kubeconfig)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        link = ""
        for line in self._process.stdout:
            found = re.search(r"http://([^/]+)(/\?token=\S+)", line)
            if found:
                self.host, link = found[1], found[2]
                break
        answer = self._get(link, {})
        self.cookie = answer.headers["Set-Cookie"].partition(";")[0]

    def _get(self, path: str, headers: dict[str, str]) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, timeout=120)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def get(self, path: str, etag: str = "") -> tuple[int, bytes, str]:
        """Status, body and ETag."""
        headers = {"Cookie": self.cookie, **({"If-None-Match": etag} if etag else {})}
        answer = self._get(path, headers)
        return answer.status, answer.read(), answer.headers.get("ETag", "")

    def first_page(self) -> float:
        """Wait for the first page that is ready; seconds since the start of the process."""
        while self.get("/now")[0] != 200:
            pass
        return time.perf_counter() - self.began

    def cpu(self) -> float:
        """Seconds of CPU that the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def mebibytes(self) -> float:
        """Resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0

    def close(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.wait(timeout=30)


@contextmanager
def console(content: dict[str, list[dict[str, Any]]]) -> Iterator[tuple[Console, WatchedServer]]:
    """A console on a prepared cluster."""
    server = WatchedServer(content)
    with tempfile.TemporaryDirectory() as folder:
        found = Console(Path(folder), server.url)
        try:
            yield found, server
        finally:
            found.close()
            server.close()


def main(small: bool = False) -> list[Row]:
    """Opening on a cluster of 100 nodes; then page, refresh and memory on the large cluster."""
    with console(cluster(20, 100, 5) if small else cluster(100, 2000, 20)) as (first, _):
        opened = first.first_page()
    nodes, pods, quotas = (20, 400, 10) if small else (1000, 50_000, 200)
    with console(cluster(nodes, pods, quotas)) as (large, server):
        read = large.first_page()
        page_size, page_time = _page(large, server, nodes, quotas)
        changed, unchanged = _refreshes(large, server, nodes, quotas, 2 if small else _REFRESHES)
        memory = large.mebibytes()
    return [
        Row("ui opens, 100 nodes, 2,000 pods", opened, "s", ceiling=1.0),
        Row(f"ui opens, {nodes:,} nodes, {pods:,} pods", read, "s"),
        Row("first page", page_size / 1024, "KiB", ceiling=150.0),
        Row("first page, after a change", page_time * 1000, "ms", ceiling=200.0),
        Row("refresh where the figures changed, CPU", changed * 1000, "ms", ceiling=20.0),
        Row("refresh where nothing changed (304), CPU", unchanged * 1000, "ms", ceiling=20.0),
        Row("memory", memory, "MiB", ceiling=250.0),
    ]


def _page(found: Console, server: WatchedServer, nodes: int, quotas: int) -> tuple[int, float]:
    """Bytes of the first page, and the least seconds that it takes after a change."""
    size, least = 0, float("inf")
    for serial in range(5):
        _change(found, server, serial, nodes, quotas)
        began = time.perf_counter()
        _, body, _ = found.get("/now")
        least, size = min(least, time.perf_counter() - began), len(body)
    return size, least


def _change(found: Console, server: WatchedServer, serial: int, nodes: int, quotas: int) -> None:
    """Start a waiting pod, and wait until the console has seen it."""
    _, _, etag = found.get("/now?format=json")
    server.change("pods", pod(serial * 10, nodes, quotas, waits=False))
    until = time.monotonic() + 30
    while found.get("/now?format=json", etag)[0] == 304:
        if time.monotonic() > until:
            raise TimeoutError("the console did not see a changed pod")
        time.sleep(0.05)


def _refreshes(
    found: Console, server: WatchedServer, nodes: int, quotas: int, count: int
) -> tuple[float, float]:
    """Seconds of CPU of a refresh with changed figures, and of one without; so many are measured."""
    _, _, etag = found.get("/now?fragment=")
    spent = 0.0
    for serial in range(count):
        server.change("pods", pod((serial + 10) * 10, nodes, quotas, waits=False))
        # The console applies changes in batches of a tenth of a second.
        time.sleep(0.3)
        before = found.cpu()
        status, _, etag = found.get("/now?fragment=", etag)
        if status != 200:
            raise ValueError(f"a refresh after a change was answered with {status}")
        spent += found.cpu() - before
    began = found.cpu()
    for _ in range(10 * count):
        status, _, _ = found.get("/now?fragment=", etag)
        if status != 304:
            raise ValueError(f"a refresh without a change was answered with {status}")
    return spent / count, (found.cpu() - began) / (10 * count)


if __name__ == "__main__":
    for row in main("--small" in sys.argv):
        print(row.name, row.figure, row.unit)
