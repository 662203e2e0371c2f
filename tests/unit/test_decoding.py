"""Reading into types from many threads at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each round has types that nobody has read yet, and four threads that begin at once.
ROUNDS = """
import sys, threading, msgspec
from scheduler_core.decoding import convert, decode
sys.setswitchinterval(1e-6)

def all_at_once(read):
    barrier = threading.Barrier(4)
    def run():
        barrier.wait()
        found.append(read())
    threads = [threading.Thread(target=run) for _ in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

for number in range(40):
    found = []
    inner = msgspec.defstruct("Inner", [(f"field{i}", int | None, None) for i in range(20)])
    outer = msgspec.defstruct("Outer", [(f"many{i}", list[inner], []) for i in range(10)])
    all_at_once(READ)
    assert [[part.field19 for part in each.many9] for each in found] == [[3]] * 4, found
print("all read")
"""
READS = {
    "from JSON": """lambda: decode(b'{"many9": [{"field19": 3}]}', outer)""",
    "from plain values": """lambda: convert({"many9": [{"field19": 3}]}, outer)""",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS.keys())
def test_a_type_may_be_read_first_by_many_threads_at_once(read: str) -> None:
    program = ROUNDS.replace("READ", read)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "all read\n"), done.stderr
