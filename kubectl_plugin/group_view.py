"""Groups, their pods and the topology of a live cluster, as the scheduler sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from kubectl_plugin.entry import CommandFailed
from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.reading import Reader, Scope, list_or_none, list_raw, parsed
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.gang import Gang, parse_gang, parse_native_gang, parse_x_gang
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    NATIVE_POD_GROUPS,
    NODES,
    POD_GROUPS,
    PODS,
    X_POD_GROUPS,
    Resource,
)
from scheduler_core.model.names import SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL
from scheduler_core.model.node import parse_node
from scheduler_core.model.pod import Pod, parse_pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.group_members import Seat, in_rank_order, seats_of
from scheduler_core.state.topology import TopologySettings
from scheduler_core.topology.tree import Tree

VIEW: Final = "kubectl"
_GROUPS: Final[tuple[tuple[Resource, Callable[[Any], Gang]], ...]] = (
    (POD_GROUPS, parse_gang),
    (X_POD_GROUPS, parse_x_gang),
    (NATIVE_POD_GROUPS, parse_native_gang),
)
# The dialect that is meant where several groups have one name.
_ORDER: Final = ("ConfigMap", "PodGroup", "x-PodGroup", "native-PodGroup")


class GroupView(msgspec.Struct):
    """The state that was read. `raw` are the pods as the server sent them, by uid."""

    state: ClusterState
    raw: dict[str, bytes]

    def groups(self) -> list[Gang]:
        """All groups, by namespace and name."""
        return [self.state.gangs.gangs[key] for key in sorted(self.state.gangs.gangs)]

    def group(self, namespace: str, name: str) -> Gang:
        """The group of that name, of whatever kind. Raises CommandFailed."""
        found = [g for g in self.groups() if (g.ref.namespace, g.ref.name) == (namespace, name)]
        if not found:
            raise CommandFailed(f'no PodGroup and no group ConfigMap "{name}" in {namespace} namespace')
        return min(found, key=lambda gang: _ORDER.index(gang.ref.dialect))

    def tree(self, gang: Gang | None = None) -> Tree:
        """The tree that a group is placed on, or that of the cluster."""
        topology = self.state.topology
        return topology.tree(VIEW) if gang is None else topology.tree_of(gang, VIEW)

    def ranked(self, gang: Gang) -> list[tuple[int, Seat]]:
        """The placed members with their ranks, rank 0 first."""
        tree = self.tree(gang)
        return in_rank_order(tree, seats_of(self.state, gang, tree), {})

    def members(self, gang: Gang) -> list[Pod]:
        """All pods that name the group."""
        return list(self.state.gangs.members(gang.key).values())


def read_groups(
    client: Reader, namespace: str, complaints: Complaints, *, whole: bool, topology_namespace: str = ""
) -> GroupView:
    """Read the groups of a namespace (or of all, empty) with their pods, the nodes and the topology.

    `whole`: pods of all namespaces are needed, because they use the nodes. Raises the ApiError tree.
    """
    view = GroupView(ClusterState(), {})
    state = view.state
    nodes = list_or_none(client, NODES, Scope())
    if nodes is None:
        complaints.note("note: you may not list nodes: units without a topology ConfigMap are not known")
    for node in parsed(nodes or (), parse_node, complaints.about_content):
        state.put_node(node)
    _read_config_maps(client, view, namespace, topology_namespace, complaints)
    for resource, parse in _GROUPS:
        for gang in parsed(_if_known(client, resource, Scope(namespace)), parse, complaints.about_content):
            state.put_gang(gang)
    for raw in list_raw(client, PODS, Scope("" if whole else namespace)):
        for pod in parsed([raw], parse_pod, complaints.about_content):
            state.put_pod(pod)
            view.raw[pod.uid] = bytes(raw)
    return view


def _read_config_maps(
    client: Reader, view: GroupView, namespace: str, topology_namespace: str, complaints: Complaints
) -> None:
    state = view.state
    trees = list_or_none(client, CONFIG_MAPS, Scope(topology_namespace, labels=SAKKARA_TOPOLOGY_LABEL))
    if trees is None:
        complaints.note(
            "note: you may not list configmaps: the topology is not known; see --topology-namespace"
        )
    groups = list_raw(client, CONFIG_MAPS, Scope(namespace, labels=SAKKARA_GROUP_LABEL))
    sources = []
    for found in parsed([*(trees or ()), *groups], parse_config_map, complaints.about_content):
        for gang in state.config_maps.put(found).come:
            state.put_gang(gang)
        source = state.topology.source(found.namespace)
        sources += [source] if source is not None else []
    oldest = min(sources, key=lambda item: (item.created, item.key), default=None)
    if oldest is not None:
        state.topology.settings[VIEW] = TopologySettings(oldest.namespace)


def _if_known(client: Reader, resource: Resource, scope: Scope) -> Sequence[msgspec.Raw]:
    """The objects, none where the server does not know the kind or the user may not list it."""
    try:
        return list_or_none(client, resource, scope) or ()
    except CommandFailed:
        return ()
