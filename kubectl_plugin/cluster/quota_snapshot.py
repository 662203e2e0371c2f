"""Reads the cluster once for `elasticquota get`: the selected quotas and what their figures depend on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kubectl_plugin.cluster.cluster_view import ClusterView
from kubectl_plugin.cluster.node_flavors import node_flavors
from kubectl_plugin.cluster.pods import pod_parser
from kubectl_plugin.cluster.quota_rows import QuotaRow
from kubectl_plugin.cluster.reading import (
    UNFINISHED,
    ListClient,
    ListScope,
    list_if_served,
    list_or_none,
    list_raw,
    parsed,
)
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import ApiError
from scheduler_core.model.conditions import find
from scheduler_core.model.groups.kinds import TOLD_POD_GROUP_KINDS
from scheduler_core.model.kinds import (
    ELASTIC_QUOTAS,
    PODS,
    QUOTA_FLAVORS,
    QUOTA_GROUPS,
    RESERVATION_LEDGERS,
    RESOURCE_QUOTAS,
    Resource,
)
from scheduler_core.model.names import QUOTA_ENFORCED, QUOTA_NO_PLUGIN
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.quota_group import parse_quota_group
from scheduler_core.model.quotas.reservation_ledger import parse_reservation_ledger
from scheduler_core.model.quotas.resource_quota import parse_resource_quota

# A scheduler that enforces an object reports it within this time after the object's creation.
ENFORCEMENT_GRACE_SECONDS: Final = 10.0
UNKNOWN_LENT: Final = (
    "note: LENT is not known: it needs the ElasticQuotas and pods of all namespaces, which you may not list"
)
UNKNOWN_RESERVED: Final = "note: RESERVED is not known: you may not list reservationledgers"
UNKNOWN_HARD: Final = "note: HARD is not known: you may not list resourcequotas"
UNKNOWN_SHARE: Final = (
    "note: SHARE, ENTITLED and sums of min are not known: a quota names a QuotaGroup, and you may not list "
    "quotagroups"
)

Objects = Sequence[msgspec.Raw | bytes]


class ObjectSelection(msgspec.Struct, frozen=True):
    """The objects that a command selects: by name within a namespace, or all objects of the scope."""

    scope: ListScope
    names: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether all objects of the cluster are selected."""
        return not (self.scope.namespace or self.scope.labels or self.scope.fields or self.names)

    @property
    def own(self) -> ListScope:
        """All objects of the selected namespaces, without selectors and names."""
        return ListScope(self.scope.namespace, chunk=self.scope.chunk)


class QuotaSnapshot(msgspec.Struct):
    """The selected quotas in the server's order, typed and raw, and the view that their figures come from.

    `whole`: the view has all quotas and pods of the cluster; `natives`: it has the ResourceQuotas; `ledgers`:
    it has the reservations; `groups`: it has the QuotaGroups.
    """

    chosen: list[ElasticQuota]
    raw: list[bytes]
    view: ClusterView
    whole: bool
    natives: bool
    ledgers: bool = False
    groups: bool = False

    def rows_with_labels(self, *, wide: bool, sort_by: str = "") -> list[tuple[QuotaRow, dict[str, str]]]:
        """The rows of the selected quotas, each with the labels of its quota.

        `sort_by` is a JSONPath in the quota; the rows of one quota stay together. Raises BadJSONPath.
        """
        chosen = self.chosen
        if sort_by:
            from kubectl_plugin.render.jsonpath_template import sort_order

            chosen = [chosen[i] for i in sort_order([msgspec.json.decode(raw) for raw in self.raw], sort_by)]
        labels = {(quota.namespace, quota.name): quota.labels for quota in chosen}
        rows = self.view.rows(chosen, whole=self.whole, natives=self.natives, wide=wide, ledgers=self.ledgers)
        return [(row, labels[row.namespace, row.name]) for row in rows]


def select_raw(
    client: ListClient, resource: Resource, selection: ObjectSelection, on_error: Callable[[ApiError], None]
) -> Objects:
    """The selected objects as JSON. A name that cannot be read is reported to `on_error` and left out."""
    if not selection.names:
        return list_raw(client, resource, selection.scope)
    found: list[msgspec.Raw | bytes] = []
    for name in selection.names:
        try:
            found.append(client.get(resource, selection.scope.namespace, name))
        except ApiError as error:
            if not error.status:
                raise
            on_error(error)
    return found


def take_snapshot(
    client: ListClient,
    selection: ObjectSelection,
    *,
    wide: bool,
    even_if_none: bool,
    on_error: Callable[[ApiError], None],
    on_malformed: Callable[[ModelError], None],
    note: Callable[[str], None],
) -> QuotaSnapshot:
    """Read the selected quotas and the objects that their figures need. Raises the ApiError tree.

    Without a selected quota nothing more is read, unless `even_if_none`. LENT needs the whole cluster; a user
    who may read one namespace only gets the other figures, and a note.
    """
    read = [bytes(item) for item in select_raw(client, ELASTIC_QUOTAS, selection, on_error)]
    pairs = list(parsed(read, lambda item: (parse_elastic_quota(item), bytes(item)), on_malformed))
    chosen, raw = [quota for quota, _ in pairs], [item for _, item in pairs]
    view = ClusterView()
    if not chosen and not even_if_none:
        return QuotaSnapshot(chosen, raw, view, whole=True, natives=True)
    others, pods, whole = _surroundings(client, selection, read, fields=UNFINISHED)
    if not whole:
        note(UNKNOWN_LENT)
    natives = list_or_none(client, RESOURCE_QUOTAS, selection.own)
    if natives is None:
        note(UNKNOWN_HARD)
    for quota in (*parsed(others, parse_elastic_quota, _silent), *chosen):
        view.put_quota(quota)
    for quota in chosen:
        older = view.ledger.quota_of(quota.namespace)
        if older is not None and older.name != quota.name:
            note(f"note: ElasticQuota {quota.key} does not bind: {older.key} is older")
        elif lacks := _unenforced(quota):
            note(f"note: ElasticQuota {quota.key} is not enforced: {lacks}")
    # What is lent crosses the groups of a tree by rules of their own.
    groups = list_if_served(client, QUOTA_GROUPS, ListScope()) if whole else None
    for group in parsed(groups or (), parse_quota_group, _silent):
        view.ledger.put_group(group)
    flavors = node_flavors(client, view.limits(), note)
    view.node_flavors = flavors or {}
    view.unread = _unread(groups=groups is not None or not whole, flavors=flavors is not None)
    if wide and QUOTA_GROUPS.plural in view.hidden():
        note(UNKNOWN_SHARE)
    for pod in parsed(pods, pod_parser(client), on_malformed):
        view.put_pod(pod)
    for native in parsed(natives or (), parse_resource_quota, on_malformed):
        view.put_native(native)
    reserved = _put_ledgers(client, selection, view, note) if wide else False
    for resource, parse in TOLD_POD_GROUP_KINDS if wide else ():
        gangs = list_if_served(client, resource, selection.own)
        for gang in parsed(gangs or (), parse, _silent):
            view.nominations.put_group(gang)
    return QuotaSnapshot(
        chosen, raw, view, whole, natives is not None, ledgers=reserved, groups=groups is not None
    )


def _unread(*, groups: bool, flavors: bool) -> frozenset[str]:
    kinds = ((QUOTA_GROUPS, groups), (QUOTA_FLAVORS, flavors))
    return frozenset(kind.plural for kind, known in kinds if not known)


def _unenforced(quota: ElasticQuota) -> str:
    """The reason why no scheduler enforces a quota, from its condition Enforced; empty if one does."""
    told = find(quota.conditions, QUOTA_ENFORCED)
    if told is None:
        # The scheduler may not have seen a new quota yet.
        new = time.time() < quota.created + ENFORCEMENT_GRACE_SECONDS
        return "" if new else "no scheduler has reported that it enforces it"
    return told.message if told.reason == QUOTA_NO_PLUGIN else ""


def _put_ledgers(
    client: ListClient, selection: ObjectSelection, view: ClusterView, note: Callable[[str], None]
) -> bool:
    """Add the reservations to the view. False, and a note, if the user may not list them."""
    ledgers = list_if_served(client, RESERVATION_LEDGERS, selection.own)
    if ledgers is None:
        note(UNKNOWN_RESERVED)
    for ledger in parsed(ledgers or (), parse_reservation_ledger, _silent):
        view.put_ledger(ledger)
    return ledgers is not None


def _surroundings(
    client: ListClient, selection: ObjectSelection, read: list[bytes], *, fields: str
) -> tuple[Objects, Objects, bool]:
    """The quotas besides the selected ones, the pods, and whether both are those of the whole cluster."""
    own = selection.own
    cluster = msgspec.structs.replace(own, namespace="")
    others: Objects | None = () if selection.everything else list_or_none(client, ELASTIC_QUOTAS, cluster)
    if others is not None:
        pods = list_or_none(client, PODS, msgspec.structs.replace(cluster, fields=fields))
        if pods is not None:
            return others, pods, True
    if others is None:
        others = list_raw(client, ELASTIC_QUOTAS, own)
    return others, list_raw(client, PODS, msgspec.structs.replace(own, fields=fields)), False


def _silent(error: ModelError) -> None:
    """Ignore an invalid object that was not selected."""
