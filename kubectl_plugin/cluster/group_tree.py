"""The tree of groups and quotas of the whole cluster, with what each of them uses, borrows and lends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kubectl_plugin.cluster.diagnostics import Diagnostics
from kubectl_plugin.cluster.reading import ListClient, ListScope, list_if_served, parsed
from kubectl_plugin.render.quantity_text import human
from scheduler_core.model.kinds import QUOTA_GROUPS
from scheduler_core.model.quotas.quota_group import QuotaGroup, parse_quota_group
from scheduler_core.model.resources import ResourceList, to_strings
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.tree import ROOT
from scheduler_core.quota.tree_lending import TreeLending, tree_lending

UNKNOWN_GROUPS = "note: groups of quotas are not shown: you may not list quotagroups"


class TreeEntry(msgspec.Struct, frozen=True):
    """A group or a quota in the tree. `level` counts the groups above it."""

    kind: str
    name: str
    level: int
    min: ResourceList
    max: ResourceList
    used: ResourceList
    borrowed: ResourceList
    lent: ResourceList

    def resources(self) -> list[str]:
        """The resources that min and max name, and those that it borrows, by name."""
        return sorted({*self.min, *self.max, *self.borrowed})

    def document(self) -> dict[str, Any]:
        """The entry for JSON, with exact quantities."""
        fields = ("min", "max", "used", "borrowed", "lent")
        amounts = {name: to_strings(getattr(self, name)) for name in fields}
        return {"kind": self.kind, "name": self.name, **amounts}

    def cells(self) -> Iterator[tuple[str, ...]]:
        """One row per resource: name, resource, min, used, max, borrowed, lent."""

        def text(amounts: ResourceList, name: str, absent: str = "-") -> str:
            return human(name, amounts[name]) if name in amounts else absent

        label = "  " * self.level + self.name
        names = self.resources()
        if not names:
            yield (label, *["-"] * 6)
        for name in names:
            row = (text(self.min, name, "0"), text(self.used, name, "0"), text(self.max, name))
            yield (label, name, *row, text(self.borrowed, name), text(self.lent, name))


class GroupFigure(msgspec.Struct, frozen=True):
    """A group of the tree with what is right below it: kind and name of groups and quotas."""

    entry: TreeEntry
    children: tuple[tuple[str, str], ...]

    def document(self) -> dict[str, Any]:
        """The group for JSON, with exact quantities."""
        children = [{"kind": kind, "name": name} for kind, name in self.children]
        return {**self.entry.document(), "children": children}


def quota_groups(client: ListClient, diagnostics: Diagnostics) -> list[QuotaGroup]:
    """The groups of the cluster. None of them, and a note, if the user may not list them."""
    items = list_if_served(client, QUOTA_GROUPS, ListScope())
    if items is None:
        diagnostics.note(UNKNOWN_GROUPS)
    return list(parsed(items or (), parse_quota_group, diagnostics.unreadable))


def entries(ledger: QuotaLedger) -> list[TreeEntry]:
    """All groups and quotas, each group before what it contains, by name."""
    lending = tree_lending(ledger)
    below: dict[str, list[str]] = {}
    for quota in ledger.quotas():
        above = ledger.groups_above(quota.namespace)
        below.setdefault(above[0].name if above else ROOT, []).append(quota.namespace)
    return list(_below(ledger, lending, below, ROOT, 0))


def group_figures(ledger: QuotaLedger) -> list[GroupFigure]:
    """All groups, each before those that it contains, by name."""
    if not ledger.tree:
        return []
    found: list[tuple[TreeEntry, list[tuple[str, str]]]] = []
    # The children of the groups above the entry, from the highest group down.
    above: list[list[tuple[str, str]]] = []
    for entry in entries(ledger):
        del above[entry.level :]
        if above:
            above[-1].append((entry.kind, entry.name))
        if entry.kind == "QuotaGroup":
            above.append([])
            found.append((entry, above[-1]))
    return [GroupFigure(entry, tuple(children)) for entry, children in found]


def _below(
    ledger: QuotaLedger, lending: TreeLending, quotas: dict[str, list[str]], parent: str, level: int
) -> Iterator[TreeEntry]:
    groups = ledger.tree.roots if parent == ROOT else ledger.tree.accounts[parent].children
    for account in groups:
        group = account.group
        used = {name: account.sums.amount(name) for name in {*group.min, *group.max, *ledger.total_min}}
        yield TreeEntry(
            "QuotaGroup",
            group.name,
            level,
            group.min,
            group.max,
            used,
            lending.borrowed(group.name),
            lending.lent(group.name),
        )
        yield from _below(ledger, lending, quotas, group.name, level + 1)
    for namespace in sorted(quotas.get(parent, ())):
        quota = ledger.quota_of(namespace)
        if quota is not None:
            node = f"{namespace}/"
            yield TreeEntry(
                "ElasticQuota",
                quota.key,
                level,
                quota.min,
                quota.max,
                ledger.used(namespace),
                lending.borrowed(node),
                lending.lent(node),
            )
