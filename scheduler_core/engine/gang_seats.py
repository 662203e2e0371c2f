"""The node of a gang's member while its gang is being decided: held in full, or as far as that can be.

A node on which something has to be prepared first (volumes) cannot be reserved yet. It is held in the state
alone, so that the other members see it taken.
"""

from __future__ import annotations

import msgspec

from scheduler_core.engine.binding import Reservation
from scheduler_core.engine.pod_cycle import Attempt, PodCycle
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Status
from scheduler_core.model.writes import Write


class Unprepared(msgspec.Struct, frozen=True):
    """A node that is held in the state alone; `status` says what it lacks, its detail is a Preparation."""

    cycle: Cycle
    slot: int
    status: Status

    @property
    def writes(self) -> tuple[Write, ...]:
        """What prepares the node."""
        return self.status.detail.writes if isinstance(self.status.detail, Preparation) else ()


Seat = Reservation | Unprepared
Seats = list[tuple[Profile, Seat]]


def take(cycles: PodCycle, profile: Profile, attempt: Attempt) -> Seat | Status:
    """Hold the node of an attempt, or say why a plugin refuses it. Raises PluginError, holding nothing."""
    status = cycles.reserve(profile, attempt)
    if isinstance(status, Reservation) or not isinstance(status.detail, Preparation):
        return status
    own = attempt.cycle
    cycles.state.assume(own.pod, attempt.slot, own.now, own.vector)
    return Unprepared(own, attempt.slot, status)


def give_back(cycles: PodCycle, profile: Profile, seat: Seat) -> None:
    """Hold a node no more."""
    if isinstance(seat, Unprepared):
        cycles.state.forget(seat.cycle.pod.uid)
    else:
        cycles.unreserve(profile, seat.cycle, seat.slot)
