"""The figures of one quota and resource, out of the ledger. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from kubectl_plugin.kept_nodes import KeptNodes
from scheduler_core.model.elastic_quota import ElasticQuota
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.ledger import QuotaLedger
from scheduler_core.quota.policy import above_max, borrowed

_FIRST: Final = ("cpu", "memory", "ephemeral-storage", "pods")

# resource -> namespace -> amount
ByNamespace = Mapping[str, Mapping[str, int]]


class Figures(msgspec.Struct, frozen=True):
    """One row: amounts of one resource in its own unit (milli for CPU). None: no limit, or not known.

    `hard` is the smallest limit of the native quotas that count every pod, if `hard_known`, `reserved` what
    PodGroups hold in the namespace beyond their pods. `borrowed` is use above min, `above_max` use above max,
    `lent` what others use of this quota's unused min, `reclaimable` the part of `borrowed` that its lenders
    could take back now, `pending` what pods without a node ask for, `keepers` groups of the namespace that
    nodes are kept for. `binding` is False where an older quota of the namespace binds instead; such a quota
    neither borrows nor lends. A quota that names no resource has one row with an empty `resource`.
    """

    namespace: str
    name: str
    resource: str
    used: int
    min: int
    max: int | None
    hard: int | None
    borrowed: int | None
    lent: int | None
    reclaimable: int | None
    pending: int
    binding: bool
    created: float
    hard_known: bool = True
    reserved: int | None = None
    above_max: int | None = None
    keepers: tuple[KeptNodes, ...] = ()


def resource_order(names: Iterable[str]) -> list[str]:
    """cpu, memory, ephemeral-storage and pods first, then the others by name."""
    rank = {name: position for position, name in enumerate(_FIRST)}
    return sorted(names, key=lambda name: (rank.get(name, len(_FIRST)), name))


def smallest_hard(natives: Iterable[ResourceQuota]) -> dict[str, int]:
    """Per requested resource the smallest `hard` of the ResourceQuotas that count every pod."""
    out: dict[str, int] = {}
    for native in natives:
        if not native.scoped:
            for name, (_, value) in native.hard_of_requests().items():
                out[name] = min(value, out.get(name, value))
    return out


def figures(
    quota: ElasticQuota,
    ledger: QuotaLedger,
    *,
    hard: ResourceList | None,
    pending: ResourceList,
    lent: ByNamespace | None,
    reclaimable: ByNamespace | None,
    reserved: ResourceList | None = None,
    keepers: tuple[KeptNodes, ...] = (),
) -> list[Figures]:
    """The rows of a quota, one per resource that it names, or uses of what only others are guaranteed.

    `hard` is None where the native quotas could not be read, `reserved` where the ledgers could not, `lent`
    and `reclaimable` are None where the quotas and pods of the whole cluster could not.
    """
    used = ledger.used(quota.namespace)
    binding = ledger.quota_of(quota.namespace)
    binds = binding is not None and binding.name == quota.name
    over = borrowed(ledger, quota) if binds else {}
    beyond = above_max(ledger, quota)

    def share(shares: ByNamespace | None, name: str) -> int | None:
        return shares.get(name, {}).get(quota.namespace, 0) if binds and shares is not None else None

    return [
        Figures(
            namespace=quota.namespace,
            name=quota.name,
            resource=name,
            used=used.get(name, 0),
            min=quota.min.get(name, 0),
            max=quota.max.get(name),
            hard=hard.get(name) if hard is not None else None,
            borrowed=over.get(name, 0) if binds else None,
            lent=share(lent, name),
            reclaimable=share(reclaimable, name),
            pending=pending.get(name, 0),
            binding=binds,
            created=quota.created,
            hard_known=hard is not None,
            reserved=reserved.get(name, 0) if reserved is not None else None,
            above_max=beyond.get(name, 0) if binds and name in quota.max else None,
            keepers=keepers,
        )
        for name in resource_order({*quota.min, *quota.max, *over}) or [""]
    ]
