"""What a PodGroup has reserved, by the ledger of its namespace and the pods that draw on it."""

from __future__ import annotations

import msgspec

from scheduler_core.model.gang import Gang
from scheduler_core.quota.holds import amounts_text
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.cluster import ClusterState


class Reservation(msgspec.Struct, frozen=True):
    """Exact integers, of the resources that totalResources names.

    `used` is what members take, those that ended well included; `held` what is kept for members to come.
    """

    total: dict[str, int]
    used: dict[str, int]
    held: dict[str, int]
    ended: bool = False

    def __str__(self) -> str:
        if self.ended:
            return "the group ended: nothing is reserved any more"
        used, held = (amounts_text(amounts) or "nothing" for amounts in (self.used, self.held))
        return f"members use {used} of {amounts_text(self.total)}, {held} is held"


def reservation_of(state: ClusterState, gang: Gang) -> Reservation | None:
    """The group's entry in the ledger with what is left of it; None where there is none."""
    ledger = state.gangs.ledgers.get(gang.ref.namespace)
    hold = next((hold for hold in ledger.holds if hold.uid == gang.uid), None) if ledger is not None else None
    if ledger is None or hold is None:
        return None
    if hold.ended:
        return Reservation(hold.total, {}, {}, ended=True)
    taken = dict(hold.spent)
    members = state.gangs.members(gang.key)
    for pod in members.values():
        if not pod.finished:
            shift(taken, charged(pod.requests))
    for charge in ledger.charges:
        if charge.group == gang.ref.name and charge.uid not in members:
            shift(taken, charge.usage)
    used = {name: taken[name] for name in hold.total if taken.get(name)}
    held = {name: value - taken.get(name, 0) for name, value in hold.total.items()}
    return Reservation(hold.total, used, {name: value for name, value in held.items() if value > 0})
