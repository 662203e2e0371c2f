"""Changes of quota rows for `kubectl elasticquota get --watch`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.pods import pod_reader
from kubectl_plugin.cluster.quota_rows import QuotaRow
from kubectl_plugin.cluster.quota_snapshot import ObjectSelection, QuotaSnapshot
from kubectl_plugin.cluster.reading import UNFINISHED, ListScope, is_listed
from kubectl_plugin.cluster.reflectors import FeedEvent, Reflectors, scope_of
from scheduler_core.kube.client import Client
from scheduler_core.model.groups.gang import Gang, dialect_of
from scheduler_core.model.groups.kinds import TOLD_POD_GROUP_KINDS
from scheduler_core.model.kinds import (
    ELASTIC_QUOTAS,
    PODS,
    QUOTA_GROUPS,
    RESERVATION_LEDGERS,
    RESOURCE_QUOTAS,
    Resource,
)
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.model.quotas.reservation_ledger import ReservationLedger, parse_reservation_ledger
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota.flavors import OnNode

NO_FLAVORS: Final[Mapping[str, OnNode]] = {}
Row = tuple[QuotaRow, dict[str, str]]
"""A row, and the labels of its quota."""


class WatchedQuotas:
    """A view that events update, and the rows that were printed last."""

    def __init__(
        self,
        *,
        whole: bool,
        natives: bool,
        wide: bool,
        ledgers: bool = False,
        flavors: Mapping[str, OnNode] = NO_FLAVORS,
        unread: frozenset[str] = frozenset(),
    ) -> None:
        self._view = ClusterView()
        self._view.unread = unread
        self._view.node_flavors = flavors
        self._chosen: dict[tuple[str, str], ElasticQuota] = {}
        self._printed: dict[tuple[str, str, str], Row] = {}
        self._whole = whole
        self._natives = natives
        self._wide = wide
        self._ledgers = ledgers

    def apply(self, batch: list[FeedEvent]) -> list[Row]:
        """Apply events. Returns the rows that changed since they were printed, and rows of deleted quotas."""
        gone: list[Row] = []
        for change in batch:
            if change.feed == "chosen" and change.event.type == "DELETED":
                self._chosen.pop(change.key, None)
                gone += self._forget(change.key)
            self._apply(change)
        return gone + self._changed_rows()

    def _forget(self, quota_key: tuple[str, str]) -> list[Row]:
        keys = [key for key in self._printed if key[:2] == quota_key]
        return [self._printed.pop(key) for key in keys]

    def _changed_rows(self) -> list[Row]:
        fresh = []
        quotas = [self._chosen[quota_key] for quota_key in sorted(self._chosen)]
        rows = self._view.rows(
            quotas, whole=self._whole, natives=self._natives, wide=self._wide, ledgers=self._ledgers
        )
        for figures in rows:
            row = figures, self._chosen[figures.namespace, figures.name].labels
            key = (figures.namespace, figures.name, figures.resource)
            if self._printed.get(key) != row:
                self._printed[key] = row
                fresh.append(row)
        return fresh

    def _apply(self, change: FeedEvent) -> None:
        view, quota_key = self._view, change.key
        match change.event.obj:
            case ElasticQuota() as quota if change.feed == "chosen":
                self._chosen[quota_key] = quota
            case ElasticQuota() as quota:
                view.put_quota(quota)
            case Pod() as pod:
                view.put_pod(pod)
            case ResourceQuota() as native:
                view.put_native(native)
            case ReservationLedger() as ledger:
                view.put_ledger(ledger)
            case Gang() as gang:
                view.nominations.put_group(gang)
            case QuotaGroup() as group:
                view.ledger.put_group(group)
            case None if change.event.type == "DELETED":
                self._remove(change.feed, change.event.resource, *quota_key)

    def _remove(self, feed: str, resource: Resource, namespace: str, name: str) -> None:
        if (dialect := dialect_of(resource)) is not None:
            self._view.nominations.remove_group(dialect, namespace, name)
        elif feed == "quotas":
            self._view.remove_quota(namespace, name)
        elif feed == "trees":
            self._view.ledger.remove_group(name)
        elif feed == "pods":
            self._view.remove_pod(namespace, name)
        elif feed == "natives":
            self._view.remove_native(namespace, name)
        elif feed == "ledgers":
            self._view.remove_ledger(namespace, name)


def changed_rows(
    client: Client,
    selection: ObjectSelection,
    snapshot: QuotaSnapshot,
    *,
    wide: bool,
    note: Callable[[str], None],
) -> Iterator[list[Row]]:
    """Rows in batches, without end: first all of them, then those that changed.

    `snapshot` says what the user may read. Without access to the whole cluster only the namespace is watched.
    """
    scope = selection.scope
    around = ListScope() if snapshot.whole else ListScope(scope.namespace)
    watched = WatchedQuotas(
        whole=snapshot.whole,
        natives=snapshot.natives,
        wide=wide,
        ledgers=snapshot.ledgers,
        flavors=snapshot.view.node_flavors,
        unread=snapshot.view.unread,
    )
    reflectors = Reflectors(client, note)
    reflectors.start("quotas", ELASTIC_QUOTAS, parse_elastic_quota, around)
    reflectors.start("chosen", ELASTIC_QUOTAS, parse_elastic_quota, scope_of(selection))
    pods = msgspec.structs.replace(around, fields=UNFINISHED)
    reflectors.start("pods", PODS, pod_reader(client), pods)
    if snapshot.whole and is_listed(client, QUOTA_GROUPS, ListScope()):
        reflectors.start("trees", QUOTA_GROUPS, parse_quota_group, ListScope())
    if snapshot.natives:
        reflectors.start("natives", RESOURCE_QUOTAS, parse_resource_quota, ListScope(scope.namespace))
    if snapshot.ledgers:
        reflectors.start("ledgers", RESERVATION_LEDGERS, parse_reservation_ledger, ListScope(scope.namespace))
    for resource, parse in TOLD_POD_GROUP_KINDS if wide else ():
        if is_listed(client, resource, ListScope(scope.namespace)):
            reflectors.start(resource.group, resource, parse, ListScope(scope.namespace))
    try:
        for batch in reflectors.batches():
            yield watched.apply(batch)
    finally:
        reflectors.stop()
