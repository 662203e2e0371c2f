"""The quota ledger: the only answer to what a namespace uses, and under which quota.

Every assigned, not finished pod is charged to its namespace, whether or not that namespace has a quota yet;
so a quota created, changed or deleted after its pods is right at once (reference rule 5). One quota binds per
namespace: the oldest, by creation time, then name (rule 6).

Plain dicts of exact integers: a check touches only the two or three resources that a pod names, which is
quicker than any array, and the command line needs no numpy.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler_core.errors import MusterError
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.names import PODS
from scheduler_core.model.resources import ResourceList


class LedgerError(MusterError):
    """A charge or refund that contradicts the ledger: broken code, never bad input."""

    def __init__(self, namespace: str, uid: str, problem: str) -> None:
        self.namespace = namespace
        self.uid = uid
        self.problem = problem
        super().__init__(namespace, uid, problem)


class _Account:
    """What one namespace uses, and the quotas that claim it (oldest first)."""

    __slots__ = ("charges", "known", "leaving", "leaving_uids", "quotas", "used")

    def __init__(self) -> None:
        self.charges: dict[str, ResourceList] = {}
        self.leaving: dict[str, int] = {}
        # What was found out about use and quotas, until one of them changes.
        self.known: dict[tuple[str, bool], dict[str, int]] = {}
        self.leaving_uids: set[str] = set()
        self.quotas: list[ElasticQuota] = []
        self.used: dict[str, int] = {}

    @property
    def quota(self) -> ElasticQuota | None:
        return self.quotas[0] if self.quotas else None


def charged(requests: ResourceList) -> dict[str, int]:
    """What a pod with these requests costs a quota: its requests, and one of `pods`."""
    return {**requests, PODS: 1}


class QuotaLedger:
    """Use per namespace, and the sums over all quotas that borrowing is bounded by.

    `total_used[r]` and `total_min[r]` run over namespaces that have a quota. A resource is in `total_min`
    exactly if some binding quota names it in `min`; others are outside the aggregate rule (rule 3).
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}
        self._min_named: dict[str, int] = {}
        self.total_used: dict[str, int] = {}
        self.total_min: dict[str, int] = {}
        self.total_leaving: dict[str, int] = {}
        self.version = 0

    # Quotas

    def put_quota(self, quota: ElasticQuota) -> None:
        """Add a quota or replace the one of the same namespace and name."""
        account = self._accounts.setdefault(quota.namespace, _Account())
        kept = [other for other in account.quotas if other.name != quota.name]
        self._rebind(account, sorted([*kept, quota], key=lambda item: item.age_order))

    def remove_quota(self, namespace: str, name: str) -> None:
        """Forget a quota; the next oldest binds, if there is one."""
        account = self._accounts.get(namespace)
        if account is not None:
            self._rebind(account, [other for other in account.quotas if other.name != name])

    def _rebind(self, account: _Account, quotas: list[ElasticQuota]) -> None:
        before, after = account.quota, quotas[0] if quotas else None
        if before is not None:
            self._count(before, account, -1)
        account.quotas = quotas
        if after is not None:
            self._count(after, account, +1)
        for other in self._accounts.values():
            other.known.clear()
        self.version += 1

    def _count(self, quota: ElasticQuota, account: _Account, sign: int) -> None:
        shift(self.total_used, account.used, sign)
        shift(self.total_leaving, account.leaving, sign)
        for name, value in quota.min.items():
            self.total_min[name] = self.total_min.get(name, 0) + sign * value
            self._min_named[name] = self._min_named.get(name, 0) + sign
            if not self._min_named[name]:
                del self._min_named[name], self.total_min[name]

    def quota_of(self, namespace: str) -> ElasticQuota | None:
        """The quota that binds in the namespace, or None."""
        account = self._accounts.get(namespace)
        return account.quota if account is not None else None

    def shadowed(self, namespace: str) -> list[ElasticQuota]:
        """Quotas of the namespace that do not bind because an older one does."""
        account = self._accounts.get(namespace)
        return account.quotas[1:] if account is not None else []

    def quotas(self) -> Iterator[ElasticQuota]:
        """All binding quotas, in the order in which their namespaces became known."""
        return (account.quota for account in self._accounts.values() if account.quota is not None)

    def known(self, quota: ElasticQuota) -> dict[tuple[str, bool], dict[str, int]]:
        """A place for what follows from a quota and the use of it; emptied when use or any quota changes.

        Kept for binding quotas only.
        """
        account = self._accounts.get(quota.namespace)
        return account.known if account is not None and account.quota is quota else {}

    # Charges

    def charge(self, namespace: str, uid: str, requests: ResourceList) -> None:
        """Count a pod. `requests` are its effective requests; raises LedgerError if it is charged already."""
        account = self._accounts.get(namespace)
        if account is None:
            account = self._accounts[namespace] = _Account()
        if uid in account.charges:
            raise LedgerError(namespace, uid, "is charged already")
        account.charges[uid] = requests
        self._move(account, requests, +1)

    def refund(self, namespace: str, uid: str) -> None:
        """Give a pod's charge back; raises LedgerError if it was never charged."""
        account = self._accounts.get(namespace)
        if account is None or uid not in account.charges:
            raise LedgerError(namespace, uid, "is not charged")
        self._leave(account, uid, -1)
        self._move(account, account.charges.pop(uid), -1)

    def mark_leaving(self, namespace: str, uid: str) -> None:
        """A charged pod is terminating or its eviction is decided: it counts until it is gone, and is known
        to go. Idempotent."""
        account = self._accounts.get(namespace)
        if account is not None and uid in account.charges:
            self._leave(account, uid, +1)

    def mark_staying(self, namespace: str, uid: str) -> None:
        """Undo `mark_leaving`: the pod was not evicted after all. Idempotent."""
        account = self._accounts.get(namespace)
        if account is not None and uid in account.charges:
            self._leave(account, uid, -1)

    def _leave(self, account: _Account, uid: str, sign: int) -> None:
        if (uid in account.leaving_uids) == (sign > 0):
            return
        amounts = charged(account.charges[uid])
        (account.leaving_uids.add if sign > 0 else account.leaving_uids.discard)(uid)
        shift(account.leaving, amounts, sign)
        account.known.clear()
        if account.quotas:
            shift(self.total_leaving, amounts, sign)

    def is_leaving(self, namespace: str, uid: str) -> bool:
        """Whether the pod counts and is on its way out."""
        account = self._accounts.get(namespace)
        return account is not None and uid in account.leaving_uids

    def leaving(self, namespace: str) -> ResourceList:
        """The part of `used` that pods hold which are on their way out. Read only."""
        account = self._accounts.get(namespace)
        return account.leaving if account is not None else {}

    def _move(self, account: _Account, requests: ResourceList, sign: int) -> None:
        total = self.total_used if account.quotas else None
        used = account.used
        # As `charged` has it, without making another dict for every pod.
        for name, value in requests.items():
            if value and name != PODS:
                used[name] = used.get(name, 0) + sign * value
                if total is not None:
                    total[name] = total.get(name, 0) + sign * value
        used[PODS] = used.get(PODS, 0) + sign
        if total is not None:
            total[PODS] = total.get(PODS, 0) + sign
        account.known.clear()
        self.version += 1

    def is_charged(self, namespace: str, uid: str) -> bool:
        """Whether the pod counts in its namespace."""
        account = self._accounts.get(namespace)
        return account is not None and uid in account.charges

    def used(self, namespace: str) -> ResourceList:
        """What the charged pods of a namespace use, per resource. Read only; resources at 0 may be absent."""
        account = self._accounts.get(namespace)
        return account.used if account is not None else {}

    def charges(self, namespace: str) -> dict[str, ResourceList]:
        """The charged pods of a namespace by uid. Read only."""
        account = self._accounts.get(namespace)
        return account.charges if account is not None else {}

    def status_used(self, quota: ElasticQuota) -> dict[str, int]:
        """`status.used` of a quota: use of every resource named in min or max, zeros included (rule 18)."""
        used = self.used(quota.namespace)
        return {name: used.get(name, 0) for name in sorted({*quota.min, *quota.max})}

    def check(self) -> list[str]:
        """Every broken invariant in words: sums equal their parts, nothing is negative."""
        problems: list[str] = []
        total: dict[str, int] = {}
        leaving: dict[str, int] = {}
        for namespace, account in self._accounts.items():
            fresh: dict[str, int] = {}
            for requests in account.charges.values():
                for name, value in charged(requests).items():
                    fresh[name] = fresh.get(name, 0) + value
            if not _equal(fresh, account.used):
                problems.append(f"used of {namespace} is {account.used}, its pods sum to {fresh}")
            gone: dict[str, int] = {}
            for uid in account.leaving_uids:
                shift(gone, charged(account.charges[uid]), 1)
            if not _equal(gone, account.leaving):
                problems.append(f"leaving of {namespace} is {account.leaving}, its pods sum to {gone}")
            if account.quotas:
                shift(total, fresh, 1)
                shift(leaving, gone, 1)
        if not _equal(leaving, self.total_leaving):
            problems.append(f"total leaving is {self.total_leaving}, the quotas sum to {leaving}")
        if not _equal(total, self.total_used):
            problems.append(f"total used is {self.total_used}, the quotas sum to {total}")
        minimum: dict[str, int] = {}
        for quota in self.quotas():
            for name, value in quota.min.items():
                minimum[name] = minimum.get(name, 0) + value
        if minimum != self.total_min:
            problems.append(f"total min is {self.total_min}, the quotas sum to {minimum}")
        return problems


def shift(totals: dict[str, int], amounts: ResourceList, sign: int = 1) -> None:
    """Add amounts to totals in place, or take them away with a sign of -1."""
    for name, value in amounts.items():
        totals[name] = totals.get(name, 0) + sign * value


def _equal(left: ResourceList, right: ResourceList) -> bool:
    return all(left.get(name, 0) == right.get(name, 0) for name in {*left, *right})
