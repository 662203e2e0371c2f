"""Throughput of the sandbox: pods per second that clients create, bind and watch over HTTPS.

    python benchmarks/sandbox_throughput.py [--pods 10000] [--clients 2] [--connections 4]

The server is a separate process. Each client process creates its share of the pods and then binds them, while
this process watches all pods. Prints one table.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import ssl
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from sandbox.api.server import ServerOptions, serve
from sandbox.ports import free_port

TOKEN = "benchmark"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "", "labels": {"app": "bench", "team": "a"}, "annotations": {"note": "x" * 40}},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "command": ["sleep", "3600"],
                "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1"}},
                "env": [{"name": "A", "value": "b"}],
            }
        ],
        "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    },
}


def session(directory: Path) -> aiohttp.ClientSession:
    """A client of the server in `directory`."""
    context = ssl.create_default_context(cafile=str(directory / "ca.crt"))
    return aiohttp.ClientSession(
        (directory / "url").read_text(),
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        headers={"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"},
        timeout=aiohttp.ClientTimeout(total=300),
    )


async def _post_all(directory: Path, requests: list[tuple[str, bytes]], connections: int) -> None:
    waiting = iter(requests)

    async def worker(client: aiohttp.ClientSession) -> None:
        for path, body in waiting:
            async with client.post(path, data=body) as answer:
                await answer.read()
                assert answer.status == 201, f"{path}: {answer.status}"

    async with session(directory) as client:
        await asyncio.gather(*(worker(client) for _ in range(connections)))


def post_all(directory: Path, names: list[str], binding: bool, connections: int) -> float:
    """One client process: create or bind the named pods; returns seconds."""
    pods = "/api/v1/namespaces/default/pods"
    if binding:
        target = {"apiVersion": "v1", "kind": "Node", "name": "node-1"}
        requests = [
            (
                f"{pods}/{name}/binding",
                msgspec.json.encode({"metadata": {"name": name, "namespace": "default"}, "target": target}),
            )
            for name in names
        ]
    else:
        requests = [
            (pods, msgspec.json.encode({**POD, "metadata": {**POD["metadata"], "name": name}}))
            for name in names
        ]
    begin = time.perf_counter()
    asyncio.run(_post_all(directory, requests, connections))
    return time.perf_counter() - begin


async def count_events(directory: Path, wanted: int, version: str = "") -> float:
    """Watch until `wanted` events came. Seconds from the request to the last of them."""
    query = {"watch": "1", "timeoutSeconds": "300", **({"resourceVersion": version} if version else {})}
    begin = time.perf_counter()
    async with session(directory) as client, client.get("/api/v1/pods", params=query) as answer:
        seen = 0
        async for chunk in answer.content.iter_any():
            seen += chunk.count(b"\n")
            if seen >= wanted:
                break
    return time.perf_counter() - begin


def run_server(directory: Path) -> None:
    """The server process."""

    async def run() -> None:
        stop = asyncio.Event()
        options = ServerOptions(directory=directory, token=TOKEN, port=int((directory / "port").read_text()))
        await serve(options, stop)

    asyncio.run(run())


async def measure(directory: Path, pods: int, clients: int, connections: int) -> list[tuple[str, float, int]]:
    """(what, seconds, how many) for creations, bindings, the live watch, and a watch from the start."""
    shares = [[f"pod-{c}-{i}" for i in range(pods // clients)] for c in range(clients)]
    total = sum(map(len, shares))
    rows = []
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(clients) as pool:
        watching = asyncio.create_task(count_events(directory, 2 * total))
        for what, binding in (("pod creations", False), ("bindings", True)):
            jobs = [
                loop.run_in_executor(pool, post_all, directory, share, binding, connections)
                for share in shares
            ]
            rows.append((what, max(await asyncio.gather(*jobs)), total))
        rows.append(("events to a live watch", await watching, 2 * total))
    rows.append(("first events of a new watch", await count_events(directory, total), total))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--connections", type=int, default=4)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        run_server(options.serve)
        return
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        port = free_port()
        (directory / "port").write_text(str(port))
        (directory / "url").write_text(f"https://127.0.0.1:{port}")
        begin = time.perf_counter()
        server = subprocess.Popen([sys.executable, __file__, "--serve", name])
        try:
            while not (directory / "kubeconfig").exists():
                assert server.poll() is None, "the server ended"
                time.sleep(0.02)
            started = time.perf_counter() - begin
            rows = asyncio.run(measure(directory, options.pods, options.clients, options.connections))
            memory = Path(f"/proc/{server.pid}/status").read_text().partition("VmRSS:")[2].split()[0]
        finally:
            server.terminate()
            server.wait(10)
    print(f"Python {platform.python_version()}, aiohttp {aiohttp.__version__}, {os.cpu_count()} cores")
    print(f"{options.clients} client processes with {options.connections} connections each")
    print(f"{'what':30} {'count':>8} {'seconds':>8} {'per second':>11}")
    print(f"{'start to answering':30} {1:8} {started:8.2f}")
    for what, seconds, count in rows:
        print(f"{what:30} {count:8} {seconds:8.2f} {count / seconds:11.0f}")
    print(f"server memory at the end: {int(memory) // 1024} MiB")


if __name__ == "__main__":
    main()
