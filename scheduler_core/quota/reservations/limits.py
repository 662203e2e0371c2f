"""Limits of the reservation ledger: it is one object, and etcd accepts at most 1.5 MB.

Sizes are upper estimates in bytes of JSON. The size of a hold includes the members that will be noted as
done. The rest up to the limit of etcd is for entries that nothing confirms yet, and for growth
(docs/reservations.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from scheduler_core.model.quotas.reservation_ledger import Charge, Hold, Key, ReservationLedger, key_of
from scheduler_core.model.quotas.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.reservations.usage import Shortage

MOST_HOLDS: Final = 2000
MOST_BYTES: Final = 1_000_000
# The limit for all unconfirmed entries together.
MOST_UNCONFIRMED_BYTES: Final = 300_000
# The totals of one group, and the usage of one pod.
MOST_AMOUNTS_BYTES: Final = 2048
MOST_NAME: Final = 253
MOST_UID: Final = 128
_ENTRY_BYTES: Final = 110
_QUANTITY_BYTES: Final = 18
_DONE_BYTES: Final = 39
_MOST_DONE: Final = 4096


class LedgerFull(msgspec.Struct, frozen=True):
    """The refusal of a hold because the ledger is full: `count` of at most `most` `what`."""

    namespace: str
    count: int
    most: int
    what: str = "reservations"

    def __str__(self) -> str:
        return (
            f"namespace {self.namespace} holds {self.count:,} {self.what}, of at most {self.most:,}; "
            "delete PodGroups that are not needed any more, or create this one without totalResources"
        )


# The reasons to refuse a pod or a group.
ReservationRefusal = Shortage | LedgerFull


def amounts_bytes(amounts: ResourceList) -> int:
    """Bytes that a list of amounts takes."""
    return sum(map(len, amounts)) + _QUANTITY_BYTES * len(amounts)


def entry_bytes(entry: Hold | Charge) -> int:
    """Bytes that an entry takes now or will take."""
    if isinstance(entry, Charge):
        names = len(entry.uid) + len(entry.pod) + len(entry.group)
        return _ENTRY_BYTES + names + amounts_bytes(entry.usage)
    done = max(len(entry.done), 0 if entry.ended else min(entry.min_members, _MOST_DONE))
    amounts = amounts_bytes(entry.total) + amounts_bytes(entry.spent)
    return _ENTRY_BYTES + len(entry.group) + len(entry.uid) + amounts + _DONE_BYTES * done


class LedgerSize:
    """The number and size of the holds of a ledger, without the entries in `less`."""

    def __init__(self, ledger: ReservationLedger, less: Collection[Key] = ()) -> None:
        self._namespace = ledger.namespace
        counted = [hold for hold in ledger.holds if (True, hold.uid) not in less]
        self._count = len(counted)
        self._bytes = sum(map(entry_bytes, counted))

    def add(self, hold: Hold) -> None:
        """Add a hold."""
        self._count += 1
        self._bytes += entry_bytes(hold)

    def full(self, hold: Hold) -> LedgerFull | None:
        """The reason why the hold cannot be added, or None."""
        if self._count >= MOST_HOLDS:
            return LedgerFull(self._namespace, self._count, MOST_HOLDS)
        if self._bytes + entry_bytes(hold) > MOST_BYTES:
            return LedgerFull(self._namespace, self._bytes, MOST_BYTES, "bytes of reservations")
        return None


def enterable(ledger: ReservationLedger, missing: Iterable[Hold]) -> list[Hold]:
    """The missing holds that fit into the ledger, the oldest first."""
    room, found = LedgerSize(ledger), []
    for hold in sorted(missing, key=lambda hold: (hold.since, hold.group)):
        if amounts_bytes(hold.total) <= MOST_AMOUNTS_BYTES and room.full(hold) is None:
            room.add(hold)
            found.append(hold)
    return found


def unconfirmed_beyond_limit(
    ledger: ReservationLedger, doubtful: Collection[Key], oldest_first: Iterable[Key]
) -> set[Key]:
    """The oldest unconfirmed entries to drop, so that the others stay within MOST_UNCONFIRMED_BYTES."""
    held: tuple[Hold | Charge, ...] = (*ledger.holds, *ledger.charges)
    sizes = {key_of(entry): entry_bytes(entry) for entry in held if key_of(entry) in doubtful}
    too_many, found = sum(sizes.values()) - MOST_UNCONFIRMED_BYTES, set()
    for key in oldest_first:
        if too_many <= 0:
            break
        too_many -= sizes.get(key, 0)
        found.add(key)
    return found


def without_uncounted(charge: Charge, quotas: Iterable[ResourceQuota]) -> Charge:
    """The charge of a pod; if it names very many resources, only those that some quota counts."""
    if amounts_bytes(charge.usage) <= MOST_AMOUNTS_BYTES:
        return charge
    counted = {name for quota in quotas for name in quota.hard_of_requests()}
    usage = {name: value for name, value in charge.usage.items() if name in counted}
    return msgspec.structs.replace(charge, usage=usage)
