"""Which entries of a reservation ledger no object confirms: their request may have failed, or never been one.

Admission comes before storage, so every entry begins like this. The API server sends a review for each
request, but whoever reaches the webhook can send one, too; what was written down for it looks the same,
only that its object never appears.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

import msgspec

from scheduler_core.model.pod_group import PodGroup
from scheduler_core.model.pod_use import PodUse
from scheduler_core.model.reservation_ledger import Charge, Hold, ReservationLedger

T = TypeVar("T", Charge, Hold)

# Names one entry of a ledger: holds and charges are told apart, as anybody may claim another object's uid.
Key = tuple[bool, str]


def key_of(entry: Charge | Hold) -> Key:
    """Whether it is a hold, and the uid."""
    return (isinstance(entry, Hold), entry.uid)


def entries(ledger: ReservationLedger) -> Iterator[tuple[Key, bool]]:
    """Everything that counts in a ledger, in its order, and whether it was only announced."""
    yield from (((True, hold.uid), hold.announced) for hold in ledger.holds if not hold.ended)
    yield from (((False, charge.uid), charge.announced) for charge in ledger.charges)


def is_visible(charge: Charge, pods: Mapping[str, PodUse]) -> bool:
    """Whether the pod itself says all that the charge says."""
    pod = pods.get(charge.uid)
    if pod is None:
        return False
    return pod.finished or all(pod.usage.get(name, 0) >= value for name, value in charge.usage.items())


def unconfirmed(
    ledger: ReservationLedger, pods: Mapping[str, PodUse], groups: Mapping[str, PodGroup]
) -> list[Key]:
    """The entries for which no object is there, in the ledger's order; `pods` and `groups` are by uid."""
    holds = [(True, hold.uid) for hold in ledger.holds if not hold.ended and hold.uid not in groups]
    return holds + [(False, charge.uid) for charge in ledger.charges if not is_visible(charge, pods)]


def without(ledger: ReservationLedger, keys: Collection[Key]) -> ReservationLedger:
    """The ledger less some entries; `held` is as it was."""
    if not keys:
        return ledger
    return msgspec.structs.replace(
        ledger,
        holds=tuple(hold for hold in ledger.holds if (True, hold.uid) not in keys),
        charges=tuple(charge for charge in ledger.charges if (False, charge.uid) not in keys),
    )


def established(ledger: ReservationLedger, keys: Collection[Key]) -> ReservationLedger:
    """The ledger, in which what `keys` name is no more just announced."""
    if not keys:
        return ledger
    return msgspec.structs.replace(
        ledger,
        holds=tuple(_established(hold) if (True, hold.uid) in keys else hold for hold in ledger.holds),
        charges=tuple(_established(one) if (False, one.uid) in keys else one for one in ledger.charges),
    )


def _established(entry: T) -> T:
    return msgspec.structs.replace(entry, announced=False)
