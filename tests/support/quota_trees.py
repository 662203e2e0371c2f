"""Random trees of quotas, and the rules of docs/quota-trees.md computed slowly from the pods themselves."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

GPU = "nvidia.com/gpu"
Raw = dict[str, Any]


class Spec(NamedTuple):
    """A node of a tree: parent, min, max (None: open) and lendable (None: all of min)."""

    parent: str
    min: int
    max: int | None = None
    lendable: int | None = None


class Tree(NamedTuple):
    """Groups and quotas by name; the name of a quota is its namespace."""

    groups: dict[str, Spec]
    quotas: dict[str, Spec]

    def way(self, quota: str) -> list[str]:
        """The groups above a quota, the nearest first."""
        found, at = [], self.quotas[quota].parent
        while at:
            found.append(at)
            at = self.groups[at].parent
        return found

    def used(self, node: str, use: Mapping[str, int]) -> int:
        """What a quota uses, or all that is below a group, each at most its max."""
        if node in self.quotas:
            return use.get(node, 0)
        return sum(self.counted(below, use) for below in self.below(node))

    def below(self, node: str) -> list[str]:
        """The quotas and groups right below a group, or below the root (an empty name)."""
        return [name for name, spec in (*self.groups.items(), *self.quotas.items()) if spec.parent == node]

    def counted(self, node: str, use: Mapping[str, int]) -> int:
        """What a quota or group uses as others see it: at most its max."""
        limit = (self.quotas.get(node) or self.groups[node]).max
        found = self.used(node, use)
        return found if limit is None else min(found, limit)

    def total(self) -> int:
        """The sum of min of the root's children."""
        return sum(spec.min for spec in (*self.groups.values(), *self.quotas.values()) if not spec.parent)

    def refusal(self, quota: str, asked: int, use: Mapping[str, int]) -> str:
        """The rule that refuses a charge, empty if none does."""
        for node in (quota, *self.way(quota)):
            limit = (self.quotas.get(node) or self.groups[node]).max
            if limit is not None and self.used(node, use) + asked > limit:
                return "max" if node == quota else "group max"
        above = self.way(quota)
        highest = [
            name for name, spec in self.groups.items()
            if name not in above and (not spec.parent or spec.parent in above)
        ]  # fmt: skip
        kept = sum(self.kept(name, use) for name in highest)
        total = sum(self.counted(name, use) for name in self.below(""))
        return "sum(min)" if total + asked + kept > self.total() else ""

    def kept(self, group: str, use: Mapping[str, int]) -> int:
        """What a group keeps back of others: of its own, and at least what the groups below it keep back."""
        spec = self.groups[group]
        below = sum(self.kept(name, use) for name, item in self.groups.items() if item.parent == group)
        own = 0 if spec.lendable is None else spec.min - spec.lendable - self.used(group, use)
        return max(below, own)

    def within_min(self, quota: str, asked: int, use: Mapping[str, int]) -> bool:
        """Whether a charge stays within the min of its quota."""
        return use.get(quota, 0) + asked <= self.quotas[quota].min

    def wrongs(
        self, quota: str, asked: int, before: Mapping[str, int], victims: Mapping[str, list[int]]
    ) -> Iterable[str]:
        """What is wrong with victims that a charge took, by namespace and size.

        A charge of one must claim on behalf of a node within its min; for larger ones pods may be too large.
        """
        if victims and not self.within_min(quota, asked, before):
            yield f"{quota} took {victims} though it borrows"
        lost: dict[str, list[int]] = {}
        above = self.way(quota)
        for other, sizes in victims.items():
            for node in [other, *(group for group in self.way(other) if group not in above)]:
                lost.setdefault(node, []).extend(sizes)
        for node, sizes in lost.items():
            low = (self.quotas.get(node) or self.groups[node]).min
            had = self.used(node, before) + sum(
                self.kept(name, before) for name, item in self.groups.items() if item.parent == node
            )
            if had - sum(sizes) + max(sizes) <= low:
                yield f"{node} lost {sizes} of {had}, min {low}"
        after = {name: before.get(name, 0) - sum(victims.get(name, ())) for name in self.quotas}
        after[quota] = after.get(quota, 0) + asked
        for other in victims:
            inside = [group for group in above if group not in self.way(other)]
            if asked == 1 and inside and self.used(inside[-1], after) > self.groups[inside[-1]].min:
                yield f"{inside[-1]} took of {other} though it is over its own min"

    def objects(self) -> Iterable[Raw]:
        """The objects of the API."""
        for name, spec in self.groups.items():
            yield {"kind": "QuotaGroup", "metadata": {"name": name}, "spec": _spec(spec, parent=True)}
        for name, spec in self.quotas.items():
            labels = {"muster.dev/quota-group": spec.parent} if spec.parent else {}
            meta = {"name": "quota", "namespace": name, "labels": labels}
            yield {"kind": "ElasticQuota", "metadata": meta, "spec": _spec(spec, parent=False)}


def _spec(spec: Spec, *, parent: bool) -> Raw:
    amounts = {"min": spec.min, "max": spec.max, "lendable": spec.lendable}
    found: Raw = {name: {GPU: str(value)} for name, value in amounts.items() if value is not None}
    return {**found, "parent": spec.parent} if parent and spec.parent else found


def random_tree(dice: random.Random, *, lendable: bool = True) -> Tree:
    """A legal tree: up to six groups in up to three levels, and two to six quotas."""
    groups: dict[str, list[Any]] = {}
    depth = {"": 0}
    for number in range(dice.randint(0, 5)):
        parent = dice.choice([name for name, level in depth.items() if level < 3])
        groups[f"g{number}"] = [parent, 0]
        depth[f"g{number}"] = depth[parent] + 1
    quotas = {}
    for number in range(dice.randint(2, 6)):
        low = dice.choice([0, 1, 2, 2, 3, 4])
        high = low + dice.randint(0, 4) if dice.random() < 0.3 else None
        quotas[f"q{number}"] = Spec(dice.choice(list(depth)), low, high)
    for name in sorted(groups, key=lambda name: -depth[name]):
        below = sum(spec.min for spec in quotas.values() if spec.parent == name)
        below += sum(low for parent, low in groups.values() if parent == name)
        groups[name][1] = below + dice.choice([0, 0, 1, 2])
    made = {}
    for name, (parent, low) in groups.items():
        high = low + dice.randint(0, 3) if dice.random() < 0.3 else None
        lends = dice.randint(0, low) if lendable and dice.random() < 0.4 else None
        made[name] = Spec(parent, low, high, lends)
    return Tree(made, quotas)
