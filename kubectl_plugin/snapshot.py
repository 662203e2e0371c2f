"""One look at the cluster for `get`: which quotas are shown, and what is known around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from kubectl_plugin.cluster_view import ClusterView
from kubectl_plugin.figures import Figures
from kubectl_plugin.reading import ASSIGNED, UNFINISHED, Reader, Scope, list_or_none, list_raw, parsed
from scheduler_core.errors import ModelError
from scheduler_core.kube.errors import ApiError
from scheduler_core.model.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.kinds import ELASTIC_QUOTAS, PODS, RESOURCE_QUOTAS, Resource
from scheduler_core.model.pod import parse_pod
from scheduler_core.model.resource_quota import parse_resource_quota

UNKNOWN_LENT: Final = (
    "note: LENT is not known: it needs the ElasticQuotas and pods of all namespaces, which you may not list"
)
UNKNOWN_HARD: Final = "note: HARD is not known: you may not list resourcequotas"


class Selection(msgspec.Struct, frozen=True):
    """Which quotas are asked for: by name within a namespace, or every one of the scope."""

    scope: Scope
    names: tuple[str, ...] = ()

    @property
    def everything(self) -> bool:
        """Whether all quotas of the cluster are asked for."""
        return not (self.scope.namespace or self.scope.labels or self.scope.fields or self.names)


class Snapshot(msgspec.Struct):
    """The quotas to show, in the server's order, and the view that their figures come from.

    `whole`: all quotas and pods of the cluster are in the view; `natives`: the ResourceQuotas are.
    """

    chosen: list[ElasticQuota]
    view: ClusterView
    whole: bool
    natives: bool

    def rows(self, *, wide: bool) -> list[Figures]:
        """The figures of the chosen quotas."""
        return self.view.rows(self.chosen, whole=self.whole, natives=self.natives, wide=wide)


def select_raw(
    client: Reader, resource: Resource, selection: Selection, on_error: Callable[[ApiError], None]
) -> Sequence[msgspec.Raw | bytes]:
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
    on_error: Callable[[ApiError], None],
    on_malformed: Callable[[ModelError], None],
    note: Callable[[str], None],
) -> Snapshot:
    """Read what `get` needs, in as few lists as the question allows. Raises the ApiError tree.

    Lending is a matter of the whole cluster; a user who may only read one namespace gets what is true there.
    """
    raw = select_raw(client, ELASTIC_QUOTAS, selection, on_error)
    chosen = list(parsed(raw, parse_elastic_quota, on_malformed))
    view = ClusterView()
    if not chosen:
        return Snapshot(chosen, view, whole=True, natives=True)
    scope = selection.scope
    own = Scope(scope.namespace, chunk=scope.chunk)
    cluster = Scope(chunk=scope.chunk)
    everyone = raw if selection.everything else list_or_none(client, ELASTIC_QUOTAS, cluster)
    fields = UNFINISHED if wide else ASSIGNED
    pods = None
    if everyone is not None:
        pods = list_or_none(client, PODS, msgspec.structs.replace(cluster, fields=fields))
    whole = everyone is not None and pods is not None
    if not whole:
        note(UNKNOWN_LENT)
        everyone = everyone if everyone is not None else list_raw(client, ELASTIC_QUOTAS, own)
        pods = list_raw(client, PODS, msgspec.structs.replace(own, fields=fields))
    natives = list_or_none(client, RESOURCE_QUOTAS, own)
    if natives is None:
        note(UNKNOWN_HARD)
    for quota in chosen if selection.everything else parsed(everyone or (), parse_elastic_quota, _silent):
        view.put_quota(quota)
    for quota in chosen:
        view.put_quota(quota)
    for pod in parsed(pods or (), parse_pod, on_malformed):
        view.put_pod(pod)
    for native in parsed(natives or (), parse_resource_quota, on_malformed):
        view.put_native(native)
    return Snapshot(chosen, view, whole=whole, natives=natives is not None)


def _silent(error: ModelError) -> None:
    """A broken quota that nobody asked for takes no part in lending; whoever asks for it hears of it."""
