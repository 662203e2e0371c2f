"""Lending in a tree of quotas, level by level (docs/quota-trees.md#lending).

Per resource and level: what the quotas and groups of one parent use above their min comes first from the
part of the parent's min that no child is guaranteed, then from what their siblings leave unused, pro rata
(integers by the largest remainder, ties by name), and the rest from the level above: there the parent borrows
it. What a group lends there comes from its own part first, then from its children.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.quota.ledger import QuotaLedger, shift
from scheduler_core.quota.lending import apportion, named_resources
from scheduler_core.quota.tree import ROOT


class LevelLoan(msgspec.Struct, frozen=True):
    """An amount of one resource that a borrower uses below a parent; ROOT is the parent of the highest level.

    Borrowers and lenders are names of groups, or namespaces of quotas (`namespace/`). The lender may be the
    parent itself: its own part of its min, which no child is guaranteed. The borrower is the parent itself
    for what the parent lends on, at the level above.
    """

    resource: str
    parent: str
    lender: str
    borrower: str
    amount: int


class TreeLending(msgspec.Struct, frozen=True):
    """All loans, level by level from the root; and per node and resource what it borrows and lends."""

    loans: tuple[LevelLoan, ...]
    above_min: dict[str, dict[str, int]]
    from_min: dict[str, dict[str, int]]

    def borrowed(self, node: str) -> dict[str, int]:
        """What a node uses above its min, per resource; zeros are left out."""
        return self.above_min.get(node, {})

    def lent(self, node: str) -> dict[str, int]:
        """What siblings of a node use of its min, per resource; zeros are left out."""
        return self.from_min.get(node, {})


class _Node(msgspec.Struct):
    """A child of a level: its name, its min, its use, and the least that it keeps."""

    name: str
    min: int
    used: int
    keeps: int = 0


def tree_lending(ledger: QuotaLedger) -> TreeLending:
    """Who borrows and lends at every level of the tree."""
    loans: list[LevelLoan] = []
    above: dict[str, dict[str, int]] = {}
    lent: dict[str, dict[str, int]] = {}
    # What each node lends to its siblings or on, per resource: its children have to provide it.
    passed: dict[tuple[str, str], int] = {}
    names = sorted({*named_resources(ledger), *ledger.total_min})
    quotas: dict[str, list[ElasticQuota]] = {}
    for quota in ledger.quotas():
        groups = ledger.groups_above(quota.namespace)
        quotas.setdefault(groups[0].name if groups else ROOT, []).append(quota)
    for parent, own_min in _parents(ledger):
        for name in names:
            below = quotas.get(parent, ())
            children = sorted(_children(ledger, parent, below, name), key=lambda node: node.name)
            for node in children:
                if node.used > node.min and name in ledger.total_min:
                    above.setdefault(node.name, {})[name] = node.used - node.min
            here = list(
                _of_level(name, parent, own_min.get(name, 0), children, passed.get((parent, name), 0))
            )
            loans += here
            for loan in here:
                if loan.lender != parent:
                    key = (loan.lender, name)
                    passed[key] = passed.get(key, 0) + loan.amount
                    shift(lent.setdefault(loan.lender, {}), {name: loan.amount})
    return TreeLending(tuple(loans), above, lent)


def _parents(ledger: QuotaLedger) -> Iterator[tuple[str, dict[str, int]]]:
    """The parents of all levels from the root down, each with its min; the root has none of its own."""
    yield ROOT, {}
    level = list(ledger.tree.roots)
    while level:
        yield from ((group.name, group.min) for group in level)
        level = [child for group in level for child in group.children]


def _children(ledger: QuotaLedger, parent: str, quotas: Iterable[ElasticQuota], name: str) -> Iterator[_Node]:
    groups = ledger.tree.roots if parent == ROOT else ledger.tree.accounts[parent].children
    for group in groups:
        yield _Node(group.name, group.min.get(name, 0), group.sums.amount(name), group.keeps.get(name, 0))
    for quota in quotas:
        used = ledger.used(quota.namespace).get(name, 0)
        yield _Node(f"{quota.namespace}/", quota.min.get(name, 0), used)


def _of_level(
    name: str, parent: str, own_min: int, children: list[_Node], passed: int
) -> Iterator[LevelLoan]:
    """The loans among the children of one parent, and what they provide of the amount that it lends."""
    want = {node.name: node.used - node.min for node in children if node.used > node.min}
    free = {node.name: left for node in children if (left := node.min - max(node.used, node.keeps)) > 0}
    unassigned = own_min - sum(node.min for node in children)
    own = max(0, unassigned) if parent != ROOT else 0
    total = sum(want.values())
    lent = {parent: min(own, total)} if own and total else {}
    shared = apportion(min(total - sum(lent.values()), sum(free.values())), free)
    lent |= shared
    if passed:
        unlent = {node: amount - shared.get(node, 0) for node, amount in free.items()}
        rest = max(0, passed - (own - lent.get(parent, 0)))
        for lender, amount in apportion(min(rest, sum(unlent.values())), unlent).items():
            yield LevelLoan(name, parent, lender, parent, amount)
    for lender in lent:
        parts = apportion(lent[lender], {key: want[key] for key in sorted(want) if want[key]})
        for borrower, amount in parts.items():
            want[borrower] -= amount
            yield LevelLoan(name, parent, lender, borrower, amount)
