"""Ports that nobody else takes before the program to which they were given listens."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox.ports import FIRST, PER_BLOCK, free_port

ROOT = Path(__file__).parents[3]
COUNT = 3 * PER_BLOCK
ASK = f"""
from sandbox.ports import free_port
print(*(free_port() for _ in range({COUNT})), flush=True)
input()
"""


def test_processes_side_by_side_get_different_ports() -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", ASK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for _ in range(3)
    ]
    said = [process.stdout.readline() for process in processes if process.stdout is not None]
    for process in processes:
        process.communicate("\n", timeout=60)
    assert len({int(port) for line in said for port in line.split()}) == 3 * COUNT, said


FORK = f"""
import os
from sandbox.ports import free_port
free_port()
child = os.fork()
# In one write, so that the lines of both are whole.
os.write(1, b" ".join(b"%d" % free_port() for _ in range({PER_BLOCK})) + b"\\n")
# The ports of a process are free again at its end.
child and os.wait()
"""


def test_a_forked_process_gets_others_than_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORK], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    one, other = (line.split() for line in done.stdout.splitlines())
    assert len(one) == len(other) == PER_BLOCK
    assert not set(one) & set(other)


@pytest.mark.skipif(sys.platform != "linux", reason="other kernels tell their range elsewhere")
def test_they_are_none_that_the_kernel_gives_away_by_itself() -> None:
    lowest, _ = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()
    assert FIRST <= free_port() < int(lowest)


def test_a_port_on_which_somebody_listens_is_passed_over() -> None:
    # Not the last one of a block: another process may have the next block.
    before = next(port for port in iter(free_port, 0) if (port + 1) % PER_BLOCK)
    with socket.create_server(("127.0.0.1", before + 1)):
        assert free_port() != before + 1


def test_the_same_ports_come_again_when_there_are_enough() -> None:
    said = [free_port() for _ in range(12 * PER_BLOCK)]
    assert len(set(said)) <= 10 * PER_BLOCK
