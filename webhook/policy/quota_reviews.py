"""Decides reviews of ElasticQuotas and ResourceQuotas from the cache and from fresh lists.

- On creation the quotas of the namespace are listed. So two creations in succession through different
  replicas are judged correctly however far the watch is behind.
- A quota is refused because of other objects only after these were listed again.
- A quota is refused because of other quotas that were admitted a moment ago only once these are stored. Until
  then they are provisional: see `ProvisionalQuotas`.

No read can order two creations at the same instant through different replicas, because admission comes before
storage. Then the older quota is in effect, and the status of the other says so. Within a replica, quotas that
were just admitted are remembered (`webhook.view.pending`).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf
from typing import Final

from scheduler_core.model.meta import identity_of
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from webhook.http.admission_review import ReviewRequest
from webhook.http.deadline import remaining
from webhook.policy.elastic_quotas import (
    QuotaView,
    SumMode,
    create_quota,
    delete_quota,
    update_quota,
)
from webhook.policy.resource_quotas import change_resource_quota
from webhook.policy.verdict import ALLOW, Verdict
from webhook.reservations.provisional_entries import STEP_SECONDS, TO_DECIDE_SECONDS
from webhook.view.api_reads import OptionalReads
from webhook.view.cache import Cache, FreshList

_RESTS_ON_OTHERS: Final = frozenset({"hard", "single", "capacity", "tree"})

Judge = Callable[[QuotaView], tuple[Verdict, ElasticQuota | ResourceQuota | None]]


class QuotaReviews:
    """Decides reviews of quotas; `provisional` decides those that other provisional quotas would refuse.

    Thread-safe.
    """

    def __init__(self, cache: Cache, mode: SumMode, reads: OptionalReads) -> None:
        self._cache = cache
        self._mode: SumMode = mode
        self._reads = reads
        self.provisional = ProvisionalQuotas(cache)
        cache.is_stored = self._has_stored_quota

    def elastic(self, request: ReviewRequest) -> Verdict:
        """Judge a change of an ElasticQuota."""
        if request.operation == "CREATE":
            listed = self._reads.ask(lambda live: live.quotas(request.namespace or ""))
            return self._decide(request, lambda view: create_quota(request.object, view), listed)
        if request.operation == "UPDATE":
            return self._decide(request, lambda view: update_quota(request.object, request.old_object, view))
        return self._decide(request, lambda view: (delete_quota(request.old_object, view), None))

    def native(self, request: ReviewRequest) -> Verdict:
        """Judge a change of a ResourceQuota."""
        if request.operation == "DELETE":
            return ALLOW
        old = request.old_object if request.operation == "UPDATE" else None
        return self._decide(request, lambda view: change_resource_quota(request.object, old, view.siblings))

    def _decide(self, request: ReviewRequest, judge: Judge, fresh: FreshList | None = None) -> Verdict:
        """Judge by the cache, and before a refusal because of other objects by fresh lists.

        So a quota that was admitted and never stored causes no refusal.
        """
        verdict, quota = self._judge(request, judge, fresh)
        if verdict.allowed or not _RESTS_ON_OTHERS & set(verdict.rules):
            return verdict
        verdict, quota = self._judge(request, judge, self._everything(request))
        if verdict.allowed or quota is None or not _RESTS_ON_OTHERS & set(verdict.rules):
            return verdict

        def judge_before(number: float) -> Verdict:
            everything = self._everything(request)
            with self._cache.lock:
                return judge(self._view(request, everything, number))[0]

        return self.provisional.decide(quota, _base(request), judge_before, dry_run=bool(request.dry_run))

    def _judge(
        self, request: ReviewRequest, judge: Judge, fresh: FreshList | None
    ) -> tuple[Verdict, ElasticQuota | ResourceQuota | None]:
        with self._cache.lock:
            verdict, quota = judge(self._view(request, fresh))
            if verdict.allowed and quota is not None and not request.dry_run:
                self._cache.admitted(quota, _base(request))
        return verdict, quota

    def _view(self, request: ReviewRequest, fresh: FreshList | None, before: float = inf) -> QuotaView:
        return self._cache.view(request.namespace or "", self._mode, fresh, before)

    def _everything(self, request: ReviewRequest) -> FreshList | None:
        began = self._cache.now()
        listed = self._reads.ask(lambda live: live.everything(request.namespace or ""))
        return listed and replace(listed, began=began)

    def _has_stored_quota(self, namespace: str) -> bool:
        listed = self._reads.ask(lambda live: live.quotas(namespace))
        return listed is None or bool(listed.quotas)


def _base(request: ReviewRequest) -> str:
    """The resourceVersion that the request replaces, empty for a new object."""
    return identity_of(request.old_object).resource_version if request.has_old else ""


# Reviews that may wait at the same time; further ones are decided without provisional quotas.
WAITING: Final = 16
MOST_SECONDS: Final = 2.1

# The verdict by fresh lists and by the provisional quotas before a number (zero: without any).
JudgeBefore = Callable[[float], Verdict]


class ProvisionalQuotas:
    """Decides quotas that would be refused only because of provisional ones. Thread-safe.

    A provisional quota was admitted a moment ago and is not stored yet; it may never be. The quota at hand
    becomes provisional as well, so that later ones cannot overtake it. It is judged again once those before
    it are stored, or once they had the time to be; then quotas that nobody stored are dropped. `places` are
    for reviews that wait.
    """

    def __init__(self, cache: Cache, sleep: Callable[[float], object] = time.sleep) -> None:
        self._cache = cache
        self._sleep = sleep
        self.places = threading.Semaphore(WAITING)

    def decide(
        self, quota: ElasticQuota | ResourceQuota, base: str, judge: JudgeBefore, *, dry_run: bool
    ) -> Verdict:
        """The verdict on a quota that was refused beside all stored and provisional quotas."""
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
        if not self.places.acquire(blocking=False):
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
            self.places.release()
