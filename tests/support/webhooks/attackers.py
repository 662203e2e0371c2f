"""Clients that send a webhook the dearest requests that are known, as fast as they are answered.

They are a process of their own, below others in priority: on a cluster it would be another machine.
`python -m tests.support.webhooks.attackers PORT CONNECTIONS` attacks until its input ends; a line says that
it has begun.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.unit.webhook.http import hostile, hostile_pods

# The dearest of each kind, as `tests/unit/webhook/http/test_cost.py` finds them.
DEAREST = {
    hostile_pods.pods: (
        "status of statuses",
        "containers of nothing",
        "numbers of 4000 digits",
        "both large",
    ),
    hostile.quotas: ("hard of 90000 requests.r{}, updated", "1024 used, updated"),
    hostile.groups: ("strict at every level", "factors", "60000 totals, updated"),
    hostile.topologies: ("all levels throughout", "19800 nodes", "one node many times"),
    hostile_pods.envelopes: ("escapes without end", "requests without end"),
}
NICENESS = 10


def requests() -> list[bytes]:
    """Whole requests: dear bodies, and heads and bodies whose form is dear."""
    made = []
    for family, names in DEAREST.items():
        for name, body in family():
            if name.startswith(names):
                length = b"Content-Length: %d" % len(body)
                made += [_head(length, path) + body for path in (b"/validate", b"/mutate")]
    digits = b"9" * 15_000
    made.append(_head(b"Content-Length: 0", b"/validate?timeout=" + digits))
    made.append(_head(b"Content-Length: 2\r\nX-A: " + digits) + b"{}")
    made.append(_head(b"Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 200_000)
    made.append(_head(b"Transfer-Encoding: chunked") + b"1" * 1_000_000)
    made.append(_head(b"Content-Length: -1") + b"x" * 1_000_000)
    return made


def _head(line: bytes, path: bytes = b"/validate") -> bytes:
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n%b\r\n\r\n" % (path, line)


def attack(port: int, dear: list[bytes]) -> None:
    """Send all of them in turn, on one connection for as long as it lasts."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    link: ssl.SSLSocket | None = None
    turn = 0
    while True:
        try:
            if link is None:
                plain = socket.create_connection(("127.0.0.1", port), timeout=5)
                link = context.wrap_socket(plain)
            link.sendall(dear[turn % len(dear)])
            ended = not link.recv(1 << 20)
        except OSError:
            ended = True
        if ended and link is not None:
            link.close()
            link = None
        turn += 1


@contextmanager
def attacked(port: int, connections: int = 2) -> Iterator[None]:
    """So many of them, all at it."""
    command = [sys.executable, "-m", "tests.support.webhooks.attackers", str(port), str(connections)]
    running = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        assert running.stdout.readline() == "attacking\n"
        yield
        assert running.poll() is None, "an attacker gave up"
    finally:
        running.kill()
        running.communicate()


def main() -> None:
    os.nice(NICENESS)
    port, connections = map(int, sys.argv[1:])
    # An attacker that fails ends them all.
    threading.excepthook = lambda hook: os._exit(1)
    dear = requests()
    for _ in range(connections):
        threading.Thread(target=attack, args=(port, dear), daemon=True).start()
    print("attacking", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
