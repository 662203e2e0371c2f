"""PodDisruptionBudget: which evictions would hurt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.meta import Wire, decode
from scheduler_core.model.selectors import LabelSelectorWire, Selector, parse_selector

KIND = "PodDisruptionBudget"


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    selector: LabelSelectorWire | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    disruptions_allowed: int = 0
    disrupted_pods: dict[str, Any] | None = None


class PdbWire(Wire, frozen=True, rename="camel"):
    """A PodDisruptionBudget, partial."""

    spec: _SpecWire = _SpecWire()
    status: _StatusWire = _StatusWire()


class PodDisruptionBudget(msgspec.Struct, frozen=True, eq=False):
    """A budget: pods of its namespace that match may be disrupted `allowed` times now.

    `disrupted` are names of pods whose disruption is counted already.
    """

    namespace: str
    name: str
    selector: Selector
    allowed: int
    disrupted: frozenset[str]

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def parse_pdb(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> PodDisruptionBudget:
    """Read a budget from JSON bytes or a dict. Raises ModelError naming the budget and the field."""
    wire = decode(raw, PdbWire, KIND)
    meta = wire.metadata
    try:
        selector = parse_selector(wire.spec.selector, "spec.selector")
    except ModelError as error:
        raise error.within(KIND, meta.namespace, meta.name, meta.uid) from None
    return PodDisruptionBudget(
        namespace=meta.namespace or "default",
        name=meta.name,
        selector=selector,
        allowed=wire.status.disruptions_allowed,
        disrupted=frozenset(wire.status.disrupted_pods or ()),
    )
