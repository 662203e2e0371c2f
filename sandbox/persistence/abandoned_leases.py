"""Leases of programs that died with the last start: without them, nobody waits until they expire."""

from __future__ import annotations

import os
import re
import socket
from typing import Final

from sandbox.kinds.builtin import LEASES
from sandbox.objects import at
from sandbox.store.registry import Registry

# `hostname_process_suffix`, the identity of Muster's scheduler.
_HOLDER: Final = re.compile(r"(?P<host>.+)_(?P<process>\d+)_[0-9a-f]+")


async def remove_abandoned(registry: Registry) -> None:
    """Delete the Leases whose holder was a process of this machine that no longer runs."""
    for lease in registry.store.list(LEASES):
        if is_abandoned(str(at(lease, "spec", "holderIdentity") or "")):
            meta = lease["metadata"]
            await registry.delete(LEASES, meta["namespace"], meta["name"])


def is_abandoned(holder: str) -> bool:
    """Whether a Lease's holder was a process of this machine that has ended."""
    found = _HOLDER.fullmatch(holder)
    if found is None or found["host"] != socket.gethostname():
        return False
    try:
        os.kill(int(found["process"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False
