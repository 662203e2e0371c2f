"""Places members of a gang in a trial: in order, and if that is not enough by a search with backtracking."""

from __future__ import annotations

import msgspec

from scheduler_core.arrays.types import Int64
from scheduler_core.engine.gang.members import AssumedMembers, Members
from scheduler_core.engine.gang.search import GangSearch, worth_a_search
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.trial import Trial


class PlacedMember(msgspec.Struct, frozen=True):
    """A member with the slot and the vector (int64 [R]) that it was placed with."""

    profile: Profile
    pod: Pod
    slot: int
    vector: Int64


def placed_members(assumed: AssumedMembers) -> list[PlacedMember]:
    """Where members are assumed."""
    return [PlacedMember(profile, item.cycle.pod, item.slot, item.cycle.vector) for profile, item in assumed]


def place_in_trial(
    cycle: PodCycle, trial: Trial, members: Members, need: int, most: int, now: float, *, equal: bool
) -> list[PlacedMember]:
    """At most `most` of the members, and fewer than `need` only if no order of them helps.

    Whether the trial still holds them is not defined. `equal`: as `equal_members`. Raises PluginError.
    """
    placed: list[PlacedMember] = []
    mark = trial.checkpoint()
    for profile, pod in members:
        if len(placed) == most:
            break
        attempt = cycle.attempt(profile, pod, now, post_filter=False)
        if attempt.slot >= 0:
            trial.place(pod, attempt.slot)
            placed.append(PlacedMember(profile, pod, attempt.slot, attempt.cycle.vector))
        elif equal and need <= len(placed):
            break
    if len(placed) >= need or not worth_a_search(members, equal=equal):
        return placed
    trial.rollback(mark)
    search = GangSearch(cycle, members, need, now)
    found = placed_members(search.run() or [])
    search.undo()
    return found
