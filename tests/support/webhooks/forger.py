"""`python -m tests.support.webhooks.forger URL CA SECONDS RATE`: reviews that no API server sent, in masses.

Each line of stdin is the JSON of an object whose creation is claimed; {n} in it becomes a number. They go out
in turn, over kept connections. Prints how many were sent and answered, and how many of those were allowed.
"""

from __future__ import annotations

import http.client
import json
import ssl
import sys
import threading
import time
import uuid
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


def send(conn: http.client.HTTPSConnection, obj: dict[str, Any], timeout: str = "5s") -> dict[str, Any]:
    """The response to a forged review."""
    conn.request("POST", f"/validate?timeout={timeout}", review(obj), {"Content-Type": "application/json"})
    answer = json.loads(conn.getresponse().read())
    response: dict[str, Any] = answer["response"]
    return response


def main() -> None:
    url, authority, seconds, rate = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
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
            due = began + number / rate
            if due > began + seconds:
                return
            time.sleep(max(0.0, due - time.monotonic()))
            if time.monotonic() > began + seconds:
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
