"""Ports for programs that have to be told one: free, and given to nobody else before the program listens.

The kernel gives nobody a port of this range by itself, and a process claims a whole block of ports before it
gives one away. So neither a connection of another program nor another process of ours takes it meanwhile.
"""

from __future__ import annotations

import itertools
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from typing import Final

# Below the ports that kernels choose from (on Linux, from 32768 on).
FIRST: Final = 20_000
PER_BLOCK: Final = 100
_BLOCKS: Final = 120
_MOST_OWN_BLOCKS: Final = 10
_HOST: Final = "127.0.0.1"
_CLAIM: Final = "\0muster-ports-{}"


def free_port() -> int:
    """A port on loopback that nobody listens on, and that no other process gets from here."""
    return _own.next()


def _claim(block: int) -> bool:
    """Claim a block until this process ends: only one process has a Unix socket of a name.

    The kernel frees the name with the process, however that ends. Only Linux has names without a file.
    """
    if sys.platform != "linux":
        return True
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(_CLAIM.format(block))
    except OSError:
        claim.close()
        return False
    claim.detach()
    return True


def _ports() -> Iterator[int]:
    """The ports of one claimed block after another, and the same ones again when there are enough."""
    own: list[int] = []
    start = os.getpid() % _BLOCKS
    for block in (*range(start, _BLOCKS), *range(start)):
        if len(own) < PER_BLOCK * _MOST_OWN_BLOCKS and _claim(block):
            ports = range(FIRST + block * PER_BLOCK, FIRST + (block + 1) * PER_BLOCK)
            own += ports
            yield from ports
    if own:
        yield from itertools.cycle(own)


class _OwnPorts:
    """The ports of this process, for several threads."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Claim other ports from now on: a process that was forked must not give away its parent's."""
        self._lock = threading.Lock()
        self._ports = _ports()

    def next(self) -> int:
        """The next one that nobody listens on."""
        with self._lock:
            for port in itertools.islice(self._ports, PER_BLOCK * _MOST_OWN_BLOCKS):
                with closing(socket.socket()) as probe, suppress(OSError):
                    probe.bind((_HOST, port))
                    return port
        raise RuntimeError("no port is free")


_own = _OwnPorts()
os.register_at_fork(after_in_child=_own.renew)
