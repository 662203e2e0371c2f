"""Threads of benchmarks."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Thread


def run_all(threads: Sequence[Thread]) -> None:
    """Start the threads, and wait for their end."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
