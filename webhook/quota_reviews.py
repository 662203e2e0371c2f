"""Reviews of ElasticQuotas and ResourceQuotas: what is asked of the API server, what is remembered of them.

- On creation the namespace's quotas are listed, so that two creations one after the other, answered by
  different replicas, are judged right whatever the lag of the watch.
- Nothing is refused for what other objects say before those were read anew.

Two creations at the same instant through different replicas cannot be told apart by any read, because
admission comes before storage. Nothing breaks then: the older quota binds, and the status of the other says
so. Within one replica they are told apart by what was just admitted (`pending`).
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Final

from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.meta import identity_of
from scheduler_core.model.resource_quota import ResourceQuota
from webhook.cache import Cache, Fresh
from webhook.quota_doubt import QuotaDoubts
from webhook.quotas import QuotaView, SumMode, change_resource_quota, create_quota, delete_quota, update_quota
from webhook.reads import Reads
from webhook.review import Request
from webhook.verdict import ALLOW, Verdict

_RESTS_ON_OTHERS: Final = frozenset({"hard", "single", "capacity"})

Judge = Callable[[QuotaView], tuple[Verdict, ElasticQuota | ResourceQuota | None]]


class QuotaReviews:
    """Decides about quotas, by the cache and by what can be read. Thread-safe."""

    def __init__(self, cache: Cache, mode: SumMode, reads: Reads) -> None:
        self._cache = cache
        self._mode: SumMode = mode
        self._reads = reads
        self._doubts = QuotaDoubts(cache)
        cache.is_stored = self._has_stored_quota

    def elastic(self, request: Request) -> Verdict:
        """Judge a change of an ElasticQuota."""
        if request.operation == "CREATE":
            listed = self._reads.ask(lambda live: live.quotas(request.namespace or ""))
            return self._decide(request, lambda view: create_quota(request.object, view), listed)
        if request.operation == "UPDATE":
            return self._decide(request, lambda view: update_quota(request.object, request.old_object, view))
        return self._decide(request, lambda view: (delete_quota(request.old_object, view), None))

    def native(self, request: Request) -> Verdict:
        """Judge a change of a ResourceQuota."""
        if request.operation == "DELETE":
            return ALLOW
        old = request.old_object if request.operation == "UPDATE" else None
        return self._decide(request, lambda view: change_resource_quota(request.object, old, view.siblings))

    def _decide(self, request: Request, judge: Judge, fresh: Fresh | None = None) -> Verdict:
        """Judge by memory; before a refusal that rests on other objects, by what the server lists now.

        And none rests on what was only admitted, a moment ago, and never appears.
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

        return self._doubts.decide(quota, _base(request), judge_before, dry_run=bool(request.dry_run))

    def _judge(
        self, request: Request, judge: Judge, fresh: Fresh | None
    ) -> tuple[Verdict, ElasticQuota | ResourceQuota | None]:
        with self._cache.lock:
            verdict, quota = judge(self._view(request, fresh))
            if verdict.allowed and quota is not None and not request.dry_run:
                self._cache.admitted(quota, _base(request))
        return verdict, quota

    def _view(self, request: Request, fresh: Fresh | None, before: float = inf) -> QuotaView:
        return self._cache.view(request.namespace or "", self._mode, fresh, before)

    def _everything(self, request: Request) -> Fresh | None:
        return self._reads.ask(lambda live: live.everything(request.namespace or ""))

    def _has_stored_quota(self, namespace: str) -> bool:
        listed = self._reads.ask(lambda live: live.quotas(namespace))
        return listed is None or bool(listed.quotas)


def _base(request: Request) -> str:
    """The resourceVersion that the request replaces, empty for a new object."""
    return identity_of(request.old_object).resource_version if request.has_old else ""
