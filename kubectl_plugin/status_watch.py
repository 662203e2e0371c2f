"""`kubectl podgroup status --watch`: a group's row is printed again when its figures change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from kubectl_plugin.following import Change, Following
from kubectl_plugin.group_standing import Standing, standing_of
from kubectl_plugin.group_view import GroupView
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.reading import Scope
from kubectl_plugin.session import CommandSession
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Forbidden, NotFound
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.gang import Gang, parse_gang, parse_native_gang, parse_x_gang
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    NATIVE_POD_GROUPS,
    POD_GROUPS,
    PODS,
    RESERVATION_LEDGERS,
    X_POD_GROUPS,
    Resource,
)
from scheduler_core.model.names import SAKKARA_GROUP_LABEL
from scheduler_core.model.pod import Pod, parse_pod
from scheduler_core.model.reservation_ledger import ELASTIC_NAME, ReservationLedger, parse_reservation_ledger
from scheduler_core.state.cluster import ClusterState

_FEEDS: Final[tuple[tuple[Resource, Callable[[Any], Any], str], ...]] = (
    (POD_GROUPS, parse_gang, ""),
    (X_POD_GROUPS, parse_x_gang, ""),
    (NATIVE_POD_GROUPS, parse_native_gang, ""),
    (CONFIG_MAPS, parse_config_map, SAKKARA_GROUP_LABEL),
    (RESERVATION_LEDGERS, parse_reservation_ledger, ""),
    (PODS, parse_pod, ""),
)


class WatchedGroups:
    """The groups of a view that is kept up to date, and the rows that were printed last."""

    def __init__(self, view: GroupView, name: str = "") -> None:
        self._view = view
        self._name = name
        self._known: dict[tuple[str, str, str], Any] = {}
        self._printed: dict[str, dict[str, Any]] = {}

    def apply(self, batch: Sequence[Change]) -> list[Standing]:
        """Take in changes; the groups whose figures differ from what was printed."""
        for change in batch:
            if change.event.type in ("ADDED", "MODIFIED", "DELETED"):
                self._take_in(change)
        fresh = []
        for gang in self._view.groups():
            standing = standing_of(self._view, gang)
            figures = standing.document()
            if self._name in ("", gang.ref.name) and self._printed.get(gang.key) != figures:
                self._printed[gang.key] = figures
                fresh.append(standing)
        return fresh

    def _take_in(self, change: Change) -> None:
        place = (change.feed, *change.place)
        before = self._known.pop(place, None)
        obj = change.event.obj if change.event.type != "DELETED" else None
        if obj is not None:
            self._known[place] = obj
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


def follow_groups(
    session: CommandSession,
    name: str,
    show: Callable[[list[Standing]], None],
    complaints: Complaints,
) -> None:
    """Print rows for ever: first all of them, then those that changed. `name` limits it to one group."""
    watched = WatchedGroups(GroupView(ClusterState(), {}), name)
    following = Following(session.client, complaints.note)
    for resource, parse, labels in _FEEDS:
        scope = Scope(session.scope, labels=labels)
        if resource == PODS or _is_served(session.client, resource, scope):
            following.follow(f"{resource.plural}.{resource.group}", resource, parse, scope)
    try:
        for batch in following.batches():
            show(watched.apply(batch))
    finally:
        following.stop()


def _is_served(client: Client, resource: Resource, scope: Scope) -> bool:
    """Whether a kind exists and may be listed: others are left out, as in the table without --watch."""
    try:
        client.get_page(resource, scope.namespace, label_selector=scope.labels, limit=1)
    except (NotFound, Forbidden):
        return False
    return True
