"""Quotas that are refused only because of others that were admitted a moment ago, and may be nobody's.

Who would be refused by nothing else is remembered itself, so that nobody gets past, and judged again once
those before it are stored, or had the time to be. Then what nobody stored is forgotten.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.resource_quota import ResourceQuota
from webhook.cache import Cache
from webhook.deadline import remaining
from webhook.doubt import STEP_SECONDS, TO_DECIDE_SECONDS
from webhook.verdict import Verdict

# So many may keep a thread waiting; doubt is in favour of all others.
WAITING: Final = 16
MOST_SECONDS: Final = 2.1

# The verdict by what the server lists now and by what was remembered before a number; zero for nothing of it.
JudgeBefore = Callable[[float], Verdict]


class QuotaDoubts:
    """Those who wait. Thread-safe."""

    def __init__(self, cache: Cache, sleep: Callable[[float], object] = time.sleep) -> None:
        self._cache = cache
        self._sleep = sleep
        self._places = threading.Semaphore(WAITING)

    def decide(
        self, quota: ElasticQuota | ResourceQuota, base: str, judge: JudgeBefore, *, dry_run: bool
    ) -> Verdict:
        """The verdict on a quota that was refused beside everything that is stored or may be in a moment."""
        certain = judge(0)
        if not certain.allowed:
            return certain
        if dry_run:
            return self._wait(self._cache.mark(), certain, judge)
        number = self._cache.admitted(quota, base)
        verdict = self._wait(number, certain, judge)
        if verdict.allowed:
            self._cache.renew(number)
        else:
            self._cache.withdraw(number)
        return verdict

    def _wait(self, number: int, certain: Verdict, judge: JudgeBefore) -> Verdict:
        if not self._places.acquire(blocking=False):
            return certain
        try:
            left = min(MOST_SECONDS, remaining() - TO_DECIDE_SECONDS)
            while self._cache.is_open(number):
                if left <= 0.0:
                    return certain
                self._sleep(STEP_SECONDS)
                left -= STEP_SECONDS
            return judge(number)
        finally:
            self._places.release()
