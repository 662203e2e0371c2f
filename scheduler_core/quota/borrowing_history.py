"""What quotas borrowed in the past, fading with a half-life (docs/fair-sharing.md#history).

The history h of a quota follows its share s: dh/dt = ln 2 / T * (s - h), so after a time t with a constant
share h becomes s + (h - s) * 2^(-t / T). What is guaranteed is nobody's favour: only what is borrowed counts,
from the moment at which the scheduler assumes a pod.

The share is constant between two changes of use. So value, time and share tell everything, and they are what
the status of a quota keeps: a restart and a change of leader lose nothing.
"""

from __future__ import annotations

import math
from typing import Final

from scheduler_core.model.quotas.elastic_quota import ElasticQuota, PastBorrowing
from scheduler_core.quota.fair_shares import ShareScale, borrows, scale_of
from scheduler_core.quota.ledger import QuotaLedger

# Histories are compared in thousandths: events of the same second must not decide about the order.
STEPS: Final = 1000
# The order is computed anew this many times per half-life.
_TICKS: Final = 1440


class BorrowingHistory:
    """The histories of all binding quotas, by namespace. `half_life` is T in seconds, more than 0."""

    def __init__(self, ledger: QuotaLedger, half_life: float) -> None:
        self._ledger = ledger
        self._half_life = half_life
        self._touched = ledger.follow()
        self._quotas_version = -1
        self._scale: ShareScale = scale_of(ledger)
        self._past: dict[str, PastBorrowing] = {}
        self._tick = -math.inf
        # Grows when time alone may have changed the order.
        self.version = 0

    def advance(self, now: float) -> None:
        """Take in the use of quotas as it is now."""
        step = max(1.0, self._half_life / _TICKS)
        if now >= self._tick + step:
            self._tick = now // step * step
            self.version += 1
        ledger = self._ledger
        if self._quotas_version != ledger.quotas_version:
            self._quotas_version = ledger.quotas_version
            self._scale = scale_of(ledger)
            names = {quota.namespace for quota in ledger.quotas()}
            self._past = {name: past for name, past in self._past.items() if name in names}
            self._touched |= names
        for namespace in self._touched:
            quota = ledger.quota_of(namespace)
            if quota is not None:
                share = self._share(quota)
                old = self._past.get(namespace) or quota.history
                if old is None or old.share != share or namespace not in self._past:
                    self._past[namespace] = PastBorrowing(self._faded(old, now), now, share)
        self._touched.clear()

    def past(self, namespace: str) -> PastBorrowing | None:
        """The history of a namespace at its last change of share, None if it has no quota."""
        return self._past.get(namespace)

    def value(self, namespace: str, now: float) -> float:
        """The history of a namespace at a time, 0 if it has no quota."""
        return self._faded(self._past.get(namespace), now)

    def steps(self, namespace: str) -> int:
        """The history as it counts in the order."""
        past = self._past.get(namespace)
        return round(self._faded(past, max(past.time, self._tick)) * STEPS) if past is not None else 0

    def _share(self, quota: ElasticQuota) -> float:
        share = self._scale.share(borrows(self._ledger, quota), quota.sharing.weight)
        return round(float(self._scale.fraction(share)), 6)

    def _faded(self, past: PastBorrowing | None, now: float) -> float:
        if past is None:
            return 0.0
        kept = 2.0 ** (-max(0.0, now - past.time) / self._half_life)
        return past.share + (past.value - past.share) * kept
