"""ReservationLedger, typed: the reservations of the PodGroups of one namespace, and the pods just admitted.

There is one object per namespace and purpose. Its resourceVersion arbitrates between all replicas that admit
pods there at the same time (docs/reservations.md#the-ledger).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, Final, TypeVar

import msgspec

from scheduler_core.errors import ModelError
from scheduler_core.model.kinds import RESERVATION_LEDGERS
from scheduler_core.model.meta import ApiObject, Raw, parse
from scheduler_core.model.resources import parse_resource_list, to_strings
from scheduler_core.model.timestamps import epoch, format_time

# The ledger of reservations in ResourceQuotas, with the pods that draw on the same quotas.
NAME: Final = "reservations"
# The ledger of pods and resizes that no Muster scheduler will judge, charged to the ElasticQuota; no holds.
ELASTIC_NAME: Final = "elastic"


class Hold(msgspec.Struct, frozen=True):
    """The reservation of one PodGroup: `total`, exact integers; `uid` and creation time `since` of the group.

    `done` are the uids of members that succeeded, `spent` is their use, which is no longer reserved. An
    `ended` hold reserves nothing; it stays until its PodGroup is deleted, so that it is not created again.
    `announced`: there is no room beside other unconfirmed entries, and the webhook is finding out whether
    their objects exist.
    """

    group: str
    uid: str
    min_members: int
    total: dict[str, int]
    since: float = 0.0
    ended: bool = False
    spent: dict[str, int] = {}
    done: tuple[str, ...] = ()
    announced: bool = False


class Charge(msgspec.Struct, frozen=True):
    """A pod that was admitted and may not be visible to all readers yet. `usage` includes one of `pods`.

    `announced` as for a Hold.
    """

    uid: str
    pod: str
    group: str
    usage: dict[str, int]
    best_effort: bool = False
    announced: bool = False


class ReservationLedger(msgspec.Struct, frozen=True):
    """One ledger of a namespace. `resource_version` is empty for one that is not stored; `name` is
    NAME or ELASTIC_NAME.

    `pods_version`: charges up to this resourceVersion of pods were removed because the pods are visible; a
    reader with an older list of pods must list them again. `held` is the sum of what is still reserved.
    """

    namespace: str
    resource_version: str = ""
    pods_version: str = ""
    holds: tuple[Hold, ...] = ()
    charges: tuple[Charge, ...] = ()
    held: dict[str, int] = {}
    name: str = NAME

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"

    @property
    def active(self) -> bool:
        """Whether any hold has not ended."""
        return any(not hold.ended for hold in self.holds)


T = TypeVar("T", Hold, Charge)

# Names one entry of a ledger, see `key_of`. Holds and charges are told apart, as anybody may claim the uid of
# another object.
Key = tuple[bool, str]


def key_of(entry: Charge | Hold) -> Key:
    """The key of an entry: whether it is a hold, and the uid."""
    return (isinstance(entry, Hold), entry.uid)


def entries(ledger: ReservationLedger) -> Iterator[tuple[Key, bool]]:
    """The entries that count in a ledger, in its order, each with whether it is only announced."""
    yield from (((True, hold.uid), hold.announced) for hold in ledger.holds if not hold.ended)
    yield from (((False, charge.uid), charge.announced) for charge in ledger.charges)


def without(ledger: ReservationLedger, keys: Collection[Key]) -> ReservationLedger:
    """The ledger without some entries; `held` does not change."""
    if not keys:
        return ledger
    return msgspec.structs.replace(
        ledger,
        holds=tuple(hold for hold in ledger.holds if (True, hold.uid) not in keys),
        charges=tuple(charge for charge in ledger.charges if (False, charge.uid) not in keys),
    )


def established(ledger: ReservationLedger, keys: Collection[Key]) -> ReservationLedger:
    """The ledger with `announced` cleared in the entries that `keys` names."""
    if not keys:
        return ledger
    return msgspec.structs.replace(
        ledger,
        holds=tuple(_established(hold) if (True, hold.uid) in keys else hold for hold in ledger.holds),
        charges=tuple(_established(one) if (False, one.uid) in keys else one for one in ledger.charges),
    )


def _established(entry: T) -> T:
    return msgspec.structs.replace(entry, announced=False)


class _HoldWire(msgspec.Struct, frozen=True, rename="camel"):
    group: str
    uid: str
    min_members: int = 1
    total_resources: dict[str, Any] | None = None
    since: datetime | None = None
    ended: bool = False
    spent: dict[str, Any] | None = None
    done: tuple[str, ...] | None = None
    announced: bool = False


class _ChargeWire(msgspec.Struct, frozen=True, rename="camel"):
    uid: str
    pod: str = ""
    group: str = ""
    usage: dict[str, Any] | None = None
    best_effort: bool = False
    announced: bool = False


class _SpecWire(msgspec.Struct, frozen=True, rename="camel"):
    pods_version: str = ""
    holds: tuple[_HoldWire, ...] | None = None
    charges: tuple[_ChargeWire, ...] | None = None


class _StatusWire(msgspec.Struct, frozen=True, rename="camel"):
    held: dict[str, Any] | None = None


class _LedgerWire(ApiObject, frozen=True, rename="camel"):
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
            item.announced,
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
            item.announced,
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


def parse_reservation_ledger(raw: Raw) -> ReservationLedger:
    """Read a ledger from JSON bytes or a dict. Raises ModelError naming the object and the field."""
    return parse(raw, _LedgerWire, RESERVATION_LEDGERS, _ledger_from)


def ledger_body(ledger: ReservationLedger) -> dict[str, Any]:
    """The whole object as it is written; without a resourceVersion for one that is to be created."""
    metadata = {"name": ledger.name, "namespace": ledger.namespace}
    if ledger.resource_version:
        metadata["resourceVersion"] = ledger.resource_version
    holds = [_hold_body(hold) for hold in ledger.holds]
    charges = [_charge_body(charge) for charge in ledger.charges]
    return {
        "apiVersion": RESERVATION_LEDGERS.api_version,
        "kind": RESERVATION_LEDGERS.kind,
        "metadata": metadata,
        "spec": {"podsVersion": ledger.pods_version, "holds": holds, "charges": charges},
        "status": {"held": to_strings(ledger.held)},
    }


def _hold_body(hold: Hold) -> dict[str, Any]:
    """A hold as it is written, without default values: there may be thousands of holds."""
    body: dict[str, Any] = {"group": hold.group, "uid": hold.uid, "minMembers": hold.min_members}
    if hold.since:
        body["since"] = format_time(hold.since)
    if hold.total:
        body["totalResources"] = to_strings(hold.total)
    if hold.spent:
        body["spent"] = to_strings(hold.spent)
    if hold.done:
        body["done"] = list(hold.done)
    return body | _flags(ended=hold.ended, announced=hold.announced)


def _charge_body(charge: Charge) -> dict[str, Any]:
    body: dict[str, Any] = {"uid": charge.uid, "pod": charge.pod, "usage": to_strings(charge.usage)}
    if charge.group:
        body["group"] = charge.group
    return body | _flags(bestEffort=charge.best_effort, announced=charge.announced)


def _flags(**flags: bool) -> dict[str, bool]:
    return {name: True for name, is_set in flags.items() if is_set}
