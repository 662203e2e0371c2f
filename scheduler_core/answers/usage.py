"""Tells who uses the quota of a namespace, which part of the use is borrowed, from whom, and since when.

A quota borrows as a whole; which of its pods borrow follows from the order in which the scheduler takes pods
back (docs/quota.md#preemption): those that terminate, then the lowest priority, then the latest start; pods
that count without a node come last, as they cannot be evicted. The pods at the front of this order carry what
the quota uses above its min.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Literal

import msgspec

from scheduler_core.model.meta import ApiObject, OwnerReference, Raw, decode
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.ledger import QuotaLedger, charged
from scheduler_core.quota.lending import balance
from scheduler_core.quota.policy import borrowed, relevant

By = Literal["pod", "owner", "user", "node"]
WAYS: Final[tuple[By, ...]] = ("pod", "owner", "user", "node")
# What a row is named where a pod has no node, or nothing says who made it.
UNKNOWN: Final = "?"
# Labels and annotations in which tools record who made a pod, the first that is set counts.
USER_KEYS: Final = ("hub.jupyter.org/username", "app.kubernetes.io/created-by", "username", "user")
_SERVICE_ACCOUNT: Final = "serviceaccount:"


class Lender(msgspec.Struct, frozen=True):
    """An amount that another namespace lends."""

    namespace: str
    amount: int


class QuotaUse(msgspec.Struct, frozen=True):
    """The use of one resource by one quota.

    `since`: the quota has borrowed at least since then (seconds since the epoch), None if it does not borrow
    or no pod says when it started. `lenders` is None where not all quotas are known.
    """

    namespace: str
    quota: str
    resource: str
    used: int
    min: int
    borrowed: int
    since: float | None
    lenders: tuple[Lender, ...] | None


class UsageRow(msgspec.Struct, frozen=True):
    """The use of one resource by one pod, owner, user or node, within one quota.

    `since` is the latest of the time since which the quota borrows and the first start of the pods of this
    row that borrow.
    """

    use: QuotaUse
    name: str
    used: int
    borrowed: int
    since: float | None
    pods: tuple[str, ...]


class ChargedPod(msgspec.Struct, frozen=True):
    """A pod that counts in its quota, with its top-most known owner and the user that made it."""

    pod: Pod
    owner: str
    user: str

    @property
    def started(self) -> float:
        """Start of the pod, or its creation; 0 if neither is known."""
        return self.pod.start_time or self.pod.created

    @property
    def removal_order(self) -> tuple[bool, bool, int, float, str]:
        """Sort key: the pods that the scheduler takes back first come first."""
        pod = self.pod
        return (not pod.assigned, not pod.terminating, pod.priority, -self.started, pod.name)

    def name_by(self, by: By) -> str:
        """What the pod is grouped under."""
        return {
            "pod": self.pod.name,
            "owner": self.owner,
            "user": self.user,
            "node": self.pod.node_name or UNKNOWN,
        }[by]


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    service_account_name: str = ""


class _PodWire(ApiObject, frozen=True, rename="camel"):
    spec: _Spec = _Spec()


def user_of(raw: Raw) -> str:
    """Who made a pod, as far as the pod says so: see USER_KEYS; else its ServiceAccount; else UNKNOWN.

    A ServiceAccount named `default` says nothing. Kubernetes records no user in an object. Raises ModelError.
    """
    wire = decode(raw, _PodWire, "Pod")
    for found in (wire.metadata.annotations or {}, wire.metadata.labels or {}):
        for key in USER_KEYS:
            if found.get(key):
                return found[key]
    account = wire.spec.service_account_name
    return f"{_SERVICE_ACCOUNT}{account}" if account not in ("", "default") else UNKNOWN


def owner_of(pod: Pod, parents: Mapping[str, OwnerReference]) -> str:
    """`Kind/name` of the top-most known controller of a pod; the pod itself if it has none.

    `parents` are the controllers of controllers, by the uid of the controlled.
    """
    top = pod.controller
    if top is None:
        return f"Pod/{pod.name}"
    seen = {top.uid}
    while (above := parents.get(top.uid)) is not None and above.uid not in seen:
        seen.add(above.uid)
        top = above
    return f"{top.kind}/{top.name}"


def quota_uses(ledger: QuotaLedger, pods: Iterable[ChargedPod], *, whole: bool) -> list[QuotaUse]:
    """The use of each resource that matters for each binding quota, by namespace and resource.

    `whole`: the ledger has all quotas and pods of the cluster, so that lenders are known.
    """
    by_namespace: dict[str, list[ChargedPod]] = {}
    for item in pods:
        by_namespace.setdefault(item.pod.namespace, []).append(item)
    found = []
    lenders: dict[str, dict[str, list[Lender]]] = {}
    for quota in sorted(ledger.quotas(), key=lambda quota: quota.namespace):
        own = by_namespace.get(quota.namespace, [])
        over = borrowed(ledger, quota)
        for resource in sorted(relevant(ledger, quota)):
            if resource not in lenders and whole and resource in over:
                lenders[resource] = _lenders(ledger, resource)
            found.append(
                QuotaUse(
                    quota.namespace,
                    quota.name,
                    resource,
                    ledger.used(quota.namespace).get(resource, 0),
                    quota.min.get(resource, 0),
                    over.get(resource, 0),
                    _since(quota, resource, own) if resource in over else None,
                    tuple(lenders.get(resource, {}).get(quota.namespace, ())) if whole else None,
                )
            )
    return found


def _lenders(ledger: QuotaLedger, resource: str) -> dict[str, list[Lender]]:
    """The lenders of each borrower of one resource, the largest first."""
    found: dict[str, list[Lender]] = {}
    for loan in sorted(balance(ledger, resource).loans, key=lambda loan: (-loan.amount, loan.lender)):
        found.setdefault(loan.borrower, []).append(Lender(loan.lender, loan.amount))
    return found


def _since(quota: ElasticQuota, resource: str, pods: Sequence[ChargedPod]) -> float | None:
    """When the pods that are still there began to use more than min; pods that have ended are not known."""
    left = quota.min.get(resource, 0)
    for item in sorted(pods, key=lambda item: item.started):
        left -= charged(item.pod.requests).get(resource, 0)
        if left < 0:
            return item.started or None
    return None


def usage_rows(uses: Iterable[QuotaUse], pods: Iterable[ChargedPod], by: By) -> Iterator[UsageRow]:
    """One row per quota, resource and what uses it; what borrows most comes first, then what uses most."""
    by_namespace: dict[str, list[ChargedPod]] = {}
    for item in sorted(pods, key=lambda item: item.removal_order):
        by_namespace.setdefault(item.pod.namespace, []).append(item)
    for use in uses:
        rows = _rows(use, by_namespace.get(use.namespace, ()), by)
        yield from sorted(rows, key=lambda row: (-row.borrowed, -row.used, row.name))


def _rows(use: QuotaUse, pods: Iterable[ChargedPod], by: By) -> list[UsageRow]:
    """The rows of one quota and resource. `pods` are in the order in which they are taken back."""
    left = use.borrowed
    parts: dict[str, list[tuple[ChargedPod, int, int]]] = {}
    for item in pods:
        amount = charged(item.pod.requests).get(use.resource, 0)
        if not amount:
            continue
        over = min(left, amount)
        left -= over
        parts.setdefault(item.name_by(by), []).append((item, amount, over))
    return [
        UsageRow(
            use,
            name,
            sum(amount for _, amount, _ in found),
            sum(over for _, _, over in found),
            _row_since(use, [item for item, _, over in found if over]),
            tuple(sorted(item.pod.name for item, _, _ in found)),
        )
        for name, found in parts.items()
    ]


def _row_since(use: QuotaUse, borrowing: Sequence[ChargedPod]) -> float | None:
    starts = [item.started for item in borrowing if item.started]
    if not starts or use.since is None:
        return None
    return max(use.since, min(starts))
