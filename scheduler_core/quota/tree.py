"""The tree of QuotaGroups above the quotas: which groups stand above which (docs/quota-trees.md).

Groups whose parents do not exist, or form a cycle, are children of the root. So every group and every quota
has exactly one way up, whatever is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from scheduler_core.model.quotas.quota_group import QuotaGroup
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.use_sums import Share, UseSums

# The parent of groups and quotas that have none.
ROOT: Final = ""


def parents_of(groups: Mapping[str, QuotaGroup]) -> dict[str, str]:
    """The parent of every group, by name; ROOT for a parent that does not exist, and in a cycle."""
    found = {name: group.parent if group.parent in groups else ROOT for name, group in groups.items()}
    for name in in_cycles(found):
        found[name] = ROOT
    return found


def in_cycles(parents: Mapping[str, str]) -> list[str]:
    """The names that are their own ancestors, sorted."""
    return sorted(name for name in parents if name in _above(name, parents))


def _above(name: str, parents: Mapping[str, str]) -> set[str]:
    """All ancestors of a group; it is one of them in a cycle."""
    seen: set[str] = set()
    at = parents.get(name, ROOT)
    while at != ROOT and at not in seen:
        seen.add(at)
        at = parents.get(at, ROOT)
    return seen


def way_up(name: str, parents: Mapping[str, str]) -> tuple[str, ...]:
    """A group and the groups above it, the nearest first; empty for a name that is no group.

    `parents` has no cycle.
    """
    found = []
    while name in parents:
        found.append(name)
        name = parents[name]
    return tuple(found)


def cycle_of(name: str, groups: Mapping[str, QuotaGroup]) -> tuple[str, ...]:
    """The cycle that a group is in: itself, its parent and so on up to itself; empty for none."""
    found = [name]
    at = groups[name].parent if name in groups else ROOT
    while at in groups and at not in found:
        found.append(at)
        at = groups[at].parent
    return (*found, name) if at == name else ()


class GroupAccount:
    """One group with the sums of the quotas below it.

    `min` is what the group guarantees: its own min, and at least the sum of what its children guarantee, so
    that no quota loses its min by a group that says less. `keeps` is the part of it that must not be lent;
    `holds_back`: this or a group below it keeps something.
    `parent` is None for a child of the root. `namespaces` are those of all quotas below it.
    """

    __slots__ = ("children", "group", "holds_back", "keeps", "min", "namespaces", "parent", "sums")

    def __init__(self, group: QuotaGroup) -> None:
        self.group = group
        self.parent: GroupAccount | None = None
        self.children: list[GroupAccount] = []
        self.min: dict[str, int] = {}
        self.keeps: dict[str, int] = {}
        self.holds_back = False
        self.namespaces: frozenset[str] = frozenset()
        self.sums = UseSums()

    @property
    def name(self) -> str:
        """The name of the group."""
        return self.group.name

    @property
    def guaranteed(self) -> ResourceList:
        """`min`. Read only."""
        return self.min

    def way_up(self) -> Iterator[GroupAccount]:
        """The group and those above it, the nearest first."""
        at: GroupAccount | None = self
        while at is not None:
            yield at
            at = at.parent

    def shares(self, name: str) -> tuple[Share, Share]:
        """What the group adds to the sums above it, at most its max; of this the part without guarantee."""
        return self.sums.shares(name, self.group.max.get(name))

    def above_max(self, name: str, *, after_leaving: bool = False, guaranteed: bool = False) -> int:
        """What the quotas below use of a resource above the max of the group, read as by `UseSums.amount`."""
        limit = self.group.max.get(name)
        if limit is None:
            return 0
        return max(0, self.sums.amount(name, after_leaving=after_leaving, guaranteed=guaranteed) - limit)

    def guarantee(self, children: Iterable[ResourceList]) -> None:
        """Set `min` and `keeps`, by what the children guarantee."""
        least: dict[str, int] = {}
        for amounts in children:
            for name, value in amounts.items():
                least[name] = least.get(name, 0) + value
        own = self.group.min
        self.min = {name: max(own.get(name, 0), least.get(name, 0)) for name in {**own, **least}}
        self.keeps = {
            name: value - most
            for name, value in self.min.items()
            if (most := self.group.lendable.get(name)) is not None and value > most
        }
        self.holds_back = bool(self.keeps) or any(child.holds_back for child in self.children)
