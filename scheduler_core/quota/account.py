"""What one namespace uses, and how much of it counts in the sums over all quotas."""

from __future__ import annotations

from typing import NamedTuple

from scheduler_core.errors import MusterError
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList


class LedgerError(MusterError):
    """A charge or refund that contradicts the ledger: broken code, never bad input."""

    def __init__(self, namespace: str, uid: str, problem: str) -> None:
        self.namespace = namespace
        self.uid = uid
        self.problem = problem
        super().__init__(namespace, uid, problem)


class Share(NamedTuple):
    """What a quota adds to the sums over all quotas, of one resource.

    `used` is its use, no more than its max: what passed by the rules counts against its own quota only.
    `leaving`, `unplaced` and `both` are what of this ends with the pods on their way out, with what it holds
    above min for pods that have no node, and with both.
    """

    used: int
    leaving: int
    unplaced: int
    both: int


class Account:
    """What one namespace uses, and the quotas that claim it (oldest first).

    `leaving` and `unplaced` are the parts of `used` that are on their way out, and that are charged for pods
    without a node.
    """

    __slots__ = ("charges", "known", "leaving", "leaving_uids", "quotas", "unplaced", "unplaced_uids", "used")

    def __init__(self) -> None:
        self.charges: dict[str, ResourceList] = {}
        self.leaving: dict[str, int] = {}
        self.unplaced: dict[str, int] = {}
        # What was found out about use and quotas, until one of them changes.
        self.known: dict[tuple[str, bool], dict[str, int]] = {}
        self.leaving_uids: set[str] = set()
        self.unplaced_uids: set[str] = set()
        self.quotas: list[ElasticQuota] = []
        self.used: dict[str, int] = {}

    @property
    def quota(self) -> ElasticQuota | None:
        """The quota that binds."""
        return self.quotas[0] if self.quotas else None

    @property
    def plain(self) -> bool:
        """Whether all charged pods have a node and stay."""
        return not (self.leaving_uids or self.unplaced_uids)

    def share(self, quota: ElasticQuota, name: str) -> Share:
        """What its quota adds to the sums, of one resource."""
        used, stays = self.used.get(name, 0), self.used.get(name, 0) - self.leaving.get(name, 0)
        counted = self.counts(quota, name, used)
        return Share(
            counted,
            counted - self.counts(quota, name, stays),
            counted - self.counts(quota, name, used, guaranteed=True),
            counted - self.counts(quota, name, stays, guaranteed=True),
        )

    def counts(self, quota: ElasticQuota, name: str, used: int, *, guaranteed: bool = False) -> int:
        """What others count of a use of one resource; `guaranteed`: others that stay within their min."""
        found = min(used, quota.max.get(name, used))
        if not guaranteed:
            return found
        return min(found, max(used - self.unplaced.get(name, 0), quota.min.get(name, 0)))
