"""`python -m tests.support.webhooks.forger URL CA RATE`: reviews that no API server sent, in masses.

Each line of stdin is the JSON of an object whose creation is claimed; {n} in it becomes a number. They go out
in turn, over kept connections, until SIGTERM. Then it prints how many were sent and answered, how many of
those were allowed, and the seconds that it took.
"""

from __future__ import annotations

import http.client
import json
import signal
import ssl
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

CONNECTIONS = 128


def review(obj: dict[str, Any]) -> bytes:
    """An AdmissionReview of the creation of an object, as an API server would send it."""
    group, _, version = obj["apiVersion"].rpartition("/")
    meta = {"uid": str(uuid.uuid4()), "creationTimestamp": "2026-01-01T00:00:00Z", **obj["metadata"]}
    request = {
        "uid": str(uuid.uuid4()),
        "operation": "CREATE",
        "kind": {"group": group, "version": version, "kind": obj["kind"]},
        "resource": {"group": group, "version": version, "resource": obj["kind"].lower() + "s"},
        "namespace": meta["namespace"],
        "name": meta["name"],
        "userInfo": {"username": "anybody"},
        "object": {**obj, "metadata": meta},
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    return json.dumps(body).encode()


def connection(url: str, authority: str) -> http.client.HTTPSConnection:
    """A connection to a webhook that trusts the CA in the file `authority`."""
    parts = urlsplit(url)
    context = ssl.create_default_context(cafile=authority)
    return http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=10, context=context)


def send(
    conn: http.client.HTTPSConnection, obj: dict[str, Any], timeout: str = "5s", path: str = "/validate"
) -> dict[str, Any]:
    """The response to a forged review."""
    conn.request("POST", f"{path}?timeout={timeout}", review(obj), {"Content-Type": "application/json"})
    answer = json.loads(conn.getresponse().read())
    response: dict[str, Any] = answer["response"]
    return response


@contextmanager
def flood(
    url: str, authority: str, objects: Iterable[dict[str, Any]], *, rate: float, seconds: float
) -> Iterator[dict[str, Any]]:
    """Forged reviews as long as the block lasts, and at least for some seconds.

    What the forger prints is in the dict once the block has ended.
    """
    figures: dict[str, Any] = {}
    command = [sys.executable, "-m", "tests.support.webhooks.forger", url, authority, str(rate)]
    began = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write("\n".join(map(json.dumps, objects)))
            process.stdin.close()
            yield figures
            time.sleep(max(0.0, began + seconds - time.monotonic()))
            assert process.poll() is None, "what was tried was tried under the flood"
        finally:
            process.terminate()
        figures.update(json.loads(process.stdout.read()))


def main() -> None:
    url, authority, rate = sys.argv[1], sys.argv[2], float(sys.argv[3])
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    templates = [line for line in sys.stdin.read().splitlines() if line]
    began = time.monotonic()
    lock = threading.Lock()
    counts = {"sent": 0, "answered": 0, "allowed": 0}

    def run() -> None:
        conn = connection(url, authority)
        while True:
            with lock:
                number = counts["sent"]
                counts["sent"] += 1
            if ended.wait(max(0.0, began + number / rate - time.monotonic())):
                return
            try:
                text = templates[number % len(templates)].replace("{n}", str(number))
                allowed = bool(send(conn, json.loads(text))["allowed"])
            except (OSError, http.client.HTTPException, ValueError):
                conn = connection(url, authority)
                continue
            with lock:
                counts["answered"] += 1
                counts["allowed"] += allowed

    threads = [threading.Thread(target=run) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps({**counts, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
