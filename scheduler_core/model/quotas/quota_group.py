"""QuotaGroup, typed: a node of the tree above the ElasticQuotas (docs/quota-trees.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import ObjectCondition
from scheduler_core.model.kinds import QUOTA_GROUPS
from scheduler_core.model.meta import ApiObject, ClusterObject, Raw, parse
from scheduler_core.model.quotas.sharing import WEIGHT_RULE, weight_of
from scheduler_core.model.resources import (
    MAX_RESOURCES,
    check_count,
    fractions,
    parse_resource_list,
    quota_amounts,
)

KIND: Final = "QuotaGroup"
# The most groups on the way from the root to a quota.
MAX_DEPTH: Final = 4
# Limits the resources in the lists of the status.
_MOST: Final = 16 * MAX_RESOURCES


class _GroupSpecWire(msgspec.Struct, frozen=True, rename="camel"):
    parent: str = ""
    min: dict[str, Any] | None = None
    max: dict[str, Any] | None = None
    lendable: dict[str, Any] | None = None
    weight: str | float | int | None = None


class _GroupStatusWire(msgspec.Struct, frozen=True, rename="camel"):
    used: dict[str, Any] | None = None
    borrowed: dict[str, Any] | None = None
    lent: dict[str, Any] | None = None
    conditions: tuple[ObjectCondition, ...] | None = None


class _QuotaGroupWire(ApiObject, frozen=True, rename="camel"):
    spec: _GroupSpecWire | None = None
    status: _GroupStatusWire | None = None


class GroupUse(msgspec.Struct, frozen=True):
    """`status` of a group: what its quotas use, what it borrows of others, and what it lends to others."""

    used: dict[str, int] = {}
    borrowed: dict[str, int] = {}
    lent: dict[str, int] = {}


class QuotaGroup(ClusterObject, frozen=True, eq=False):
    """A group of quotas and groups. A resource absent from `max` is unlimited, absent from `min` it is 0;
    absent from `lendable`, all of min may be lent.

    `parent` is the name of the group above, empty for a child of the root. `weight` divides the share.
    `fractional` are the fields with fractions of what is counted, with their texts; they are rounded down.
    `status` and `conditions` are what the object says, kept only to know whether it must be written again.
    """

    uid: str
    resource_version: str
    generation: int
    parent: str
    min: dict[str, int]
    max: dict[str, int]
    lendable: dict[str, int]
    weight: Fraction
    deleted: bool
    status: GroupUse = GroupUse()
    conditions: tuple[ObjectCondition, ...] = ()
    fractional: tuple[tuple[str, str], ...] = ()

    def rules(self) -> tuple[str, dict[str, int], dict[str, int], dict[str, int], Fraction]:
        """What decides: two groups of equal rules decide alike."""
        return (self.parent, self.min, self.max, self.lendable, self.weight)


def _group_from(wire: _QuotaGroupWire) -> QuotaGroup:
    meta, spec = wire.metadata, wire.spec or _GroupSpecWire()
    status = wire.status or _GroupStatusWire()
    weight = Fraction(1) if spec.weight is None else weight_of(str(spec.weight))
    if weight is None:
        raise ModelError("spec.weight", f"{spec.weight!r} {WEIGHT_RULE}")
    return QuotaGroup(
        name=meta.name,
        uid=meta.uid or meta.name,
        resource_version=meta.resource_version,
        generation=meta.generation,
        parent=spec.parent,
        min=quota_amounts(spec.min, "spec.min"),
        max=quota_amounts(spec.max, "spec.max"),
        lendable=quota_amounts(spec.lendable, "spec.lendable"),
        weight=weight,
        deleted=meta.deletion_timestamp is not None,
        status=_use_from(status),
        conditions=status.conditions or (),
        fractional=(
            *fractions(spec.min, "spec.min"),
            *fractions(spec.max, "spec.max"),
            *fractions(spec.lendable, "spec.lendable"),
        ),
    )


def _use_from(status: _GroupStatusWire) -> GroupUse:
    """The amounts of the status; none if they cannot be read: they will be written again."""
    try:
        for name, amounts in (("used", status.used), ("borrowed", status.borrowed), ("lent", status.lent)):
            check_count(amounts, f"status.{name}", _MOST)
        return GroupUse(
            parse_resource_list(status.used, "status.used"),
            parse_resource_list(status.borrowed, "status.borrowed"),
            parse_resource_list(status.lent, "status.lent"),
        )
    except ModelError:
        return GroupUse()


def parse_quota_group(raw: Raw) -> QuotaGroup:
    """Read a QuotaGroup from JSON bytes or a dict. Raises ModelError naming the group and the field."""
    return parse(raw, _QuotaGroupWire, QUOTA_GROUPS, _group_from)
