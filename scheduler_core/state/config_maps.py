"""ConfigMaps that the scheduler reads, and which of several with the same role is in effect."""

from __future__ import annotations

import msgspec

from scheduler_core.model.config_map import GROUP, TOPOLOGY, ConfigMap
from scheduler_core.model.groups.gang import Gang, GroupRef
from scheduler_core.state.nodes.table import NodeTable
from scheduler_core.state.topology import TopologyTable


class Changed(msgspec.Struct):
    """Effects of a changed ConfigMap: removed groups, added or changed groups, a new tree.

    `bare` is the key of the group that pods may take it for, where it has no label, or had none.
    """

    gone: list[Gang]
    come: list[Gang]
    topology: bool = False
    bare: str = ""


class ConfigMapTable:
    """Group ConfigMaps by group; topologies are handed to `topology`.

    Of several ConfigMaps that name one group in a namespace the oldest counts, then the first by name. Of all
    others the name alone is kept: one that was meant to be a group may lack the label.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self.topology = TopologyTable(nodes)
        self._known: dict[str, ConfigMap] = {}
        self._groups: dict[str, dict[str, ConfigMap]] = {}
        self._others: set[str] = set()

    def put(self, found: ConfigMap) -> Changed:
        """A ConfigMap was added or changed; it may have another role or name another group than before."""
        old, before = self._known.get(found.key), len(self._others)
        if found.role:
            self._known[found.key] = found
            self._others.discard(found.key)
        else:
            self._known.pop(found.key, None)
            self._others.add(found.key)
        return self._barely(self._moved(old, found), found, before)

    def remove(self, gone: ConfigMap) -> Changed:
        """A ConfigMap is gone."""
        before = len(self._others)
        self._others.discard(gone.key)
        changed = self._moved(self._known.pop(gone.key, None), None)
        return self._barely(changed, gone, before)

    def with_role(self, role: str) -> list[ConfigMap]:
        """The ConfigMaps that have a role for the scheduler."""
        return [found for found in self._known.values() if found.role == role]

    def get(self, key: str) -> ConfigMap | None:
        """A ConfigMap with a role for the scheduler, by `namespace/name`."""
        return self._known.get(key)

    def is_unlabelled(self, key: str) -> bool:
        """Whether the ConfigMap `namespace/name` exists and has no role for the scheduler."""
        return key in self._others

    def of(self, gang_key: str) -> ConfigMap | None:
        """The ConfigMap that counts for a group."""
        return min(self._groups.get(gang_key, {}).values(), key=_age, default=None)

    def groups_in(self, namespace: str) -> list[str]:
        """Keys of the groups that have a ConfigMap in a namespace."""
        return [key for key in self._groups if key.startswith(f"{namespace}/")]

    def _moved(self, old: ConfigMap | None, new: ConfigMap | None) -> Changed:
        changed = Changed([], [])
        if old is not None and old.role == TOPOLOGY and (new is None or new.role != TOPOLOGY):
            changed.topology = self.topology.remove(old)
        if new is not None and new.role == TOPOLOGY:
            changed.topology = self.topology.put(new)
        keys = {cm.content.key: None for cm in (old, new) if cm is not None and isinstance(cm.content, Gang)}
        before = {key: self.of(key) for key in keys}
        if old is not None and old.role == GROUP:
            self._drop(old)
        if new is not None and new.role == GROUP:
            self._groups.setdefault(new.content.key, {})[new.key] = new
        for key in keys:
            winner, loser = self.of(key), before[key]
            if winner is not None and winner is not loser:
                changed.come.append(winner.content)
            elif winner is None and loser is not None:
                changed.gone.append(loser.content)
        return changed

    def _barely(self, changed: Changed, config_map: ConfigMap, before: int) -> Changed:
        if len(self._others) != before:
            changed.bare = GroupRef("ConfigMap", config_map.namespace, config_map.name).key
        return changed

    def _drop(self, old: ConfigMap) -> None:
        key = old.content.key
        named = self._groups.get(key, {})
        named.pop(old.key, None)
        if not named:
            self._groups.pop(key, None)


def _age(config_map: ConfigMap) -> tuple[float, str]:
    return config_map.created, config_map.name
