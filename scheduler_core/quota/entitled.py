"""What each quota is entitled to now, and its share by resource: the figures that people see.

The one place where ledger and waiting work become entitlements, for the command line, the metrics and the
explanations of why work waits (docs/fair-sharing.md#entitlement).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from scheduler_core.model.quotas.elastic_quota import ElasticQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.entitlements import Claimant, entitlements
from scheduler_core.quota.fair_shares import ShareScale, borrows, staying
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.tree import ROOT, GroupAccount

_NOTHING: Final[ResourceList] = {}


def entitled(ledger: QuotaLedger, waiting: Mapping[str, ResourceList]) -> dict[str, dict[str, int]]:
    """The entitlement by resource and namespace, for all binding quotas and all resources with a sum of min.

    `waiting` is by namespace what the ledger does not count yet, charges of pods included (`charged`). What
    a quota asks for is this and its use without the pods on their way out, up to its max; the sum of min is
    divided. In a tree the part of a group is divided among its children, level by level.
    """
    asked: dict[str, list[Claimant]] = {name: [] for name in ledger.total_min}
    below: dict[str, list[str]] = {}
    for quota in ledger.quotas():
        used, more = staying(ledger, quota), waiting.get(quota.namespace, _NOTHING)
        above = ledger.groups_above(quota.namespace)
        below.setdefault(above[0].name if above else ROOT, []).append(quota.namespace)
        for name, claimants in asked.items():
            demand = used.get(name, 0) + more.get(name, 0)
            demand = min(demand, quota.max.get(name, demand))
            least = quota.min.get(name, 0)
            claimants.append(Claimant(quota.namespace, demand, least, quota.sharing.weight))
    if not ledger.tree:
        return {name: entitlements(ledger.total_min[name], claimants) for name, claimants in asked.items()}
    return {name: _Division(ledger, name, claimants, below).found for name, claimants in asked.items()}


class _Division:
    """The division of one resource in a tree; `found` is by namespace, `below` are the quotas by group."""

    def __init__(
        self, ledger: QuotaLedger, name: str, quotas: Iterable[Claimant], below: Mapping[str, list[str]]
    ) -> None:
        self._tree = ledger.tree
        self._name = name
        self._quotas = {claimant.key: claimant for claimant in quotas}
        self._below = below
        self.found: dict[str, int] = {}
        self._divide(ledger.total_min[name], ROOT, ledger.tree.roots)

    def _divide(self, capacity: int, group: str, groups: Sequence[GroupAccount]) -> None:
        own = [self._quotas[namespace] for namespace in self._below.get(group, ())]
        # A namespace has no slash.
        inside = {f"/{child.name}": child for child in groups}
        parts = entitlements(capacity, [*own, *map(self._claimant, groups)])
        for key, part in parts.items():
            child = inside.get(key)
            if child is None:
                self.found[key] = part
            else:
                self._divide(part, child.name, child.children)

    def _claimant(self, group: GroupAccount) -> Claimant:
        """A group asks for what its quotas ask for up to its max, and for what it does not lend."""
        demand = sum(self._quotas[namespace].demand for namespace in self._below.get(group.name, ()))
        demand += sum(self._claimant(child).demand for child in group.children)
        demand = min(demand, group.group.max.get(self._name, demand))
        demand = max(demand, group.keeps.get(self._name, 0))
        return Claimant(f"/{group.name}", demand, group.min.get(self._name, 0), group.group.weight)


def shares_by_resource(ledger: QuotaLedger, scale: ShareScale, quota: ElasticQuota) -> dict[str, Fraction]:
    """The weighted share of a quota in each resource by itself; that of a weight of 0 is not divided.

    The share of the quota is the largest of them. Resources that it does not borrow are left out.
    """
    over = borrows(ledger, quota)
    return {name: scale.fraction(scale.share(over, quota.sharing.weight, {name})) for name in over}
