"""The condition Reserved of PodGroups with totalResources: what the reservation ledger says of them."""

from __future__ import annotations

from typing import Any, Final

from scheduler_core.model.conditions import condition, find
from scheduler_core.model.gang import Gang
from scheduler_core.quota.holds import amounts_text
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.reservations import reservation_of

RESERVED: Final = "Reserved"


def reserved_condition(state: ClusterState, gang: Gang, now: float) -> list[dict[str, Any]]:
    """The condition, with numbers; none for a group that asks for no reservation."""
    if not gang.total:
        return []
    found = reservation_of(state, gang)
    if found is None:
        text = f"{amounts_text(gang.total)} is not reserved: the reservation ledger does not list the group"
        holds, reason = False, "NotReserved"
    else:
        text = str(found)
        holds, reason = not found.ended, "ReservationEnded" if found.ended else "QuotaReserved"
    return [condition(RESERVED, holds, reason, text, now, find(gang.status.conditions, RESERVED))]
