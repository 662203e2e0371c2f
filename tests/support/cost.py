"""What a piece of work costs this thread, whoever else keeps the machine busy."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def measured(work: Callable[[], T]) -> tuple[T, float]:
    """The result, and seconds of processor time; what other tests left for the collector does not count."""
    collects = gc.isenabled()
    gc.disable()
    try:
        began = time.thread_time()
        result = work()
        return result, time.thread_time() - began
    finally:
        if collects:
            gc.enable()
