"""The quota of a namespace among all others, for pods that the scheduler does not judge.

The use of others is that of their status. Quotas, and groups of them, count with their max at most, as in the
scheduler (docs/quota-trees.md#rules).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.resources import ResourceList, add, add_to
from scheduler_core.quota.tree import ROOT, parents_of, way_up

_NO_GROUPS: Final[Mapping[str, QuotaGroup]] = {}


class GroupStanding(NamedTuple):
    """A group above a quota: its `max`, and what other quotas below it use."""

    name: str
    max: ResourceList
    others_used: ResourceList


class QuotaStanding(msgspec.Struct, frozen=True, eq=False):
    """The quota in effect in a namespace, and what all others are guaranteed and use.

    `others_min` is the sum of min of the root's children without the min of the quota. `others_used` includes
    what other groups keep back. `groups` are those above the quota, the nearest first.
    """

    quota: ElasticQuota
    others_min: ResourceList = {}
    others_used: ResourceList = {}
    groups: tuple[GroupStanding, ...] = ()

    @property
    def governed(self) -> frozenset[str]:
        """The resources in which a pod of the namespace can be refused."""
        inside = (name for group in self.groups for name in group.max)
        return frozenset({*self.quota.max, *self.quota.min, *self.others_min, *inside})


def standing(
    namespace: str, quotas: Iterable[ElasticQuota], groups: Mapping[str, QuotaGroup] = _NO_GROUPS
) -> QuotaStanding | None:
    """The standing of a namespace among the quotas in effect, one per namespace; None without a quota."""
    own: ElasticQuota | None = None
    others = []
    for quota in quotas:
        if quota.namespace == namespace:
            own = quota
        else:
            others.append(quota)
    if own is None:
        return None
    tree = _Tree([own, *others], others, groups)
    found, used = [], dict[str, int]()
    way = way_up(own.group, tree.parents)
    for below, name in zip((ROOT, *way), way, strict=False):
        used = add(used, tree.used(name, without=below))
        found.append(GroupStanding(name, groups[name].max, used))
    used = add(used, tree.used(ROOT, without=way[-1] if way else ROOT))
    kept = tree.kept(ROOT, frozenset(way))
    total = tree.min(ROOT)
    least = {name: value - own.min.get(name, 0) for name, value in total.items()}
    # A resource that only this quota names is in no sum of others.
    least = {name: value for name, value in least.items() if value or name not in own.min}
    return QuotaStanding(own, least, add(used, kept) if kept else used, tuple(found))


class _Tree:
    """Sums over a tree of quotas: of `min` over all quotas, of use over the others."""

    def __init__(
        self, quotas: Iterable[ElasticQuota], others: Iterable[ElasticQuota], groups: Mapping[str, QuotaGroup]
    ) -> None:
        self._groups = groups
        self.parents = parents_of(groups)
        self._min: dict[str, dict[str, int]] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._children: dict[str, list[str]] = {}
        for name, parent in self.parents.items():
            self._children.setdefault(parent, []).append(name)
        for quota in quotas:
            add_to(self._min.setdefault(self._home(quota), {}), quota.min)
        for quota in others:
            add_to(self._used.setdefault(self._home(quota), {}), _at_most(quota.status_used, quota.max))

    def _home(self, quota: ElasticQuota) -> str:
        return quota.group if quota.group in self._groups else ROOT

    def min(self, group: str) -> dict[str, int]:
        """What a group guarantees; of the root the sum over its children."""
        found = dict(self._min.get(group, {}))
        for child in self._children.get(group, ()):
            add_to(found, self.min(child))
        own = self._groups[group].min if group != ROOT else {}
        return {name: max(found.get(name, 0), own.get(name, 0)) for name in {**found, **own}}

    def used(self, group: str, *, without: str = ROOT) -> dict[str, int]:
        """What the children of a group use, each at most its max; `without` is a group that is left out."""
        found = dict(self._used.get(group, {}))
        for child in self._children.get(group, ()):
            if child != without:
                add_to(found, _at_most(self.used(child), self._groups[child].max))
        return found

    def kept(self, group: str, above: frozenset[str]) -> dict[str, int]:
        """What the highest groups below `group` that are not in `above` keep back of quotas below `above`."""
        found: dict[str, int] = {}
        for child in self._children.get(group, ()):
            add_to(found, self.kept(child, above) if child in above else self._keeps(child))
        return found

    def _keeps(self, group: str) -> dict[str, int]:
        inside = self.kept(group, frozenset())
        lendable = self._groups[group].lendable
        if not lendable:
            return inside
        least, used = self.min(group), self.used(group)
        for name, most in lendable.items():
            own = least.get(name, 0) - most - used.get(name, 0)
            if own > inside.get(name, 0):
                inside[name] = own
        return inside


def _at_most(amounts: ResourceList, limits: ResourceList) -> dict[str, int]:
    return {name: min(value, limits.get(name, value)) for name, value in amounts.items()}
