"""The amounts in one row of `elasticquota get`, computed from the quota ledger without I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Final

import msgspec

from kubectl_plugin.cluster.held_quota import HeldQuota
from kubectl_plugin.cluster.nominated_nodes import NominatedNodes
from scheduler_core.model.kinds import QUOTA_FLAVORS, QUOTA_GROUPS
from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, LastReclaim
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import above_max, borrowed

_FIRST: Final = ("cpu", "memory", "ephemeral-storage", "pods")

# The amounts of a row that nothing is known of without the pods that use the resource.
UNCOUNTED: Final = (
    "used",
    "pending",
    "borrowed",
    "lent",
    "reclaimable",
    "above_max",
    "entitled",
)

# resource -> namespace -> amount
ByNamespace = Mapping[str, Mapping[str, int]]


class QuotaRow(msgspec.Struct, frozen=True):
    """One row: amounts of one resource in its own unit (milli for CPU). None: no limit, or unknown.

    - `used` and `pending`: unknown where the pods of the namespace could not be read
    - all of what a flavor is used: unknown where its nodes could not be read (`flavors_known` is False)
    - `hard`: smallest limit of the ResourceQuotas without scopes; unknown unless `hard_known`
    - `borrowed`: use above min; `above_max`: use above max
    - `lent`: the part of this quota's unused min that other quotas use
    - `reclaimable`: the part of `borrowed` that its lenders can take back now
    - `reserved`: what PodGroups of the namespace hold beyond their pods
    - `pending`: requests of pods without a node
    - `weight` of the quota, its `share` in the resource, and the amount that it is `entitled` to; None for
      both where no sum of min limits the resource (`limited`)
    - `nominated`: groups of the namespace that nodes are kept for
    - `holds`: groups of the namespace that quota is held for
    - `reclaim`: what was last taken back from the quota
    - `binding`: False if an older quota of the namespace is in effect; this one neither borrows nor lends

    A quota without resources has one row with an empty `resource`.
    """

    namespace: str
    name: str
    resource: str
    used: int | None
    min: int
    max: int | None
    hard: int | None
    borrowed: int | None
    lent: int | None
    reclaimable: int | None
    pending: int | None
    binding: bool
    created: float
    hard_known: bool = True
    reserved: int | None = None
    above_max: int | None = None
    nominated: tuple[NominatedNodes, ...] = ()
    holds: tuple[HeldQuota, ...] = ()
    reclaim: LastReclaim | None = None
    weight: Fraction = Fraction(1)
    share: Fraction | None = None
    entitled: int | None = None
    limited: bool = True
    flavors_known: bool = True


def known_part(row: QuotaRow, hidden: frozenset[str]) -> QuotaRow:
    """The row without the amounts that depend on kinds that were not read, by plural name.

    Shares and entitlements are parts of the min of groups; the use of a flavor is that of its nodes.
    """
    if QUOTA_GROUPS.plural in hidden:
        row = msgspec.structs.replace(row, share=None, entitled=None, limited=bool(row.resource))
    if QUOTA_FLAVORS.plural in hidden and row.resource.startswith(FLAVOR_PREFIX):
        row = msgspec.structs.replace(row, **dict.fromkeys((*UNCOUNTED, "share")), flavors_known=False)
    return row


def resource_order(names: Iterable[str]) -> list[str]:
    """cpu, memory, ephemeral-storage and pods first, then the others by name."""
    rank = {name: position for position, name in enumerate(_FIRST)}
    return sorted(names, key=lambda name: (rank.get(name, len(_FIRST)), name))


def smallest_hard(natives: Iterable[ResourceQuota]) -> dict[str, int]:
    """Smallest `hard` of requests per resource, over the ResourceQuotas without scopes."""
    out: dict[str, int] = {}
    for native in natives:
        if not native.scoped:
            for name, (_, value) in native.hard_of_requests().items():
                out[name] = min(value, out.get(name, value))
    return out


def rows_of(
    quota: ElasticQuota,
    ledger: QuotaLedger,
    *,
    hard: ResourceList | None,
    pending: ResourceList,
    lent: ByNamespace | None,
    reclaimable: ByNamespace | None,
    reserved: ResourceList | None = None,
    nominated: tuple[NominatedNodes, ...] = (),
    holds: tuple[HeldQuota, ...] = (),
    shares: Mapping[str, Fraction] | None = None,
    entitled: ByNamespace | None = None,
) -> list[QuotaRow]:
    """The rows of a quota: one per resource of its min and max, or that it uses of the min of others.

    None for what could not be read: `hard` without the ResourceQuotas, `reserved` without the ledgers, and
    `lent`, `reclaimable`, `shares` and `entitled` without the quotas and pods of the whole cluster.
    """
    used = ledger.used(quota.namespace)
    binding = ledger.quota_of(quota.namespace)
    binds = binding is not None and binding.name == quota.name
    over = borrowed(ledger, quota) if binds else {}
    limited = ledger.total_min if binds else ()
    beyond = above_max(ledger, quota)

    def amount(amounts: ByNamespace | None, name: str) -> int | None:
        return amounts.get(name, {}).get(quota.namespace, 0) if binds and amounts is not None else None

    return [
        QuotaRow(
            namespace=quota.namespace,
            name=quota.name,
            resource=name,
            used=used.get(name, 0),
            min=quota.min.get(name, 0),
            max=quota.max.get(name),
            hard=hard.get(name) if hard is not None else None,
            borrowed=over.get(name, 0) if binds else None,
            lent=amount(lent, name),
            reclaimable=amount(reclaimable, name),
            pending=pending.get(name, 0),
            binding=binds,
            created=quota.created,
            hard_known=hard is not None,
            reserved=reserved.get(name, 0) if reserved is not None else None,
            above_max=beyond.get(name, 0) if binds and name in quota.max else None,
            nominated=nominated,
            holds=holds,
            reclaim=quota.last_reclaim,
            weight=quota.sharing.weight,
            share=shares.get(name, Fraction()) if shares is not None and name in limited else None,
            entitled=amount(entitled, name) if name in limited else None,
            limited=name in limited,
        )
        for name in resource_order({*quota.min, *quota.max, *over}) or [""]
    ]
