"""One look at the cluster for `get`: which quotas are shown, and what is known around them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kubectl_plugin.cluster_view import ClusterView
from kubectl_plugin.figures import Figures
from kubectl_plugin.reading import (
    UNFINISHED,
    Reader,
    Scope,
    list_if_served,
    list_or_none,
    list_raw,
    parsed,
)
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import ApiError
from scheduler_core.model.conditions import find
from scheduler_core.model.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.gang import parse_gang
from scheduler_core.model.kinds import (
    ELASTIC_QUOTAS,
    POD_GROUPS,
    PODS,
    RESERVATION_LEDGERS,
    RESOURCE_QUOTAS,
    Resource,
)
from scheduler_core.model.names import QUOTA_ENFORCED, QUOTA_NO_PLUGIN
from scheduler_core.model.pod import parse_pod
from scheduler_core.model.reservation_ledger import parse_reservation_ledger
from scheduler_core.model.resource_quota import parse_resource_quota

# So long after an object's creation a scheduler that enforces it has said so.
SAID_WITHIN_SECONDS: Final = 10.0
UNKNOWN_LENT: Final = (
    "note: LENT is not known: it needs the ElasticQuotas and pods of all namespaces, which you may not list"
)
UNKNOWN_RESERVED: Final = "note: RESERVED is not known: you may not list reservationledgers"
UNKNOWN_HARD: Final = "note: HARD is not known: you may not list resourcequotas"

Objects = Sequence[msgspec.Raw | bytes]


class Selection(msgspec.Struct, frozen=True):
    """Which quotas are asked for: by name within a namespace, or every one of the scope."""

    scope: Scope
    names: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether all quotas of the cluster are asked for."""
        return not (self.scope.namespace or self.scope.labels or self.scope.fields or self.names)

    @property
    def own(self) -> Scope:
        """Everything in the namespaces that are looked at, selected or not."""
        return Scope(self.scope.namespace, chunk=self.scope.chunk)


class Snapshot(msgspec.Struct):
    """The quotas to show, in the server's order, typed and raw, and the view that their figures come from.

    `whole`: all quotas and pods of the cluster are in the view; `natives`: the ResourceQuotas are; `ledgers`:
    the reservations are; `groups`: the PodGroups are.
    """

    chosen: list[ElasticQuota]
    raw: list[bytes]
    view: ClusterView
    whole: bool
    natives: bool
    ledgers: bool = False
    groups: bool = False

    def labelled_rows(self, *, wide: bool, sort_by: str = "") -> list[tuple[Figures, dict[str, str]]]:
        """The figures of the chosen quotas, each with the labels of its quota.

        `sort_by` is a path into the quotas' JSON; the rows of one quota stay together.
        """
        chosen = self.chosen
        if sort_by:
            from kubectl_plugin.jsonpath import sort_order

            chosen = [chosen[i] for i in sort_order([msgspec.json.decode(raw) for raw in self.raw], sort_by)]
        labels = {(quota.namespace, quota.name): quota.labels for quota in chosen}
        rows = self.view.rows(chosen, whole=self.whole, natives=self.natives, wide=wide, ledgers=self.ledgers)
        return [(row, labels[row.namespace, row.name]) for row in rows]


def select_raw(
    client: Reader, resource: Resource, selection: Selection, on_error: Callable[[ApiError], None]
) -> Objects:
    """The objects asked for as the server sends them; a name that cannot be had is reported and left out."""
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


def take(
    client: Reader,
    selection: Selection,
    *,
    wide: bool,
    even_if_none: bool,
    on_error: Callable[[ApiError], None],
    on_malformed: Callable[[ModelError], None],
    note: Callable[[str], None],
) -> Snapshot:
    """Read what `get` needs, in as few lists as the question allows. Raises the ApiError tree.

    Without a quota to show nothing more is read, except `even_if_none`. Lending is a matter of the whole
    cluster; a user who may only read one namespace gets what is true there, and a note.
    """
    read = [bytes(item) for item in select_raw(client, ELASTIC_QUOTAS, selection, on_error)]
    pairs = list(parsed(read, lambda item: (parse_elastic_quota(item), bytes(item)), on_malformed))
    chosen, raw = [quota for quota, _ in pairs], [item for _, item in pairs]
    view = ClusterView()
    if not chosen and not even_if_none:
        return Snapshot(chosen, raw, view, whole=True, natives=True)
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
    for pod in parsed(pods, parse_pod, on_malformed):
        view.put_pod(pod)
    for native in parsed(natives or (), parse_resource_quota, on_malformed):
        view.put_native(native)
    reserved = _put_ledgers(client, selection, view, note) if wide else False
    groups = list_if_served(client, POD_GROUPS, selection.own) if wide else None
    for gang in parsed(groups or (), parse_gang, _silent):
        view.kept.put_group(gang)
    return Snapshot(
        chosen, raw, view, whole, natives is not None, ledgers=reserved, groups=groups is not None
    )


def _unenforced(quota: ElasticQuota) -> str:
    """Why the scheduler does not hold pods to a quota, as its status says; empty where it does."""
    told = find(quota.conditions, QUOTA_ENFORCED)
    if told is None:
        # A new one is not looked at yet.
        new = time.time() < quota.created + SAID_WITHIN_SECONDS
        return "" if new else "no scheduler has said that it does"
    return told.message if told.reason == QUOTA_NO_PLUGIN else ""


def _put_ledgers(
    client: Reader, selection: Selection, view: ClusterView, note: Callable[[str], None]
) -> bool:
    """Take in what is reserved; False, with a note, where that may not be read."""
    ledgers = list_if_served(client, RESERVATION_LEDGERS, selection.own)
    if ledgers is None:
        note(UNKNOWN_RESERVED)
    for ledger in parsed(ledgers or (), parse_reservation_ledger, _silent):
        view.put_ledger(ledger)
    return ledgers is not None


def _surroundings(
    client: Reader, selection: Selection, read: list[bytes], *, fields: str
) -> tuple[Objects, Objects, bool]:
    """Quotas besides the chosen ones, and pods: of the whole cluster (True), or else of the namespace."""
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
    """A broken quota that nobody asked for takes no part in lending; whoever asks for it hears of it."""
