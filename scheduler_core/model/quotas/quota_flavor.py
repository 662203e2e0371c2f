"""QuotaFlavor, typed: nodes of one kind of a resource, such as one type of GPU (docs/flavors.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.kinds import QUOTA_FLAVORS
from scheduler_core.model.meta import ApiObject, ClusterObject, Raw, parse
from scheduler_core.model.names import FLAVOR_PREFIX
from scheduler_core.model.quantity import is_counted

KIND: Final = "QuotaFlavor"
MAX_COST: Final = 1_000_000
COST_RULE: Final = f"must be a number above 0 and at most {MAX_COST}, with at most three decimals"
_COST: Final = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?")
# What may follow the prefix in the name of a resource.
NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


class _FlavorSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    resource: str = ""
    node_selector: dict[str, str] | None = None
    cost: str | float | int | None = None


class _FlavorStatusWire(msgspec.Struct, frozen=True, rename="camel"):
    nodes: int = 0
    capacity: int = 0
    used: int = 0
    conditions: tuple[ObjectCondition, ...] | None = None


class _QuotaFlavorWire(ApiObject, frozen=True, rename="camel"):
    spec: _FlavorSpecWire | None = None
    status: _FlavorStatusWire | None = None


class FlavorUse(msgspec.Struct, frozen=True):
    """`status` of a flavor: its nodes, what of the resource they have, and what quotas use of it."""

    nodes: int = 0
    capacity: int = 0
    used: int = 0


class QuotaFlavor(ClusterObject, frozen=True, eq=False):
    """The nodes that have all labels of `selector`: what they have of `resource` counts as `virtual` as well.

    `cost` weighs what is borrowed of it in shares. `status` and `conditions` are what the object says.
    """

    uid: str
    resource_version: str
    generation: int
    created: float
    resource: str
    selector: dict[str, str]
    cost: Fraction
    deleted: bool
    status: FlavorUse = FlavorUse()
    conditions: tuple[ObjectCondition, ...] = ()

    @property
    def virtual(self) -> str:
        """The resource that counts use on nodes of this flavor."""
        return FLAVOR_PREFIX + self.name

    @property
    def age_order(self) -> tuple[float, str]:
        """Sort key of "of flavors that overlap the oldest counts": creation time, then name."""
        return (self.created, self.name)

    def rules(self) -> tuple[str, dict[str, str], Fraction, float]:
        """What decides: two flavors of equal rules and name decide alike."""
        return (self.resource, self.selector, self.cost, self.created)

    def has(self, labels: Mapping[str, str]) -> bool:
        """Whether a node with these labels is of this flavor."""
        return all(labels.get(key) == value for key, value in self.selector.items())


def cost_of(text: str) -> Fraction | None:
    """The cost that a text says, or None if it breaks COST_RULE."""
    cost = Fraction(text) if _COST.fullmatch(text) else Fraction(0)
    return cost if 0 < cost <= MAX_COST else None


def _flavor_from(wire: _QuotaFlavorWire) -> QuotaFlavor:
    meta, spec = wire.metadata, wire.spec or _FlavorSpecWire()
    status = wire.status or _FlavorStatusWire()
    if not NAME.fullmatch(meta.name):
        raise ModelError("metadata.name", f"{meta.name!r} must be a DNS label, as it names a resource")
    if not is_counted(spec.resource) or "/" not in spec.resource:
        raise ModelError("spec.resource", f"{spec.resource!r} must be an extended resource")
    if spec.resource.startswith(FLAVOR_PREFIX):
        raise ModelError("spec.resource", f"{spec.resource!r} must not be that of another flavor")
    if not spec.node_selector:
        raise ModelError("spec.nodeSelector", "must have at least one label")
    cost = Fraction(1) if spec.cost is None else cost_of(str(spec.cost))
    if cost is None:
        raise ModelError("spec.cost", f"{spec.cost!r} {COST_RULE}")
    return QuotaFlavor(
        name=meta.name,
        uid=meta.uid or meta.name,
        resource_version=meta.resource_version,
        generation=meta.generation,
        created=meta.created,
        resource=spec.resource,
        selector=dict(spec.node_selector),
        cost=cost,
        deleted=meta.deletion_timestamp is not None,
        status=FlavorUse(status.nodes, status.capacity, status.used),
        conditions=status.conditions or (),
    )


def parse_quota_flavor(raw: Raw | Mapping[str, Any]) -> QuotaFlavor:
    """Read a QuotaFlavor. Raises ModelError."""
    return parse(raw, _QuotaFlavorWire, QUOTA_FLAVORS, _flavor_from)
