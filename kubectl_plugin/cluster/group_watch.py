"""Changes of groups for `kubectl podgroup status --watch`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.group_status import GroupStatus, status_of
from kubectl_plugin.cluster.group_view import GroupView, selects
from kubectl_plugin.cluster.pods import pod_reader
from kubectl_plugin.cluster.reading import ListScope, is_listed, kind_name
from kubectl_plugin.cluster.reflectors import FeedEvent, Reflectors
from kubectl_plugin.cluster.session import CommandSession
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    PODS,
    RESERVATION_LEDGERS,
    Resource,
)
from scheduler_core.model.names import SAKKARA_GROUP_LABEL
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quotas.reservation_ledger import (
    ELASTIC_NAME,
    ReservationLedger,
    parse_reservation_ledger,
)
from scheduler_core.state.cluster import ClusterState

_FEEDS: Final[tuple[tuple[Resource, Callable[[Any], Any], str], ...]] = (
    *((resource, parse, "") for resource, parse in POD_GROUP_KINDS),
    (CONFIG_MAPS, parse_config_map, SAKKARA_GROUP_LABEL),
    (RESERVATION_LEDGERS, parse_reservation_ledger, ""),
)


class WatchedGroups:
    """A view that events update, and the figures of each group that were printed last."""

    def __init__(self, view: GroupView, name: str = "") -> None:
        self._view = view
        self._name = name
        self._known: dict[tuple[str, str, str], Any] = {}
        self._printed: dict[str, dict[str, Any]] = {}

    def apply(self, batch: Sequence[FeedEvent]) -> list[GroupStatus]:
        """Apply events. Returns the groups whose figures differ from those printed last."""
        for change in batch:
            if change.event.type in ("ADDED", "MODIFIED", "DELETED"):
                self._apply(change)
        fresh = []
        for gang in self._view.groups():
            standing = status_of(self._view, gang)
            figures = standing.document()
            chosen = not self._name or selects(self._name, gang)
            if chosen and self._printed.get(gang.key) != figures:
                self._printed[gang.key] = figures
                fresh.append(standing)
        return fresh

    def _apply(self, change: FeedEvent) -> None:
        key = (change.feed, *change.key)
        before = self._known.pop(key, None)
        obj = change.event.obj if change.event.type != "DELETED" else None
        if obj is not None:
            self._known[key] = obj
        state = self._view.state
        match obj if obj is not None else before:
            case Pod() as pod:
                if before is not None and (obj is None or before.uid != pod.uid):
                    state.remove_pod(before.uid)
                if obj is not None:
                    state.put_pod(pod)
            case ReservationLedger() as ledger if ledger.name != ELASTIC_NAME:
                state.gangs.remove_ledger(ledger.namespace)
                if obj is not None:
                    state.gangs.put_ledger(ledger)
            case Gang() as gang if obj is not None:
                state.put_gang(gang)
            case Gang() as gang:
                state.remove_gang(gang)
                self._printed.pop(gang.key, None)
            case ConfigMap() as config_map:
                tables = state.config_maps
                changed = tables.put(config_map) if obj is not None else tables.remove(config_map)
                for gone in changed.gone:
                    state.remove_gang(gone)
                for come in changed.come:
                    state.put_gang(come)


def watch_groups(
    session: CommandSession,
    name: str,
    show: Callable[[list[GroupStatus]], None],
    diagnostics: Diagnostics,
) -> None:
    """Show all groups, then every change, without end. A `name` selects one group."""
    watched = WatchedGroups(GroupView(ClusterState(), {}), name)
    reflectors = Reflectors(session.client, diagnostics.note)
    for resource, parse, labels in _FEEDS:
        scope = ListScope(session.scope, labels=labels)
        if is_listed(session.client, resource, scope):
            reflectors.start(f"{resource.plural}.{resource.group}", resource, parse, scope)
    reflectors.start(kind_name(PODS), PODS, pod_reader(session.client), ListScope(session.scope))
    try:
        for batch in reflectors.batches():
            show(watched.apply(batch))
    finally:
        reflectors.stop()
