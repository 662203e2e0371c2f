"""Quotas, pods, native quotas and reservations as far as `get` needs them, kept current object by object."""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_plugin.figures import Figures, figures, smallest_hard
from kubectl_plugin.kept_nodes import KeptView
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.pod import Pod
from scheduler_core.model.reservation_ledger import ELASTIC_NAME, ReservationLedger
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger, charged
from scheduler_core.quota.lending import balance, shares


class ClusterView:
    """The ledger, and beside it what it does not hold: pods that wait, and `hard` of native quotas.

    Pods are known by `namespace/name`: a pod that was replaced under its name is charged once.
    """

    def __init__(self) -> None:
        self.ledger = QuotaLedger()
        self.kept = KeptView()
        self._waiting: dict[str, dict[str, ResourceList]] = {}
        self._natives: dict[str, dict[str, ResourceQuota]] = {}
        self._held: dict[str, ResourceList] = {}

    def put_quota(self, quota: ElasticQuota) -> None:
        """A quota exists in this version."""
        self.ledger.put_quota(quota)

    def remove_quota(self, namespace: str, name: str) -> None:
        """A quota is gone."""
        self.ledger.remove_quota(namespace, name)

    def put_pod(self, pod: Pod) -> None:
        """A pod exists: charged if it counts, pending as well if it has no node yet and is not finished."""
        self.remove_pod(pod.namespace, pod.name)
        self.kept.put_pod(pod)
        if pod.counts:
            self.ledger.charge(pod.namespace, pod.name, pod.requests, placed=pod.assigned)
        if not (pod.assigned or pod.finished):
            self._waiting.setdefault(pod.namespace, {})[pod.name] = charged(pod.requests)

    def remove_pod(self, namespace: str, name: str) -> None:
        """A pod is gone; unknown ones are ignored."""
        self._waiting.get(namespace, {}).pop(name, None)
        self.kept.remove_pod(namespace, name)
        if self.ledger.is_charged(namespace, name):
            self.ledger.refund(namespace, name)

    def put_native(self, native: ResourceQuota) -> None:
        """A ResourceQuota exists in this version."""
        self._natives.setdefault(native.namespace, {})[native.name] = native

    def remove_native(self, namespace: str, name: str) -> None:
        """A ResourceQuota is gone."""
        self._natives.get(namespace, {}).pop(name, None)

    def put_ledger(self, ledger: ReservationLedger) -> None:
        """The reservations of a namespace are these; ledgers of other things say nothing here."""
        if ledger.name != ELASTIC_NAME:
            self._held[ledger.namespace] = ledger.held

    def remove_ledger(self, namespace: str, name: str) -> None:
        """Nothing is reserved in the namespace any more, if that was the ledger of reservations."""
        if name != ELASTIC_NAME:
            self._held.pop(namespace, None)

    def natives(self, namespace: str) -> list[ResourceQuota]:
        """The ResourceQuotas of a namespace."""
        return list(self._natives.get(namespace, {}).values())

    def pending(self, namespace: str) -> dict[str, int]:
        """What the pods of a namespace that have no node ask for."""
        total: dict[str, int] = {}
        for requests in self._waiting.get(namespace, {}).values():
            for name, value in requests.items():
                total[name] = total.get(name, 0) + value
        return total

    def rows(
        self,
        quotas: Iterable[ElasticQuota],
        *,
        whole: bool,
        natives: bool,
        wide: bool,
        ledgers: bool = False,
    ) -> list[Figures]:
        """Figures of the given quotas.

        `whole`: the view holds all quotas and pods of the cluster; `natives`: it holds the ResourceQuotas;
        `ledgers`: it holds the reservations.
        """
        chosen = list(quotas)
        names = {*self.ledger.total_min, *(name for quota in chosen for name in quota.max)}
        # Loans are a row per lender and borrower; without RECLAIMABLE a table of many quotas needs only sums.
        lent = {name: item.lent for name, item in shares(self.ledger, names).items()} if whole else None
        reclaimable = (
            {name: balance(self.ledger, name).reclaimable for name in names} if whole and wide else None
        )
        return [
            row
            for quota in chosen
            for row in figures(
                quota,
                self.ledger,
                hard=smallest_hard(self.natives(quota.namespace)) if natives else None,
                pending=self.pending(quota.namespace),
                keepers=self.kept.of(quota.namespace) if wide else (),
                lent=lent,
                reclaimable=reclaimable,
                reserved=self._held.get(quota.namespace, {}) if ledgers else None,
            )
        ]
