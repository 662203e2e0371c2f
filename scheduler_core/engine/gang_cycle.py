"""The scheduling cycle of a gang: all or nothing (coscheduling reference, items 2-6 and 11).

1. Does the group exist, and are there pods enough to reach minMembers?
2. Every waiting member is tried and reserved in turn; each sees those before it in nodes and quotas.
3. Enough of them hold a node: keep them all. Members beyond minMembers that found none wait singly.
4. Not enough: undo every reservation. Nothing is held, so two gangs cannot starve each other.
5. Then preemption, for the whole gang in one trial; it evicts only if the whole gang then fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from scheduler_core.engine.gang_capacity import at_most, equal_members
from scheduler_core.engine.gang_preemption import GangPreemption, preempt_for_gang
from scheduler_core.engine.pod_cycle import PodCycle, Reservation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Diagnosis, Status
from scheduler_core.model.gang import Gang, GroupRef
from scheduler_core.model.pod import Pod
from scheduler_core.state.gangs import Census

COSCHEDULING: Final = "Coscheduling"
TOPOLOGY: Final = "ClusterTopologyPlacementGroup"


class GangOutcome(msgspec.Struct):
    """What became of a gang's waiting members.

    `reserved` hold their nodes; `refused` says why the others do not, and `plugins` what a hint must come
    from. `preemption` is set where evictions make room for the whole gang, `too_few` where pods are missing,
    `on_topology` where constraints decide which nodes would do.
    """

    reserved: list[tuple[Profile, Reservation]]
    refused: dict[str, str]
    plugins: frozenset[str]
    preemption: GangPreemption | None = None
    too_few: bool = False
    on_topology: bool = False


def missing(gang: Gang, census: Census) -> int:
    """How many waiting members must be placed for the gang to be ready (reference, item 6).

    Succeeded members count only where too few pods are left to reach minMembers otherwise.
    """
    need = gang.min_members - census.allocated
    if gang.min_members > census.allocated + census.waiting:
        need -= census.succeeded
    return max(0, need)


def schedules_group(profile: Profile, ref: GroupRef) -> bool:
    """Whether a profile schedules the pods of such a group together."""
    if ref.dialect == "ConfigMap":
        return TOPOLOGY in profile.enabled
    return COSCHEDULING in profile.enabled or TOPOLOGY in profile.enabled


class GangCycle:
    """Tries gangs on the state of `cycle`. Holds nothing of its own."""

    def __init__(self, cycle: PodCycle) -> None:
        self.cycle = cycle
        self.state = cycle.state

    def run(self, gang: Gang, members: Sequence[tuple[Profile, Pod]], now: float) -> GangOutcome:
        """Try the waiting members, in their order. Raises PluginError; then nothing is held."""
        census = self.state.gangs.census(gang.key, self.state.placed)
        need = missing(gang, census)
        if need > len(members):
            return self._too_few(gang, census, members)
        equal = need > 1 and equal_members(self.cycle, members, now)
        if equal:
            bound = at_most(self.cycle, *members[0], now)
            if bound < need:
                return self._no_room(gang, members, need, bound, {}, now, equal)
        reserved: list[tuple[Profile, Reservation]] = []
        failures: dict[str, Diagnosis] = {}
        refused: dict[str, str] = {}
        try:
            for profile, pod in members:
                found = self._try(profile, pod, now, failures)
                if isinstance(found, Reservation):
                    reserved.append((profile, found))
                else:
                    refused[pod.uid] = found
                    if len(members) - len(refused) < need:
                        break
        except BaseException:
            self._undo(reserved)
            raise
        if len(reserved) >= need:
            return GangOutcome(reserved, refused, _plugins(failures))
        self._undo(reserved)
        return self._no_room(gang, members, need, len(reserved), failures, now, equal)

    def _try(
        self, profile: Profile, pod: Pod, now: float, failures: dict[str, Diagnosis]
    ) -> Reservation | str:
        """Reserve one member, or say why not. A class of equal pods that failed is not tried again."""
        attempt = self.cycle.attempt(profile, pod, now, post_filter=False)
        if attempt.slot < 0:
            diagnosis = attempt.diagnosis or Diagnosis(0)
            failures[pod.uid] = diagnosis
            return diagnosis.message
        reserved = self.cycle.reserve(profile, attempt)
        if isinstance(reserved, Status):
            failures[pod.uid] = Diagnosis(0, reserved, plugins=frozenset({reserved.plugin}))
            return reserved.reason
        return reserved

    def _undo(self, reserved: list[tuple[Profile, Reservation]]) -> None:
        for profile, item in reversed(reserved):
            self.cycle.unreserve(profile, item.cycle, item.slot)

    def _too_few(self, gang: Gang, census: Census, members: Sequence[tuple[Profile, Pod]]) -> GangOutcome:
        text = (
            f"{gang.ref} needs minMembers {gang.min_members}: {len(members)} pods wait, "
            f"{census.allocated} have a node, {census.succeeded} succeeded"
        )
        refused = {pod.uid: text for _, pod in members}
        return GangOutcome([], refused, frozenset({COSCHEDULING}), too_few=True)

    def _no_room(
        self,
        gang: Gang,
        members: Sequence[tuple[Profile, Pod]],
        need: int,
        found: int,
        failures: dict[str, Diagnosis],
        now: float,
        equal: bool,
    ) -> GangOutcome:
        """Nothing is held; evictions are looked for unless not even all that may go would be enough."""
        diagnosis = next(iter(failures.values()), None)
        why = f": {diagnosis.message}" if diagnosis is not None else ""
        text = f"{gang.ref}: only {found} of the {need} pods that must start together find a node{why}"
        plugins = _plugins(failures) | {COSCHEDULING}
        outcome = GangOutcome([], {pod.uid: text for _, pod in members}, plugins)
        if not equal or at_most(self.cycle, *members[0], now, evicting=True) >= need:
            outcome.preemption = preempt_for_gang(self.cycle, members, need, now)
        return outcome


def _plugins(failures: dict[str, Diagnosis]) -> frozenset[str]:
    return frozenset().union(*(diagnosis.plugins for diagnosis in failures.values()))
