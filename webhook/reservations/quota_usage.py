"""Computes the use of an ElasticQuota by a namespace, for pods of other schedulers and for resizes.

Counted are pods with a node, pods that another scheduler may bind at any moment, and charges that are not
visible yet. The rules are those of the scheduler: `scheduler_core.quota.policy.admit` on a QuotaLedger.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import msgspec

from scheduler_core.kube.watch.reading import is_older
from scheduler_core.model.names import PODS
from scheduler_core.model.pods.charging import counts_in_quota
from scheduler_core.model.pods.use import PodUse
from scheduler_core.model.quotas.reservation_ledger import Charge, ReservationLedger
from scheduler_core.model.resources import ResourceList, maximum
from scheduler_core.quota.ledger import QuotaLedger, charged
from scheduler_core.quota.policy import Refusal, admit
from webhook.reservations.quota_standing import QuotaStanding

# Stands for all other quotas together; not a valid name of a namespace.
OTHERS: Final = ""


def counts(pod: PodUse, ours: frozenset[str]) -> bool:
    """Whether a pod counts in its quota: it has a node, or another scheduler may bind it (not in `ours`)."""
    return counts_in_quota(node=pod.node, charged=pod.charged or pod.scheduler not in ours, phase=pod.phase)


class NamespaceUse:
    """The use of one namespace by pods and charges; for a pod with a charge, the larger of both.

    `where` is None without a quota: then everything is admitted.
    """

    def __init__(
        self,
        where: QuotaStanding | None,
        pods: Mapping[str, PodUse],
        charges: Iterable[Charge],
        ours: frozenset[str],
    ) -> None:
        self.charges: dict[str, Charge] = {}
        self._where = where
        self._pods = pods
        self._ours = ours
        self._ledger = QuotaLedger()
        self._namespace = where.quota.namespace if where is not None else OTHERS
        if where is None:
            self.charges = {charge.uid: charge for charge in charges}
            return
        for uid, pod in pods.items():
            if counts(pod, ours):
                self._ledger.charge(self._namespace, uid, pod.usage)
        for charge in charges:
            self.enter(charge)
        self._count_others(where)

    def _count_others(self, where: QuotaStanding) -> None:
        self._ledger.charge(OTHERS, OTHERS, where.others_used)
        # The ledger counts pods itself, and took the charge above for one pod.
        self._ledger.total_used[PODS] = where.others_used.get(PODS, 0) - 1

    def judge(self, charge: Charge, names: Collection[str]) -> Refusal | None:
        """The refusal of a charge, judged in the resources `names` alone, or None.

        For a pod that counts already only the difference is requested.
        """
        if self._where is None:
            return None
        quota = self._where.quota
        mine = msgspec.structs.replace(quota, min=_of(quota.min, names), max=_of(quota.max, names))
        self._ledger.put_quota(mine)
        self._ledger.put_quota(
            msgspec.structs.replace(
                quota, namespace=OTHERS, name=OTHERS, min=_of(self._where.others_min, names), max={}
            )
        )
        before = self._used(charge.uid)
        asked = {name: charge.usage.get(name, 0) - before.get(name, 0) for name in names if name != PODS}
        refused = admit(self._ledger, quota.namespace, asked)
        if refused is not None and refused.rule == "max":
            return refused
        return self._beyond_group(charged(asked), names) or refused

    def _beyond_group(self, asked: ResourceList, names: Collection[str]) -> Refusal | None:
        """The refusal of the nearest group above the quota whose max the namespace would exceed."""
        assert self._where is not None
        used, quota = self._ledger.used(self._namespace), self._where.quota
        for group in self._where.groups:
            for name in sorted(names & group.max.keys() & asked.keys()):
                in_use, limit = used.get(name, 0) + group.others_used.get(name, 0), group.max[name]
                if asked[name] > 0 and in_use + asked[name] > limit:
                    return Refusal(
                        quota.key, "group max", name, in_use, 0, asked[name], limit, group=group.name
                    )
        return None

    def enter(self, charge: Charge) -> None:
        """Count a charge."""
        pod = self._pods.get(charge.uid)
        known = self.charges.get(charge.uid)
        usage = maximum(known.usage, charge.usage) if known is not None else charge.usage
        self.charges[charge.uid] = msgspec.structs.replace(charge, usage=usage)
        if pod is None or not pod.finished:
            self._recount(charge.uid, maximum(self._used(charge.uid), usage))

    def leave(self, uid: str) -> None:
        """Remove a charge; the use of its pod still counts."""
        self.charges.pop(uid, None)
        pod = self._pods.get(uid)
        self._recount(uid, pod.usage if pod is not None and counts(pod, self._ours) else None)

    def _used(self, uid: str) -> ResourceList:
        return self._ledger.charges(self._namespace).get(uid, {})

    def _recount(self, uid: str, usage: ResourceList | None) -> None:
        if self._ledger.is_charged(self._namespace, uid):
            self._ledger.refund(self._namespace, uid)
        if usage is not None:
            self._ledger.charge(self._namespace, uid, usage)


def risen(use: PodUse, before: PodUse | None) -> frozenset[str]:
    """The resources that a pod requests more of than before; all of them if it is new."""
    if before is None:
        return frozenset(use.usage)
    return frozenset(name for name, value in use.usage.items() if value > before.usage.get(name, 0))


def settled(
    ledger: ReservationLedger,
    pods: Mapping[str, PodUse],
    gone: Iterable[str] = (),
    overdue: Iterable[str] = (),
) -> ReservationLedger:
    """The ledger without charges whose pods are visible, deleted (`gone`), or `overdue`.

    Overdue charges were in the ledger for the whole time-out.
    """
    dropped = {*gone, *overdue}
    kept, version = [], ledger.pods_version
    for charge in ledger.charges:
        pod = pods.get(charge.uid)
        if pod is not None and _shown(charge, pod):
            version = pod.resource_version if is_older(version, pod.resource_version) else version
        elif charge.uid not in dropped:
            kept.append(charge)
    return msgspec.structs.replace(ledger, charges=tuple(kept), pods_version=version)


def _shown(charge: Charge, pod: PodUse) -> bool:
    return pod.finished or all(value <= pod.usage.get(name, 0) for name, value in charge.usage.items())


def _of(amounts: ResourceList, names: Collection[str]) -> dict[str, int]:
    return {name: value for name, value in amounts.items() if name in names}
