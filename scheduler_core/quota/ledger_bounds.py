"""How large a reservation ledger may grow: it is one object, and etcd takes no more than 1.5 MB.

Sizes are estimates in bytes of JSON, on the safe side. Of a hold they include the members that will be
noted as done. What is left up to etcd's limit is for entries that nothing confirms yet, and for what grows
by itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from scheduler_core.model.reservation_ledger import Charge, Hold, ReservationLedger
from scheduler_core.model.resource_quota import ResourceQuota
from scheduler_core.model.resources import ResourceList
from scheduler_core.quota.holds import Shortage
from scheduler_core.quota.provisional import Key, key_of

MOST_HOLDS: Final = 2000
MOST_BYTES: Final = 1_000_000
# All entries together that nothing confirms.
MOST_DOUBTFUL_BYTES: Final = 300_000
# The totals of one group, and the usage of one pod.
MOST_AMOUNTS_BYTES: Final = 2048
MOST_NAME: Final = 253
MOST_UID: Final = 128
_ENTRY_BYTES: Final = 110
_QUANTITY_BYTES: Final = 18
_DONE_BYTES: Final = 39
_MOST_DONE: Final = 4096


class Full(msgspec.Struct, frozen=True):
    """A namespace whose ledger takes no more holds: so many of at most so many `what`."""

    namespace: str
    count: int
    most: int
    what: str = "reservations"

    def __str__(self) -> str:
        return (
            f"namespace {self.namespace} holds {self.count:,} {self.what}, of at most {self.most:,}; "
            "delete PodGroups that are not needed any more, or create this one without totalResources"
        )


# Why a pod or a group is refused.
Lack = Shortage | Full


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


class Room:
    """How many holds a ledger has and how large they are, without some of them."""

    def __init__(self, ledger: ReservationLedger, less: Collection[Key] = ()) -> None:
        self._namespace = ledger.namespace
        counted = [hold for hold in ledger.holds if (True, hold.uid) not in less]
        self._count = len(counted)
        self._bytes = sum(map(entry_bytes, counted))

    def add(self, hold: Hold) -> None:
        """One more."""
        self._count += 1
        self._bytes += entry_bytes(hold)

    def full(self, hold: Hold) -> Full | None:
        """Why one more hold cannot be entered, if so."""
        if self._count >= MOST_HOLDS:
            return Full(self._namespace, self._count, MOST_HOLDS)
        if self._bytes + entry_bytes(hold) > MOST_BYTES:
            return Full(self._namespace, self._bytes, MOST_BYTES, "bytes of reservations")
        return None


def enterable(ledger: ReservationLedger, missing: Iterable[Hold]) -> list[Hold]:
    """Those of the missing holds that there is room for, the oldest first."""
    room, found = Room(ledger), []
    for hold in sorted(missing, key=lambda hold: (hold.since, hold.group)):
        if amounts_bytes(hold.total) <= MOST_AMOUNTS_BYTES and room.full(hold) is None:
            room.add(hold)
            found.append(hold)
    return found


def doubtful_beyond(
    ledger: ReservationLedger, doubtful: Collection[Key], oldest_first: Iterable[Key]
) -> set[Key]:
    """The oldest doubtful entries, so that the others take no more than there is for them."""
    held: tuple[Hold | Charge, ...] = (*ledger.holds, *ledger.charges)
    sizes = {key_of(entry): entry_bytes(entry) for entry in held if key_of(entry) in doubtful}
    too_many, found = sum(sizes.values()) - MOST_DOUBTFUL_BYTES, set()
    for key in oldest_first:
        if too_many <= 0:
            break
        too_many -= sizes.get(key, 0)
        found.add(key)
    return found


def slim(charge: Charge, quotas: Iterable[ResourceQuota]) -> Charge:
    """The charge of a pod that asks for very much that differs: only of what some quota counts."""
    if amounts_bytes(charge.usage) <= MOST_AMOUNTS_BYTES:
        return charge
    counted = {name for quota in quotas for name in quota.hard_of_requests()}
    usage = {name: value for name, value in charge.usage.items() if name in counted}
    return msgspec.structs.replace(charge, usage=usage)
