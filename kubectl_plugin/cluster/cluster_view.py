"""The quotas, pods, ResourceQuotas and reservations behind `elasticquota get`, updated object by object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubectl_plugin.cluster.node_flavors import named_kinds
from kubectl_plugin.cluster.nominated_nodes import NominationView
from kubectl_plugin.cluster.quota_rows import QuotaRow, known_part, rows_of, smallest_hard
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.quotas.reservation_ledger import ELASTIC_NAME, ReservationLedger
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.entitled import entitled, shares_by_resource
from scheduler_core.quota.fair_shares import scale_of
from scheduler_core.quota.flavors import NONE, OnNode, charged_on
from scheduler_core.quota.ledger import QuotaLedger, charged, shift
from scheduler_core.quota.lending import shares, with_loans


class ClusterView:
    """The quota ledger, pods without a node, ResourceQuotas, reservations and nominations.

    Pods are identified by namespace and name: a pod that replaces another one of its name is charged once.
    """

    def __init__(self) -> None:
        self.ledger = QuotaLedger()
        self.nominations = NominationView()
        # The flavors of the nodes that have some; set before the pods are put.
        self.node_flavors: Mapping[str, OnNode] = {}
        # Kinds, by plural name, that were not read: figures that need them are not known.
        self.unread: frozenset[str] = frozenset()
        self._waiting = RequestSums()
        # Those that wait for a node and that the ledger does not count.
        self._asking = RequestSums()
        self._natives: dict[str, dict[str, ResourceQuota]] = {}
        self._held: dict[str, ResourceList] = {}

    def put_quota(self, quota: ElasticQuota) -> None:
        """Add or replace a quota."""
        self.ledger.put_quota(quota)

    def remove_quota(self, namespace: str, name: str) -> None:
        """Remove a quota."""
        self.ledger.remove_quota(namespace, name)

    def limits(self) -> list[ElasticQuota | QuotaGroup]:
        """The quotas that bind, and the groups above them."""
        return [*self.ledger.quotas(), *self.ledger.tree.groups.values()]

    def hidden(self) -> frozenset[str]:
        """The kinds, by plural name, that quotas and groups name objects of and that were not read."""
        return self.unread & named_kinds(self.limits()) if self.unread else frozenset()

    def put_pod(self, pod: Pod) -> None:
        """Add or replace a pod: charged if it counts, pending if it has no node and is not finished."""
        self.remove_pod(pod.namespace, pod.name)
        self.nominations.put_pod(pod)
        if pod.counts:
            charge = charged_on(pod.requests, self.node_flavors.get(pod.node_name, NONE))
            self.ledger.charge(pod.namespace, pod.name, charge, placed=pod.assigned)
        if not (pod.assigned or pod.finished):
            requests = charged(pod.requests)
            self._waiting.put(pod.namespace, pod.name, requests)
            # Pods with scheduling gates do not ask yet, and pods that are being deleted no more.
            if not (pod.gates or pod.terminating or pod.counts):
                self._asking.put(pod.namespace, pod.name, requests)

    def remove_pod(self, namespace: str, name: str) -> None:
        """Remove a pod; an unknown pod is ignored."""
        self._waiting.remove(namespace, name)
        self._asking.remove(namespace, name)
        self.nominations.remove_pod(namespace, name)
        if self.ledger.is_charged(namespace, name):
            self.ledger.refund(namespace, name)

    def put_native(self, native: ResourceQuota) -> None:
        """Add or replace a ResourceQuota."""
        self._natives.setdefault(native.namespace, {})[native.name] = native

    def remove_native(self, namespace: str, name: str) -> None:
        """Remove a ResourceQuota."""
        self._natives.get(namespace, {}).pop(name, None)

    def put_ledger(self, ledger: ReservationLedger) -> None:
        """Set the reservations of a namespace. The ledger `elastic` is ignored."""
        if ledger.name != ELASTIC_NAME:
            self._held[ledger.namespace] = ledger.held

    def remove_ledger(self, namespace: str, name: str) -> None:
        """Clear the reservations of a namespace. The ledger `elastic` is ignored."""
        if name != ELASTIC_NAME:
            self._held.pop(namespace, None)

    def natives(self, namespace: str) -> list[ResourceQuota]:
        """The ResourceQuotas of a namespace."""
        return list(self._natives.get(namespace, {}).values())

    def pending(self, namespace: str) -> dict[str, int]:
        """Sum of the requests of a namespace's pods without a node, per resource."""
        return dict(self._waiting.of(namespace))

    def asked(self) -> Mapping[str, ResourceList]:
        """By namespace, the requests of the pods that wait for a node and that the ledger does not count."""
        return self._asking.sums

    def rows(
        self,
        quotas: Iterable[ElasticQuota],
        *,
        whole: bool,
        natives: bool,
        wide: bool,
        ledgers: bool = False,
    ) -> list[QuotaRow]:
        """The table rows of the given quotas.

        `whole`: the view holds all quotas and pods of the cluster; `natives`: it holds the ResourceQuotas;
        `ledgers`: it holds the reservations.
        """
        chosen, hidden = list(quotas), self.hidden()
        names = {*self.ledger.total_min, *(name for quota in chosen for name in quota.max)}
        # RECLAIMABLE needs every loan, one per lender and borrower; LENT needs only sums.
        found = shares(self.ledger, names) if whole else None
        lent = {name: item.lent for name, item in found.items()} if found is not None else None
        reclaimable = (
            {name: with_loans(name, item).reclaimable for name, item in found.items()}
            if found is not None and wide
            else None
        )
        scale = scale_of(self.ledger) if whole and wide else None
        rights = entitled(self.ledger, self.asked()) if whole and wide else None
        return [
            known_part(row, hidden)
            for quota in chosen
            for row in rows_of(
                quota,
                self.ledger,
                hard=smallest_hard(self.natives(quota.namespace)) if natives else None,
                pending=self.pending(quota.namespace),
                nominated=self.nominations.of(quota.namespace) if wide else (),
                holds=self.nominations.held(quota.namespace) if wide else (),
                lent=lent,
                reclaimable=reclaimable,
                reserved=self._held.get(quota.namespace, {}) if ledgers else None,
                shares=shares_by_resource(self.ledger, scale, quota) if scale is not None else None,
                entitled=rights,
            )
        ]


class RequestSums:
    """Sums of the requests of some pods, by namespace; each costs what it changes."""

    def __init__(self) -> None:
        self.sums: dict[str, dict[str, int]] = {}
        self._pods: dict[str, dict[str, ResourceList]] = {}

    def of(self, namespace: str) -> ResourceList:
        """The sum of a namespace, per resource. To be read only."""
        return self.sums.get(namespace, {})

    def put(self, namespace: str, name: str, requests: ResourceList) -> None:
        """Add a pod that is not there."""
        self._pods.setdefault(namespace, {})[name] = requests
        shift(self.sums.setdefault(namespace, {}), requests)

    def remove(self, namespace: str, name: str) -> None:
        """Remove a pod, if it is there."""
        requests = self._pods.get(namespace, {}).pop(name, None)
        if requests is None:
            return
        sums = self.sums[namespace]
        shift(sums, requests, -1)
        if not self._pods[namespace]:
            del self._pods[namespace], self.sums[namespace]
