"""Findings of `kubectl elasticquota lint`: broken rules and notes on quotas, groups and scheduler names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.dropped_groups import dropped_groups
from kubectl_plugin.cluster.group_tree import quota_groups
from kubectl_plugin.cluster.missing_schedulers import UNKNOWN_SCHEDULERS, missing_scheduler_notes
from kubectl_plugin.cluster.node_flavors import UNKNOWN_FLAVORS, quota_flavors
from kubectl_plugin.cluster.reading import (
    UNFINISHED,
    ListClient,
    ListScope,
    list_if_served,
    list_or_none,
    list_raw,
    parsed,
)
from kubectl_plugin.live.configuration import config_of_cluster, topology_namespaces
from scheduler_core.errors import ModelError
from scheduler_core.model.config_map import GROUP, ConfigMap, parse_config_map
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.kinds import POD_GROUP_KINDS
from scheduler_core.model.groups.topology import LevelConstraint, TopologySpec, parse_constraints
from scheduler_core.model.kinds import CONFIG_MAPS, ELASTIC_QUOTAS, NODES, PODS, RESOURCE_QUOTAS
from scheduler_core.model.names import (
    SAKKARA_GROUP_LABEL,
    SAKKARA_TOPOLOGY_LABEL,
    TOPOLOGY_CONSTRAINTS_ANNOTATION,
)
from scheduler_core.model.node import parse_node
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.quotas.resource_quota import ResourceQuota, parse_resource_quota
from scheduler_core.quota import validation
from scheduler_core.quota.flavor_validation import (
    Flavors,
    by_name,
    check_group_flavors,
    validate_flavors,
)
from scheduler_core.quota.flavors import flavored, on_node
from scheduler_core.quota.group_validation import Groups, validate_groups
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.shared_resources import risked_guarantees
from scheduler_core.quota.validation import BrokenRule, allocatable, validate_capacity, validate_stored
from scheduler_core.quota.violations import Violation, check_whole

UNKNOWN_CAPACITY: Final = "note: the sum of min is not checked: you may not list all elasticquotas and nodes"
UNREAD: Final = "note: constraints of groups are not checked: you may not list configmaps"
_DATA: Final = "data.constraints"
_ANNOTATION: Final = f"metadata.annotations[{TOPOLOGY_CONSTRAINTS_ANNOTATION}]"


class LintReport(msgspec.Struct, frozen=True):
    """Broken rules, and notes on settings that are legal but may be unintended."""

    violations: tuple[Violation, ...]
    notes: tuple[str, ...]


def report(
    quotas: Sequence[ElasticQuota],
    natives: Sequence[ResourceQuota],
    capacity: Sequence[BrokenRule] = (),
    groups: Groups | None = None,
    flavors: Flavors | None = None,
) -> LintReport:
    """Findings and notes on these quotas, with the findings on the sum of min.

    `groups` are the QuotaGroups by name; None: whether quotas join one rightly is not checked. `flavors` are
    the QuotaFlavors by name; None: whether those that quotas name exist is not checked.
    """
    broken = [*validate_stored(quotas, natives, groups, flavors), *capacity]
    notes = [note for quota in quotas for note in validation.notes(quota, natives)]
    return LintReport(tuple(item.violation for item in broken), tuple(notes))


def lint_quotas(client: ListClient, namespace: str, diagnostics: Diagnostics) -> tuple[int, LintReport]:
    """Number of quotas of a namespace (all if empty), and the findings on them. Raises the ApiError tree."""
    own = ListScope(namespace)
    quotas = list(parsed(list_raw(client, ELASTIC_QUOTAS, own), parse_elastic_quota, diagnostics.unreadable))
    natives = list(
        parsed(list_raw(client, RESOURCE_QUOTAS, own), parse_resource_quota, diagnostics.unreadable)
    )
    everyone = quotas if not namespace else _other_quotas(client, diagnostics)
    nodes = list_or_none(client, NODES, ListScope())
    if everyone is None or nodes is None:
        diagnostics.note(UNKNOWN_CAPACITY)
        return len(quotas), report(quotas, natives)
    ledger = QuotaLedger()
    for group in quota_groups(client, diagnostics):
        ledger.put_group(group)
    for quota in everyone:
        ledger.put_quota(quota)
    flavors = quota_flavors(client)
    if flavors is None:
        diagnostics.note(UNKNOWN_FLAVORS)
    of = flavors or ()
    fitted = (
        flavored(node, on_node(of, node.labels)) for node in parsed(nodes, parse_node, diagnostics.unreadable)
    )
    room = allocatable(fitted)
    groups, named = ledger.tree.groups, by_name(flavors) if flavors is not None else None
    found = report(quotas, natives, validate_capacity(ledger.total_min, room), groups, named)
    if not namespace:
        illegal = tuple(item for _, item in validate_groups(groups, ledger.quotas()))
        illegal += tuple(item for _, item in validate_flavors(named or {}))
        illegal += tuple(
            item
            for group in groups.values()
            if named is not None
            for item in check_group_flavors(group, named)
        )
        found = LintReport((*illegal, *found.violations), found.notes)
    shared = tuple(item.note() for item in risked_guarantees(ledger.quotas(), room))
    return len(quotas), LintReport(found.violations, (*found.notes, *shared))


def _other_quotas(client: ListClient, diagnostics: Diagnostics) -> list[ElasticQuota] | None:
    items = list_or_none(client, ELASTIC_QUOTAS, ListScope())
    if items is None:
        return None
    return list(parsed(items, parse_elastic_quota, lambda error: None))


def lint_cluster(client: ListClient, namespace: str, diagnostics: Diagnostics) -> tuple[int, LintReport]:
    """Number of quotas of a namespace (all if empty), and every finding there. Raises the ApiError tree."""
    count, found = lint_quotas(client, namespace, diagnostics)
    groups = broken_groups(client, namespace, diagnostics)
    notes = missing_scheduler_notes(client, namespace)
    if notes is None:
        diagnostics.note(UNKNOWN_SCHEDULERS)
    pods = list_or_none(client, PODS, ListScope(namespace, fields=UNFINISHED))
    dropped = [str(item) for item in dropped_groups(client, pods or ())]
    return count, LintReport((*found.violations, *groups), (*found.notes, *(notes or ()), *dropped))


class _Group(msgspec.Struct, frozen=True):
    """A group with topology constraints: the field that holds them, their text, and the size of the group."""

    subject: str
    field: str
    text: str
    constraints: tuple[LevelConstraint, ...]
    size: int


def broken_groups(client: ListClient, namespace: str, diagnostics: Diagnostics) -> list[Violation]:
    """Fractions of what is counted, and invalid or unsatisfiable constraints, in a namespace (all if empty).

    Raises the ApiError tree.
    """
    found: list[Violation] = []
    items = list_or_none(client, CONFIG_MAPS, ListScope(namespace, labels=SAKKARA_GROUP_LABEL))
    read = parsed(items or (), parse_config_map, diagnostics.unreadable)
    groups = [*_config_maps(read, found), *_pod_groups(client, namespace, found)]
    trees = list_or_none(client, CONFIG_MAPS, ListScope(labels=SAKKARA_TOPOLOGY_LABEL)) if groups else []
    if items is None or trees is None:
        diagnostics.note(UNREAD)
    if not groups or trees is None:
        return found
    namespaces = topology_namespaces(config_of_cluster(client).config)
    read = parsed(trees, partial(parse_config_map, topologies=namespaces), diagnostics.unreadable)
    topologies = [(item.key, item.content) for item in read if isinstance(item.content, TopologySpec)]
    return found + _refused(client, groups, topologies)


def _refused(
    client: ListClient, groups: list[_Group], topologies: list[tuple[str, TopologySpec]]
) -> list[Violation]:
    # Imported here: numpy is needed only for clusters with such groups.
    from scheduler_core.topology.admission import TopologyRequest, refusals

    labels: frozenset[str] = frozenset()
    if not topologies:
        nodes = parsed(list_or_none(client, NODES, ListScope()) or (), parse_node, lambda error: None)
        labels = frozenset(label for node in nodes for label in node.labels)
    found: list[Violation] = []
    for group in groups:
        texts = refusals(
            TopologyRequest(group.constraints, group.size, group.field), topologies, lambda: labels
        )
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


def _pod_groups(client: ListClient, namespace: str, faulty: list[Violation]) -> Iterator[_Group]:
    for resource, parse in POD_GROUP_KINDS:
        items = list_if_served(client, resource, ListScope(namespace))
        for gang in parsed(items or (), parse, lambda error: None):
            subject = f"PodGroup {gang.ref.namespace}/{gang.ref.name}"
            faulty += check_whole(subject, gang.fractional)
            try:
                constraints = parse_constraints(gang.constraints, _ANNOTATION)
            except ModelError as error:
                broken = f"cannot be read: {error.path}: {error.problem}"
                faulty.append(Violation(subject, _ANNOTATION, gang.constraints, broken))
                continue
            if constraints:
                yield _Group(subject, _ANNOTATION, gang.constraints, constraints, gang.min_members)
