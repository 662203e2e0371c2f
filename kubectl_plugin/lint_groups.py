"""`lint` of groups: constraints that can hold on no topology of the cluster, in the words of the webhook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from kubectl_plugin.objects_get import Complaints
from kubectl_plugin.reading import Reader, Scope, list_if_served, list_or_none, parsed
from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import GROUP, ConfigMap, parse_config_map
from scheduler_core.model.gang import Gang, parse_gang, parse_native_gang, parse_x_gang
from scheduler_core.model.kinds import (
    CONFIG_MAPS,
    NATIVE_POD_GROUPS,
    NODES,
    POD_GROUPS,
    X_POD_GROUPS,
    Resource,
)
from scheduler_core.model.names import (
    SAKKARA_GROUP_LABEL,
    SAKKARA_TOPOLOGY_LABEL,
    TOPOLOGY_CONSTRAINTS_ANNOTATION,
)
from scheduler_core.model.node import parse_node
from scheduler_core.model.topology import LevelConstraint, TopologySpec, parse_constraints
from scheduler_core.quota.rules import Violation

UNREAD: Final = "note: constraints of groups are not checked: you may not list configmaps"
_DATA: Final = "data.constraints"
_ANNOTATION: Final = f"metadata.annotations[{TOPOLOGY_CONSTRAINTS_ANNOTATION}]"
_POD_GROUPS: Final[tuple[tuple[Resource, Callable[[msgspec.Raw | bytes], Gang]], ...]] = (
    (POD_GROUPS, parse_gang),
    (X_POD_GROUPS, parse_x_gang),
    (NATIVE_POD_GROUPS, parse_native_gang),
)


class _Group(msgspec.Struct, frozen=True):
    """A group that asks for something: what it is called, where it says what it asks for, and its size."""

    subject: str
    field: str
    text: str
    constraints: tuple[LevelConstraint, ...]
    size: int


def broken_groups(client: Reader, namespace: str, complaints: Complaints) -> list[Violation]:
    """The groups of a namespace (all if empty) that ask for what can never hold. Raises the ApiError tree."""
    found: list[Violation] = []
    items = list_or_none(client, CONFIG_MAPS, Scope(namespace, labels=SAKKARA_GROUP_LABEL))
    read = parsed(items or (), parse_config_map, complaints.about_content)
    groups = [*_config_maps(read, found), *_pod_groups(client, namespace, found)]
    trees = list_or_none(client, CONFIG_MAPS, Scope(labels=SAKKARA_TOPOLOGY_LABEL)) if groups else []
    if items is None or trees is None:
        complaints.note(UNREAD)
    if not groups or trees is None:
        return found
    read = parsed(trees, parse_config_map, complaints.about_content)
    topologies = [(item.key, item.content) for item in read if isinstance(item.content, TopologySpec)]
    return found + _refused(client, groups, topologies)


def _refused(
    client: Reader, groups: list[_Group], topologies: list[tuple[str, TopologySpec]]
) -> list[Violation]:
    # Imported here: only clusters with such groups pay for the arrays.
    from scheduler_core.topology.admission import Wish, refusals

    labels: frozenset[str] = frozenset()
    if not topologies:
        nodes = parsed(list_or_none(client, NODES, Scope()) or (), parse_node, lambda error: None)
        labels = frozenset(label for node in nodes for label in node.labels)
    found: list[Violation] = []
    for group in groups:
        texts = refusals(Wish(group.constraints, group.size, group.field), topologies, lambda: labels)
        if texts:
            asked = " ".join(group.text.split())
            found.append(Violation(group.subject, group.field, asked, f"cannot hold: {'; '.join(texts)}"))
    return found


def _config_maps(read: Iterator[ConfigMap], faulty: list[Violation]) -> Iterator[_Group]:
    for found in read:
        subject, text = f"ConfigMap {found.key}", found.data.get("constraints", "")
        if found.fault is not None and found.role == GROUP:
            faulty.append(_fault(subject, found, found.fault))
        elif isinstance(found.content, Gang) and found.content.group is not None and text:
            group = found.content.group
            yield _Group(subject, _DATA, text, group.constraints, group.size)


def _fault(subject: str, found: ConfigMap, fault: ModelError) -> Violation:
    name = fault.path.removeprefix("data.").partition(".")[0]
    problem = f"cannot be read: {fault.path}: {fault.problem}"
    return Violation(subject, f"data.{name}", " ".join(found.data.get(name, "").split()), problem)


def _pod_groups(client: Reader, namespace: str, faulty: list[Violation]) -> Iterator[_Group]:
    for resource, parse in _POD_GROUPS:
        items = list_if_served(client, resource, Scope(namespace))
        for gang in parsed(items or (), parse, lambda error: None):
            subject = f"PodGroup {gang.ref.namespace}/{gang.ref.name}"
            try:
                constraints = parse_constraints(gang.constraints, _ANNOTATION)
            except ModelError as error:
                broken = f"cannot be read: {error.path}: {error.problem}"
                faulty.append(Violation(subject, _ANNOTATION, gang.constraints, broken))
                continue
            if constraints:
                yield _Group(subject, _ANNOTATION, gang.constraints, constraints, gang.min_members)
