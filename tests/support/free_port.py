"""Ports for programs that are started later, or again."""

from __future__ import annotations

import itertools
import os
import socket
from contextlib import closing, suppress

# Below the ports that kernels hand out by themselves: until a program listens, no other gets its port. Each
# worker has a thousand of its own, and runs side by side begin at different ones.
_WORKER_PORTS = 1000
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 12
_ports = itertools.count(os.getpid() * 37)


def free_port() -> int:
    """A port that nobody listens on, and that this run gives to nobody else."""
    for number in itertools.islice(_ports, _WORKER_PORTS):
        port = 20000 + _worker * _WORKER_PORTS + number % _WORKER_PORTS
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"none of the {_WORKER_PORTS} ports of this worker is free")
