"""ReservationLedger: what the PodGroups of one namespace have reserved, and which pods are on their way.

One object per namespace and purpose. Its resourceVersion arbitrates between all that admit pods there at the
same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.conditions import rfc3339
from scheduler_core.model.kinds import RESERVATION_LEDGERS
from scheduler_core.model.meta import Wire, decode, epoch
from scheduler_core.model.resources import parse_resource_list, to_strings

KIND: Final = "ReservationLedger"
# What PodGroups have reserved in ResourceQuotas, and pods that draw on the same.
NAME: Final = "reservations"
# Pods and resizes that no scheduler of ours will judge, charged to the ElasticQuota; it has no holds.
ELASTIC_NAME: Final = "elastic"


class Hold(msgspec.Struct, frozen=True):
    """What one PodGroup reserved: `total`, exact integers. `uid` and `since`, its creation, are the group's.

    `done` are the uids of members that ended well, `spent` what they used: it is reserved no more. An `ended`
    hold reserves nothing; it stays until its PodGroup is deleted, so that it is not made again.
    """

    group: str
    uid: str
    min_members: int
    total: dict[str, int]
    since: float = 0.0
    ended: bool = False
    spent: dict[str, int] = {}
    done: tuple[str, ...] = ()


class Charge(msgspec.Struct, frozen=True):
    """A pod that was admitted and may not be visible to everybody yet. `usage` includes one of `pods`."""

    uid: str
    pod: str
    group: str
    usage: dict[str, int]
    best_effort: bool = False


class ReservationLedger(msgspec.Struct, frozen=True):
    """One ledger of a namespace. `resource_version` is empty for one that is not stored; `name` says which
    ledger it is: NAME or ELASTIC_NAME.

    `pods_version`: charges up to that resourceVersion of pods were struck out because the pods are visible;
    a reader whose list of pods is older must read them anew. `held` is the sum of what is still reserved.
    """

    namespace: str
    resource_version: str = ""
    pods_version: str = ""
    holds: tuple[Hold, ...] = ()
    charges: tuple[Charge, ...] = ()
    held: dict[str, int] = {}
    name: str = NAME

    @property
    def active(self) -> bool:
        """Whether anything is reserved or was until now."""
        return any(not hold.ended for hold in self.holds)


class _HoldWire(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    uid: str
    min_members: int = 1
    total_resources: dict[str, Any] | None = None
    since: datetime | None = None
    ended: bool = False
    spent: dict[str, Any] | None = None
    done: tuple[str, ...] | None = None


class _ChargeWire(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    pod: str = ""
    group: str = ""
    usage: dict[str, Any] | None = None
    best_effort: bool = False


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    pods_version: str = ""
    holds: tuple[_HoldWire, ...] | None = None
    charges: tuple[_ChargeWire, ...] | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    held: dict[str, Any] | None = None


class _LedgerWire(Wire, frozen=True, rename="camel"):
    spec: _SpecWire = _SpecWire()
    status: _StatusWire | None = None


def _ledger_from(wire: _LedgerWire) -> ReservationLedger:
    meta, spec, status = wire.metadata, wire.spec, wire.status or _StatusWire()
    if spec.pods_version and not (spec.pods_version.isascii() and spec.pods_version.isdigit()):
        raise ModelError("spec.podsVersion", f"{spec.pods_version!r} is not a resourceVersion")
    holds = tuple(
        Hold(
            item.group,
            item.uid,
            item.min_members,
            parse_resource_list(item.total_resources, f"spec.holds[{i}].totalResources"),
            epoch(item.since) or 0.0,
            item.ended,
            parse_resource_list(item.spent, f"spec.holds[{i}].spent"),
            item.done or (),
        )
        for i, item in enumerate(spec.holds or ())
    )
    charges = tuple(
        Charge(
            item.uid,
            item.pod,
            item.group,
            parse_resource_list(item.usage, f"spec.charges[{i}].usage"),
            item.best_effort,
        )
        for i, item in enumerate(spec.charges or ())
    )
    held = parse_resource_list(status.held, "status.held")
    return ReservationLedger(
        meta.namespace or "default",
        meta.resource_version,
        spec.pods_version,
        holds,
        charges,
        held,
        meta.name or NAME,
    )


def parse_reservation_ledger(raw: bytes | msgspec.Raw | Mapping[str, Any]) -> ReservationLedger:
    """Read a ledger from JSON bytes or a dict. Raises ModelError naming the object and the field."""
    wire = decode(raw, _LedgerWire, KIND)
    try:
        return _ledger_from(wire)
    except ModelError as error:
        meta = wire.metadata
        raise error.within(KIND, meta.namespace, meta.name, meta.uid) from None


def ledger_body(ledger: ReservationLedger) -> dict[str, Any]:
    """The whole object as it is written; without a resourceVersion for one that is to be created."""
    metadata = {"name": ledger.name, "namespace": ledger.namespace}
    if ledger.resource_version:
        metadata["resourceVersion"] = ledger.resource_version
    holds = [
        {
            "group": hold.group,
            "uid": hold.uid,
            "minMembers": hold.min_members,
            "totalResources": to_strings(hold.total),
            "since": rfc3339(hold.since),
            "ended": hold.ended,
            "spent": to_strings(hold.spent),
            "done": list(hold.done),
        }
        for hold in ledger.holds
    ]
    charges = [
        {
            "uid": charge.uid,
            "pod": charge.pod,
            "group": charge.group,
            "usage": to_strings(charge.usage),
            "bestEffort": charge.best_effort,
        }
        for charge in ledger.charges
    ]
    return {
        "apiVersion": RESERVATION_LEDGERS.api_version,
        "kind": KIND,
        "metadata": metadata,
        "spec": {"podsVersion": ledger.pods_version, "holds": holds, "charges": charges},
        "status": {"held": to_strings(ledger.held)},
    }
