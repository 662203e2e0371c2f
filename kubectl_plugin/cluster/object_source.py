"""Where the objects of a `get` come from: one kind, or the groups of every dialect."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.object_watch import Watched, changed_objects
from kubectl_plugin.cluster.quota_snapshot import ObjectSelection, select_raw
from kubectl_plugin.cluster.reading import ListScope, is_listed, kind_name, list_raw
from kubectl_plugin.cluster.reflectors import scope_of
from scheduler_core.kube.client import Client
from scheduler_core.kube.errors import Forbidden, NotFound
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.kinds import CONFIG_MAPS, NATIVE_POD_GROUPS, POD_GROUPS, X_POD_GROUPS, Resource
from scheduler_core.model.meta import identity_of
from scheduler_core.model.names import SAKKARA_GROUP_LABEL


class FoundObject(msgspec.Struct, frozen=True):
    """An object as JSON, and its kind."""

    resource: Resource
    raw: msgspec.Raw | bytes


class ObjectSource(Protocol):
    """What a `get` selects from."""

    def select(
        self, client: Client, selection: ObjectSelection, diagnostics: Diagnostics
    ) -> list[FoundObject]:
        """The selected objects. Raises the ApiError tree; names without an object are reported."""
        ...

    def changes(
        self, client: Client, selection: ObjectSelection, note: Callable[[str], None]
    ) -> Iterator[list[FoundObject]]:
        """The selected objects, then those that change, in batches without end."""
        ...

    def arguments(self, client: Client, selection: ObjectSelection, diagnostics: Diagnostics) -> list[str]:
        """What `kubectl get` is asked for to print the selected objects; nothing if there is none of them."""
        ...


class OneKind(msgspec.Struct, frozen=True):
    """The objects of one kind."""

    resource: Resource

    def select(
        self, client: Client, selection: ObjectSelection, diagnostics: Diagnostics
    ) -> list[FoundObject]:
        """The selected objects. Raises the ApiError tree."""
        raw = select_raw(client, self.resource, selection, diagnostics.object_error)
        return [FoundObject(self.resource, item) for item in raw]

    def changes(
        self, client: Client, selection: ObjectSelection, note: Callable[[str], None]
    ) -> Iterator[list[FoundObject]]:
        """The selected objects, then those that change."""
        for batch in changed_objects(client, [Watched(self.resource, scope_of(selection))], note):
            yield [FoundObject(resource, raw) for resource, raw in batch]

    def arguments(self, client: Client, selection: ObjectSelection, diagnostics: Diagnostics) -> list[str]:
        """The kind and the names."""
        return [kind_name(self.resource), *selection.names]


# The kinds of groups in the order of a table's rows where names are equal; the first is Muster's own.
GROUP_KINDS: Final = (POD_GROUPS, X_POD_GROUPS, NATIVE_POD_GROUPS, CONFIG_MAPS)


class Groups:
    """The groups of every dialect that the server serves and the user may list."""

    def select(
        self, client: Client, selection: ObjectSelection, diagnostics: Diagnostics
    ) -> list[FoundObject]:
        """The selected groups, by namespace and name, or in the order of the names that are given.

        Raises the ApiError tree if the user may list no kind of group, CommandFailed if there is none.
        """
        found: list[FoundObject] = []
        refused: list[Forbidden] = []
        served = 0
        for resource in GROUP_KINDS:
            try:
                raw = list_raw(client, resource, _scope(resource, selection))
            except CommandFailed:
                continue
            except Forbidden as error:
                refused.append(error)
                diagnostics.note(f"note: you may not list {kind_name(resource)}: such groups are not shown")
                continue
            served += resource != CONFIG_MAPS
            found += [FoundObject(client.served(resource), item) for item in raw]
        if not found and refused:
            raise refused[0]
        if not found and not served:
            raise CommandFailed(
                f"the server has no kind of PodGroup; is the CRD {kind_name(POD_GROUPS)} installed?"
            )
        return _chosen(found, selection.names, diagnostics)

    def changes(
        self, client: Client, selection: ObjectSelection, note: Callable[[str], None]
    ) -> Iterator[list[FoundObject]]:
        """The selected groups, then those that change."""
        feeds = [
            Watched(resource, scope)
            for resource in GROUP_KINDS
            if is_listed(client, resource, scope := _scope(resource, selection))
        ]
        for batch in changed_objects(client, feeds, note):
            found = [FoundObject(*item) for item in batch]
            yield [item for item in found if not selection.names or group_name(item) in selection.names]

    def arguments(self, client: Client, selection: ObjectSelection, diagnostics: Diagnostics) -> list[str]:
        """Each named object with its kind; without names the kinds that have groups. Raises as `select`.

        Group ConfigMaps must be named, as most ConfigMaps are no groups.
        """
        found = self.select(client, selection, diagnostics)
        if selection.names:
            return [f"{kind_name(item.resource)}/{identity_of(item.raw).name}" for item in found]
        left_out = sum(item.resource == CONFIG_MAPS for item in found)
        if left_out:
            diagnostics.note(f"note: Go templates leave out group ConfigMaps that are not named: {left_out}")
        kinds = {kind_name(item.resource): None for item in found if item.resource != CONFIG_MAPS}
        return [",".join(kinds or {kind_name(POD_GROUPS): None})]


def _scope(resource: Resource, selection: ObjectSelection) -> ListScope:
    """The scope of a kind of group: of ConfigMaps only those with the label of groups."""
    scope = selection.scope
    if resource != CONFIG_MAPS:
        return scope
    labels = ",".join(filter(None, (SAKKARA_GROUP_LABEL, scope.labels)))
    return msgspec.structs.replace(scope, labels=labels)


def _chosen(
    found: Sequence[FoundObject], names: Sequence[str], diagnostics: Diagnostics
) -> list[FoundObject]:
    """The objects of these names, all without names. A name without an object is reported."""
    keyed = sorted(
        ((identity_of(item.raw).namespace, group_name(item), item) for item in found),
        key=lambda entry: entry[:2],
    )
    if not names:
        return [item for _, _, item in keyed]
    chosen: list[FoundObject] = []
    for name in names:
        there = [item for _, known, item in keyed if known == name]
        if not there:
            message = f'{kind_name(POD_GROUPS)} "{name}" not found'
            diagnostics.object_error(NotFound(404, "NotFound", message))
        chosen += there
    return chosen


def group_name(item: FoundObject) -> str:
    """The name of a group; for a ConfigMap the one in its data, by which pods name it."""
    meta = identity_of(item.raw)
    if item.resource != CONFIG_MAPS:
        return meta.name
    content = parse_config_map(item.raw).content
    return content.ref.name if isinstance(content, Gang) else meta.name
