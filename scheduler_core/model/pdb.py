"""PodDisruptionBudget, typed: the evictions that it allows."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.model.kinds import POD_DISRUPTION_BUDGETS
from scheduler_core.model.meta import ApiObject, NamespacedObject, ObjectMeta, OwnerReference, Raw, parse
from scheduler_core.model.names import GANG_BUDGET_PREFIX, PROTECTED_GROUP_LABEL
from scheduler_core.model.selectors import (
    EVERYTHING,
    LabelSelectorWire,
    Selector,
    parse_selector,
    selector_size,
    too_many_selected,
    wire_size,
)


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    selector: LabelSelectorWire | None = None
    min_available: int | str | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] | None = None


class _PdbWire(ApiObject, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class PodDisruptionBudget(NamespacedObject, frozen=True, eq=False):
    """A budget: pods of its namespace that match may be disrupted `allowed` times now.

    `disrupted` are names of pods whose disruption is counted already. `gang` is the uid of the group for
    which Muster made it, empty for the budgets of others; `group` is that group's name. `values` is how many
    requirements and values the selector has; `left_out` says that it is too large to be read, so that the
    budget protects all pods of its namespace.
    """

    selector: Selector
    allowed: int
    disrupted: frozenset[str]
    uid: str = ""
    min_available: int | str | None = None
    gang: str = ""
    group: str = ""
    values: int = 0
    left_out: str = ""


def parse_pdb(raw: Raw) -> PodDisruptionBudget:
    """Read a budget from JSON bytes or a dict. Raises ModelError naming the budget and the field."""
    return parse(raw, _PdbWire, POD_DISRUPTION_BUDGETS, _budget_from)


def _budget_from(wire: _PdbWire) -> PodDisruptionBudget:
    meta = wire.metadata
    owner = _protected_group(meta)
    problem = too_many_selected(wire_size(wire.spec.selector))
    selector = EVERYTHING if problem else parse_selector(wire.spec.selector, "spec.selector")
    budget = PodDisruptionBudget(
        namespace=meta.namespace or "default",
        name=meta.name,
        selector=selector,
        allowed=wire.status.disruptions_allowed,
        disrupted=frozenset(wire.status.disrupted_pods or ()),
        uid=meta.uid,
        min_available=wire.spec.min_available,
        gang=owner.uid if owner is not None else "",
        group=owner.name if owner is not None else "",
        values=selector_size(selector),
    )
    return (
        protecting_all(budget, f"PodDisruptionBudget {budget.key}: spec.selector: {problem}")
        if problem
        else budget
    )


def protecting_all(budget: PodDisruptionBudget, problem: str) -> PodDisruptionBudget:
    """The budget as one of all pods of its namespace; `problem` says why its selector is not read."""
    return msgspec.structs.replace(budget, selector=EVERYTHING, values=0, left_out=problem)


def _protected_group(meta: ObjectMeta) -> OwnerReference | None:
    """The group for which Muster created a budget; name, label and owner must agree."""
    marked = (meta.labels or {}).get(PROTECTED_GROUP_LABEL, "")
    if not marked or meta.name != GANG_BUDGET_PREFIX + marked:
        return None
    return next((owner for owner in meta.owner_references or () if owner.uid == marked), None)
