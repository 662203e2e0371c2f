"""Answers that are used again for some seconds: many may look at one thing, and look again and again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_MOST: Final = 64


class RecentAnswers(Generic[T]):
    """The newest answers by question. Thread-safe; an exception is no answer."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[float, int, T]] = OrderedDict()

    def get(self, key: Hashable, version: int, ask: Callable[[], T], holds: float) -> tuple[T, bool]:
        """The answer, and whether it is of this version of the cluster; else no older than `holds`."""
        with self._lock:
            known = self._answers.get(key)
        if known is not None:
            asked, of, answer = known
            if of == version or self._monotonic() - asked < holds:
                return answer, of == version
        answer = ask()
        with self._lock:
            self._answers[key] = self._monotonic(), version, answer
            self._answers.move_to_end(key)
            if len(self._answers) > _MOST:
                self._answers.popitem(last=False)
        return answer, True
