"""Reads what `kubectl elasticquota tree` shows: quotas, groups, pods and their owners."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.group_status import status_of
from kubectl_plugin.cluster.group_view import GroupView, read_members
from kubectl_plugin.cluster.reading import (
    ListClient,
    ListScope,
    list_if_served,
    list_or_none,
    list_raw,
    parsed,
)
from kubectl_plugin.inspection.owners import Parents, read_parents
from kubectl_plugin.inspection.quota_tree import Chain, TreeNode, nested, owner_nodes, parent_node
from kubectl_plugin.render.table import UNKNOWN
from scheduler_core.model.groups.composite import Composite, parse_composite
from scheduler_core.model.groups.gang import group_of
from scheduler_core.model.kinds import COMPOSITE_POD_GROUPS, ELASTIC_QUOTAS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.quantity import format_resource
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.quota.policy import borrowed

# The state of a group that pods name and that does not exist.
MISSING: Final = "not found"
# CompositePodGroups above a group that are followed; no server stores a deeper tree.
_MOST_COMPOSITES: Final = 8

# By namespace and name.
Composites = Mapping[tuple[str, str], Composite]


class QuotaTree(msgspec.Struct, frozen=True):
    """A quota, and the tree below it; empty for a quota that does not bind."""

    quota: ElasticQuota
    root: TreeNode


def read_trees(client: ListClient, namespace: str, diagnostics: Diagnostics) -> list[QuotaTree]:
    """The trees of the quotas of a namespace (all if empty), by namespace and name.

    Nothing more is read where there is no quota. Raises the ApiError tree.
    """
    listed = list_or_none(client, ELASTIC_QUOTAS, ListScope())
    if listed is None:
        listed = list_raw(client, ELASTIC_QUOTAS, ListScope(namespace))
    # What other quotas guarantee decides which resources can be borrowed.
    quotas = list(parsed(listed, parse_elastic_quota, diagnostics.unreadable))
    own = [quota for quota in quotas if namespace in ("", quota.namespace)]
    if not own:
        return []
    view = read_members(client, namespace, diagnostics)
    for quota in quotas:
        view.state.put_quota(quota)
    pods = _unfinished(view, {quota.namespace for quota in own})
    parents, refused = read_parents(client, namespace, (pod for found in pods.values() for pod in found))
    for plural in refused:
        diagnostics.note(f"note: you may not list {plural}: what controls them is not shown")
    composites = _read_composites(client, namespace, view, diagnostics)
    return [
        QuotaTree(quota, _root(view, quota, pods[quota.namespace], parents, composites))
        for quota in sorted(own, key=lambda quota: (quota.namespace, quota.name))
    ]


def _unfinished(view: GroupView, namespaces: Iterable[str]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {name: [] for name in namespaces}
    for pod in view.state.pods.values():
        if pod.namespace in found and not pod.finished:
            found[pod.namespace].append(pod)
    return found


def _root(
    view: GroupView, quota: ElasticQuota, pods: Sequence[Pod], parents: Parents, composites: Composites
) -> TreeNode:
    ledger = view.state.ledger
    binding = ledger.quota_of(quota.namespace)
    if binding is not None and binding.name != quota.name:
        return parent_node("ElasticQuota", quota.name, (), f"does not bind: {binding.name} is older")
    over = borrowed(ledger, quota)
    resources = {*quota.min, *quota.max, *over}
    amounts = ",".join(f"{name}={format_resource(name, value)}" for name, value in sorted(over.items()))
    state = f"borrows {amounts}" if amounts else "borrows nothing"
    members: dict[str, list[Pod]] = {}
    alone = []
    for pod in pods:
        ref = group_of(pod)
        if ref is None:
            alone.append(pod)
        else:
            members.setdefault(ref.key, []).append(pod)
    groups = _groups(view, quota.namespace, members, parents, composites, resources)
    below = (*groups, *owner_nodes(alone, parents, resources))
    return parent_node("ElasticQuota", quota.name, below, state)


def _groups(
    view: GroupView,
    namespace: str,
    members: dict[str, list[Pod]],
    parents: Parents,
    composites: Composites,
    resources: set[str],
) -> tuple[TreeNode, ...]:
    """The groups of a namespace, also those without pods, and those that pods name and that do not exist."""
    known = {gang.key: gang for gang in view.groups() if gang.ref.namespace == namespace}
    found = []
    for key in {*known, *members}:
        gang, pods = known.get(key), members.get(key, [])
        ref = gang.ref if gang is not None else group_of(pods[0])
        assert ref is not None
        kind = "ConfigMap" if ref.dialect == "ConfigMap" else "PodGroup"
        state = UNKNOWN if view.unread else MISSING
        if gang is not None:
            status = status_of(view, gang)
            state = f"{status.phase} {status.census.allocated}/{gang.min_members}"
        chain = _composite_chain(namespace, gang.parent if gang is not None else "", composites)
        found.append((chain, parent_node(kind, ref.name, owner_nodes(pods, parents, resources), state)))
    return nested(found)


def _composite_chain(namespace: str, name: str, composites: Composites) -> Chain:
    """The CompositePodGroups above a group, the top one first."""
    chain: list[str] = []
    while name and name not in chain and len(chain) < _MOST_COMPOSITES:
        chain.append(name)
        above = composites.get((namespace, name))
        name = above.parent if above is not None else ""
    return tuple((COMPOSITE_POD_GROUPS.kind, item, item) for item in reversed(chain))


def _read_composites(
    client: ListClient, namespace: str, view: GroupView, diagnostics: Diagnostics
) -> dict[tuple[str, str], Composite]:
    """The CompositePodGroups by namespace and name, if a group is below one."""
    if not any(gang.parent for gang in view.groups()):
        return {}
    listed = list_if_served(client, COMPOSITE_POD_GROUPS, ListScope(namespace))
    if listed is None:
        diagnostics.note(f"note: you may not list {COMPOSITE_POD_GROUPS.plural}: some may not be shown")
    found = parsed(listed or (), parse_composite, diagnostics.unreadable)
    return {(item.namespace, item.name): item for item in found}
