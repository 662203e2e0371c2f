"""Reservation of a PodGroup, by the ledger of its namespace and the pods that draw on it."""

from __future__ import annotations

import msgspec

from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.pods.use import use_of
from scheduler_core.quota.reservations.usage import NamespaceUsage, amounts_text
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
    """The group's entry in the ledger with what is left of it; None where there is none.

    Counted by the book that admission counts with.
    """
    ledger = state.gangs.ledgers.get(gang.ref.namespace)
    hold = next((hold for hold in ledger.holds if hold.uid == gang.uid), None) if ledger is not None else None
    if ledger is None or hold is None:
        return None
    if hold.ended:
        return Reservation(hold.total, {}, {}, ended=True)
    members = state.gangs.members(gang.key)
    charges = tuple(c for c in ledger.charges if c.group == hold.group or c.uid in members)
    admitted = {charge.uid: state.pods[charge.uid] for charge in charges if charge.uid in state.pods}
    pods = {uid: use_of(pod) for uid, pod in {**members, **admitted}.items()}
    book = NamespaceUsage(msgspec.structs.replace(ledger, holds=(hold,), charges=charges), pods)
    counted = (book.drawn(hold.group), book.remaining(hold.group))
    used, held = ({name: value for name, value in amounts.items() if value} for amounts in counted)
    return Reservation(hold.total, used, held)
