"""`kubectl elasticquota get --watch`: a row is printed again when its figures change, whatever the cause."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from kubectl_plugin.cluster_view import ClusterView
from kubectl_plugin.figures import Figures
from kubectl_plugin.following import Change, Following, scope_of
from kubectl_plugin.reading import UNFINISHED, Scope
from kubectl_plugin.snapshot import Selection, Snapshot
from scheduler_core.kube.client import Client
from scheduler_core.model.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.gang import Gang, parse_gang
from scheduler_core.model.kinds import (
    ELASTIC_QUOTAS,
    POD_GROUPS,
    PODS,
    RESERVATION_LEDGERS,
    RESOURCE_QUOTAS,
)
from scheduler_core.model.pod import Pod, parse_pod
from scheduler_core.model.reservation_ledger import ReservationLedger, parse_reservation_ledger
from scheduler_core.model.resource_quota import ResourceQuota, parse_resource_quota

Row = tuple[Figures, dict[str, str]]
"""Figures of a row, and the labels of its quota."""


class WatchedQuotas:
    """The quotas that are watched, and the rows that were printed last."""

    def __init__(self, *, whole: bool, natives: bool, wide: bool, ledgers: bool = False) -> None:
        self._view = ClusterView()
        self._chosen: dict[tuple[str, str], ElasticQuota] = {}
        self._printed: dict[tuple[str, str, str], Row] = {}
        self._whole = whole
        self._natives = natives
        self._wide = wide
        self._ledgers = ledgers

    def apply(self, batch: list[Change]) -> list[Row]:
        """Take in changes; rows that differ from what was printed, and the last ones of deleted quotas."""
        gone: list[Row] = []
        for change in batch:
            if change.feed == "chosen" and change.event.type == "DELETED":
                self._chosen.pop(change.place, None)
                gone += self._forget(change.place)
            self._take_in(change)
        return gone + self._fresh()

    def _forget(self, place: tuple[str, str]) -> list[Row]:
        keys = [key for key in self._printed if key[:2] == place]
        return [self._printed.pop(key) for key in keys]

    def _fresh(self) -> list[Row]:
        fresh = []
        quotas = [self._chosen[place] for place in sorted(self._chosen)]
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

    def _take_in(self, change: Change) -> None:
        view, place = self._view, change.place
        match change.event.obj:
            case ElasticQuota() as quota if change.feed == "chosen":
                self._chosen[place] = quota
            case ElasticQuota() as quota:
                view.put_quota(quota)
            case Pod() as pod:
                view.put_pod(pod)
            case ResourceQuota() as native:
                view.put_native(native)
            case ReservationLedger() as ledger:
                view.put_ledger(ledger)
            case Gang() as gang:
                view.kept.put_group(gang)
            case None if change.event.type == "DELETED":
                self._remove(change.feed, *place)

    def _remove(self, feed: str, namespace: str, name: str) -> None:
        if feed == "quotas":
            self._view.remove_quota(namespace, name)
        elif feed == "pods":
            self._view.remove_pod(namespace, name)
        elif feed == "natives":
            self._view.remove_native(namespace, name)
        elif feed == "ledgers":
            self._view.remove_ledger(namespace, name)
        elif feed == "groups":
            self._view.kept.remove_group(namespace, name)


def changed_rows(
    client: Client, selection: Selection, snapshot: Snapshot, *, wide: bool, note: Callable[[str], None]
) -> Iterator[list[Row]]:
    """Rows in batches, for ever: first all of them, then those that changed.

    `snapshot` tells what the user may read; where the cluster as a whole is out of reach, only the
    namespace is followed.
    """
    scope = selection.scope
    around = Scope() if snapshot.whole else Scope(scope.namespace)
    watched = WatchedQuotas(
        whole=snapshot.whole, natives=snapshot.natives, wide=wide, ledgers=snapshot.ledgers
    )
    following = Following(client, note)
    following.follow("quotas", ELASTIC_QUOTAS, parse_elastic_quota, around)
    following.follow("chosen", ELASTIC_QUOTAS, parse_elastic_quota, scope_of(selection))
    pods = msgspec.structs.replace(around, fields=UNFINISHED)
    following.follow("pods", PODS, parse_pod, pods)
    if snapshot.natives:
        following.follow("natives", RESOURCE_QUOTAS, parse_resource_quota, Scope(scope.namespace))
    if snapshot.ledgers:
        following.follow("ledgers", RESERVATION_LEDGERS, parse_reservation_ledger, Scope(scope.namespace))
    if snapshot.groups:
        following.follow("groups", POD_GROUPS, parse_gang, Scope(scope.namespace))
    try:
        for batch in following.batches():
            yield watched.apply(batch)
    finally:
        following.stop()
