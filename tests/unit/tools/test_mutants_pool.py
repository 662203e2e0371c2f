"""Forked processes end, by themselves or at their limits, with all that they have started."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tools.mutants_rooms import ROOT

# The program's output has no end as long as one of its processes may write to it.
SCRIPT = """
import os, subprocess, time
from tests.tools.mutants_pool import Pool

output = os.dup(1)


def leaves_a_program():
    subprocess.Popen(["sleep", "600"], stdout=output)


def never_ends():
    while True:
        pass


def is_ended():
    os._exit(1)


pool = Pool(2)
pool.run({work}, {seconds}, lambda ended: print(ended, flush=True))
pool.finish()
"""


@pytest.mark.parametrize(
    ("work", "seconds", "ended"),
    [
        pytest.param("leaves_a_program", 600, "True", id="it has left a program"),
        pytest.param("is_ended", 600, "False", id="a test has ended it, as those do that hang"),
        pytest.param("never_ends", 0, "False", id="it needs more of a processor than it may"),
    ],
)
def test_nothing_is_left_of_a_process(work: str, seconds: int, ended: str) -> None:
    command = [sys.executable, "-c", SCRIPT.format(work=work, seconds=seconds)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == [ended]
