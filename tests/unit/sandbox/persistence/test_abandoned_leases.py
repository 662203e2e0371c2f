"""Only the Lease of a process that is known to be dead is abandoned."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from sandbox.persistence.abandoned_leases import is_abandoned

HOST = socket.gethostname()


def test_a_process_that_has_ended_is_no_holder() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert is_abandoned(f"{HOST}_{process.pid}_0a1b2c3d")


KEPT = [
    ("a process that runs", f"{HOST}_{os.getpid()}_0a1b2c3d"),
    ("a process of another machine", f"other-{HOST}_{2**22 + 1}_0a1b2c3d"),
    ("the identity of another program", "kube-scheduler-a_0f3d"),
    ("nobody", ""),
]


@pytest.mark.parametrize(("sentence", "holder"), KEPT, ids=[row[0] for row in KEPT])
def test_all_other_leases_stay(sentence: str, holder: str) -> None:
    assert not is_abandoned(holder), sentence
