"""Preemption for a whole gang: in one trial, and only if the whole gang then fits (reference, item 11)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.evaluate import Reevaluation
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preemption.eligibility import not_eligible
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pod import Pod
from scheduler_core.state.trial import Trial


class GangPreemption(msgspec.Struct, frozen=True):
    """Victims with the member each goes for, and the node that every member waits for."""

    victims: tuple[tuple[Pod, Pod], ...]
    nominated: tuple[tuple[Pod, str, Int64], ...]


def preempt_for_gang(
    cycle: PodCycle, members: Sequence[tuple[Profile, Pod]], need: int, now: float
) -> GangPreemption | None:
    """Victims that let `need` of the members start, or None if no eviction can; the state is unchanged."""
    state = cycle.state
    if any(not_eligible(state, pod) for _, pod in members):
        return None
    victims: dict[str, tuple[Pod, Pod]] = {}
    nominated: list[tuple[Pod, str, Int64]] = []
    with Trial(state, now) as trial:
        for left, (profile, pod) in zip(range(len(members), 0, -1), members, strict=True):
            if len(nominated) >= need:
                break
            if len(nominated) + left < need:
                return None
            placed = _place(cycle, trial, profile, pod, now, victims)
            if placed is not None:
                nominated.append(placed)
    if len(nominated) < need:
        return None
    return GangPreemption(tuple(victims.values()), tuple(nominated))


def _place(
    cycle: PodCycle,
    trial: Trial,
    profile: Profile,
    pod: Pod,
    now: float,
    victims: dict[str, tuple[Pod, Pod]],
) -> tuple[Pod, str, Int64] | None:
    """Give one member a node inside the trial, evicting for it where nothing else helps."""
    state = cycle.state
    attempt = cycle.attempt(profile, pod, now)
    slot = attempt.slot
    if slot < 0:
        result = attempt.post_filter
        if result is None:
            return None
        found = state.nodes.slot(result.nominated)
        if found is None:
            return None
        slot = found
        for victim in result.victims:
            victims[victim.uid] = (victim, pod)
            trial.lift(victim.uid)
        for uid in [u for u in state.nodes.pods[slot] if state.table.going[state.placed[u].row]]:
            trial.lift(uid)
        if not Reevaluation(cycle, profile, attempt.cycle).fits(slot):
            return None
    trial.place(pod, slot)
    return pod, state.nodes.names[slot], attempt.cycle.vector
