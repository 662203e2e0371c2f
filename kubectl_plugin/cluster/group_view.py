"""The groups of a live cluster with their pods, the nodes and the topology, in the scheduler's own state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kubectl_plugin.cli.errors import CommandFailed
from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.pods import pod_parser
from kubectl_plugin.cluster.reading import (
    ListClient,
    ListScope,
    kind_name,
    list_if_served,
    list_or_none,
    list_raw,
    parsed,
)
from kubectl_plugin.live.configuration import config_of_cluster, topology_labels
from scheduler_core.model.config_map import ConfigMap, parse_config_map
from scheduler_core.model.groups.gang import DIALECT_NAMES, DIALECT_ORDER, Gang
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    NODES,
    PODS,
)
from scheduler_core.model.names import SAKKARA_GROUP_LABEL, SAKKARA_TOPOLOGY_LABEL
from scheduler_core.model.node import parse_node
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.group_members import MemberPlacement, in_rank_order, placed_members
from scheduler_core.state.topology import TopologySettings
from scheduler_core.topology.tree import Tree

VIEW: Final = "kubectl"


class GroupView(msgspec.Struct):
    """The state that was read. `raw`: the pods as JSON, by uid.

    `unread`: kinds that the user may not list; `nodes` and `configmaps` hold the topology.
    """

    state: ClusterState
    raw: Mapping[str, bytes]
    unread: list[str] = msgspec.field(default_factory=list)

    def groups(self) -> list[Gang]:
        """All groups, sorted by key."""
        return [self.state.gangs.gangs[key] for key in sorted(self.state.gangs.gangs)]

    def of_name(self, namespace: str, name: str) -> list[Gang]:
        """The groups of that name, as `selects` reads it, in the order of the dialects."""
        found = [gang for gang in self.groups() if gang.ref.namespace == namespace and selects(name, gang)]
        return sorted(found, key=lambda gang: DIALECT_ORDER.index(gang.ref.dialect))

    def named(self, namespace: str, name: str) -> list[Gang]:
        """The groups of that name, as `of_name` gives them. Raises CommandFailed if there is none."""
        found = self.of_name(namespace, name)
        if not found:
            hidden = f" (you may not list {', '.join(self.unread)})" if self.unread else ""
            raise CommandFailed(
                f'no PodGroup and no group ConfigMap "{name}" in {namespace} namespace{hidden}'
            )
        return found

    def group(self, namespace: str, name: str, diagnostics: Diagnostics) -> Gang:
        """The first group of that name, and a note if there are others. Raises CommandFailed as `named`."""
        found = self.named(namespace, name)
        note_others(found, diagnostics)
        return found[0]

    def tree(self, gang: Gang | None = None) -> Tree:
        """The topology tree of a group, or that of the cluster."""
        topology = self.state.topology
        return topology.tree(VIEW) if gang is None else topology.tree_of(gang, VIEW)

    def unknown_topology(self, gang: Gang) -> str:
        """The kind that the user may not list and that the tree of a group comes from; else empty."""
        by_label = gang.topology_key and not gang.constraints and gang.group is None
        if CONFIG_MAPS.plural in self.unread and not by_label:
            return CONFIG_MAPS.plural
        settings = self.state.topology.settings.get(VIEW)
        from_config_map = settings is not None and not settings.labels and not by_label
        return NODES.plural if NODES.plural in self.unread and not from_config_map else ""

    def ranked(self, gang: Gang) -> list[tuple[int, MemberPlacement]]:
        """The placed members of a group with their ranks, rank 0 first."""
        tree = self.tree(gang)
        return in_rank_order(tree, placed_members(self.state, gang, tree), {})

    def members(self, gang: Gang) -> list[Pod]:
        """All pods of the group."""
        return list(self.state.gangs.members(gang.key).values())


def note_others(found: Sequence[Gang], diagnostics: Diagnostics) -> None:
    """A note if several groups have a name of which the first is shown."""
    if len(found) > 1:
        names = [f"{DIALECT_NAMES[gang.ref.dialect]}/{gang.ref.name}" for gang in found]
        diagnostics.note(
            f"note: {len(names)} groups have this name, and {names[0]} is shown; "
            f"for another one write {' or '.join(names[1:])}"
        )


def selects(name: str, gang: Gang) -> bool:
    """Whether an argument of a command names a group: its name, or dialect and name (`native/train`)."""
    dialect, _, plain = name.rpartition("/")
    return gang.ref.name == plain and dialect in ("", DIALECT_NAMES[gang.ref.dialect])


def read_groups(
    client: ListClient, namespace: str, diagnostics: Diagnostics, *, whole: bool, topology_namespace: str = ""
) -> GroupView:
    """Read the groups of a namespace (all if empty) with their pods, the nodes and the topology.

    `whole`: read the pods of all namespaces, for the use of the nodes. Raises the ApiError tree.
    """
    view = GroupView(ClusterState(), {})
    nodes = list_or_none(client, NODES, ListScope())
    if nodes is None:
        view.unread.append(NODES.plural)
        diagnostics.note("note: you may not list nodes: units without a topology ConfigMap are not known")
    for node in parsed(nodes or (), parse_node, diagnostics.unreadable):
        view.state.put_node(node)
    trees = list_or_none(client, CONFIG_MAPS, ListScope(topology_namespace, labels=SAKKARA_TOPOLOGY_LABEL))
    if trees is None:
        view.unread.append(CONFIG_MAPS.plural)
        diagnostics.note(
            "note: you may not list configmaps: the topology is not known; see --topology-namespace"
        )
    sources = _read_members(client, view, namespace, diagnostics, trees=trees or (), whole=whole)
    labels: tuple[str, ...] = ()
    if trees is not None and not sources:
        labels = topology_labels(config_of_cluster(client).config)
    settings = shown_topology(sources, labels)
    if settings is not None:
        view.state.topology.settings[VIEW] = settings
    return view


def shown_topology(sources: Iterable[ConfigMap], labels: tuple[str, ...]) -> TopologySettings | None:
    """Where the shown tree comes from: the oldest topology ConfigMap, else the scheduler's node labels.

    None: the tree is flat.
    """
    oldest = min(sources, key=lambda item: (item.created, item.key), default=None)
    if oldest is not None:
        return TopologySettings(oldest.namespace)
    return TopologySettings(labels=labels) if labels else None


def read_members(client: ListClient, namespace: str, diagnostics: Diagnostics) -> GroupView:
    """Read the groups of a namespace (all if empty) with their pods. Raises the ApiError tree."""
    view = GroupView(ClusterState(), {})
    _read_members(client, view, namespace, diagnostics, trees=(), whole=False)
    return view


def _read_members(
    client: ListClient,
    view: GroupView,
    namespace: str,
    diagnostics: Diagnostics,
    *,
    trees: Sequence[msgspec.Raw],
    whole: bool,
) -> list[ConfigMap]:
    """Put groups, pods and topologies. Returns the ConfigMaps that topologies come from."""
    state, raws = view.state, dict(view.raw)
    view.raw = raws
    sources = _read_config_maps(client, view, namespace, trees, diagnostics)
    for resource, parse in POD_GROUP_KINDS:
        listed = list_if_served(client, resource, ListScope(namespace))
        if listed is None:
            _may_not_list(view, kind_name(resource), diagnostics)
        for gang in parsed(listed or (), parse, diagnostics.unreadable):
            state.put_gang(gang)
    parse_pod = pod_parser(client)
    for raw in list_raw(client, PODS, ListScope("" if whole else namespace)):
        for pod in parsed([raw], parse_pod, diagnostics.unreadable):
            state.put_pod(pod)
            raws[pod.uid] = bytes(raw)
    return sources


def _read_config_maps(
    client: ListClient,
    view: GroupView,
    namespace: str,
    trees: Sequence[msgspec.Raw],
    diagnostics: Diagnostics,
) -> list[ConfigMap]:
    """Put the ConfigMaps of `trees`, which hold topologies, and those of groups, which are read here.

    Returns those that trees come from.
    """
    state = view.state
    groups = list_or_none(client, CONFIG_MAPS, ListScope(namespace, labels=SAKKARA_GROUP_LABEL))
    if groups is None:
        _may_not_list(view, f"{CONFIG_MAPS.plural} in {namespace or 'all'} namespace", diagnostics)
    sources = []
    for found in parsed([*trees, *(groups or ())], parse_config_map, diagnostics.unreadable):
        for gang in state.config_maps.put(found).come:
            state.put_gang(gang)
        source = state.topology.source(found.namespace)
        sources += [source] if source is not None else []
    return sources


def _may_not_list(view: GroupView, kind: str, diagnostics: Diagnostics) -> None:
    view.unread.append(kind)
    diagnostics.note(f"note: you may not list {kind}: such groups are not shown")
