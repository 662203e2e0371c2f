"""The scheduling cycle of a gang: all or nothing (coscheduling reference, items 2-6 and 11).

1. Does the group exist, and are there pods enough to reach minMembers?
2. Every waiting member is tried and reserved in turn, the most important first; each sees those before it in
   nodes and quotas. Where that is not enough and members differ, a search looks further (engine.gang_search).
3. Enough of them hold a node: keep them all. Members beyond minMembers that found none are tried singly.
4. Not enough: undo every reservation. Nothing is held, so two gangs cannot starve each other.
5. Then preemption, for the whole gang in one trial; it evicts only if the whole gang then fits.
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.arrays.index import Int64
from scheduler_core.engine.binding import Reservation
from scheduler_core.engine.gang_capacity import CAPACITY, Members, beyond_quota, equal_members, room_for
from scheduler_core.engine.gang_preemption import GangPreemption, preempt_for_gang
from scheduler_core.engine.gang_refusals import refusing
from scheduler_core.engine.gang_search import GangSearch, largest_share
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Diagnosis, Status
from scheduler_core.model.gang import Gang, GroupRef
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Write
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.census import take_census
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import Census

COSCHEDULING: Final = "Coscheduling"
TOPOLOGY: Final = "ClusterTopologyPlacementGroup"


class GangOutcome(msgspec.Struct):
    """What became of a gang's waiting members.

    `reserved` hold their nodes; `refused` says why the others do not, and `plugins` what a hint must come
    from. `preemption` is set where evictions make room for the whole gang, `too_few` where pods are missing,
    `hopeless` where the quota can never give enough, `on_topology` where constraints decide which nodes would
    do; `need` is how many must start together where room for them may come by itself, else 0. `preparing` is
    set where every member has a node, and something has to be prepared there first.
    """

    reserved: list[tuple[Profile, Reservation]]
    refused: dict[str, str]
    plugins: frozenset[str]
    preemption: GangPreemption | None = None
    too_few: bool = False
    hopeless: bool = False
    on_topology: bool = False
    need: int = 0
    preparing: tuple[Prepared, ...] = ()


class Prepared(msgspec.Struct, frozen=True):
    """A member, the node that was found for it, its requests (int64 [R]), and the writes to make first."""

    pod: Pod
    node: str
    vector: Int64
    writes: tuple[Write, ...] = ()


class _Attempt(msgspec.Struct, frozen=True):
    """Members that hold a node, those whose node has to be prepared, and why the others have none."""

    reserved: list[tuple[Profile, Reservation]]
    refused: dict[str, str]
    failures: dict[str, Diagnosis]
    prepared: list[Prepared]

    @property
    def found(self) -> int:
        """Members with a node."""
        return len(self.reserved) + len(self.prepared)


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

    def run(self, gang: Gang, members: Members, now: float) -> GangOutcome:
        """Try the waiting members, in their order. Raises PluginError; then nothing is held."""
        census = take_census(self.state, gang.key)
        need = missing(gang, census)
        if need > len(members):
            return self._too_few(gang, census, members)
        hopeless = self._beyond_quota(gang, members, need)
        if hopeless:
            outcome = _refuse_all(members, f"{gang.ref}: {hopeless}", hopeless=True)
            outcome.plugins |= {CAPACITY}
            return outcome
        equal = need > 1 and equal_members(self.state, members)
        if equal:
            room = room_for(self.cycle, *members[0], now)
            if room.fits < need:
                return self._no_room(gang, members, need, room.fits, room.lack(need), {}, now, equal)
        attempt = self._attempt(members, need, now)
        if attempt.prepared and attempt.found >= need:
            return self._prepares(gang, members, attempt)
        if attempt.found < need and not equal:
            searched = GangSearch(self.cycle, members, need, now).run()
            if searched is not None:
                return self._found(members, searched)
        if len(attempt.reserved) >= need:
            return GangOutcome(attempt.reserved, attempt.refused, _plugins(attempt.failures))
        diagnosis = next(iter(attempt.failures.values()), None)
        why = diagnosis.message if diagnosis is not None else ""
        return self._no_room(gang, members, need, attempt.found, why, attempt.failures, now, equal)

    def _found(self, members: Members, reserved: list[tuple[Profile, Reservation]]) -> GangOutcome:
        """What the search found; members that it left out are on their own."""
        held = {item.cycle.pod.uid for _, item in reserved}
        refused = {pod.uid: "" for _, pod in members if pod.uid not in held}
        return GangOutcome(reserved, refused, frozenset())

    def _attempt(self, members: Members, need: int, now: float) -> _Attempt:
        """Reserve members in this order; nothing is held where that is not enough. Raises PluginError."""
        found = _Attempt([], {}, {}, [])
        try:
            for profile, pod in members:
                result = self._try(profile, pod, now, found.failures)
                if isinstance(result, Reservation):
                    found.reserved.append((profile, result))
                elif isinstance(result, Prepared):
                    found.prepared.append(result)
                else:
                    found.refused[pod.uid] = result
                    if len(members) - len(found.refused) < need:
                        break
        except BaseException:
            self._undo(found)
            raise
        if found.prepared or len(found.reserved) < need:
            self._undo(found)
        return found

    def _prepares(self, gang: Gang, members: Members, attempt: _Attempt) -> GangOutcome:
        """All keep their nodes until those of some are prepared: nominated, as nobody holds anything."""
        first = next(iter(attempt.failures.values()))
        reason = first.status.reason if first.status is not None else ""
        text = f"{gang.ref}: the pods that must start together have found nodes: {reason}"
        names = self.state.nodes.names
        seats = [
            Prepared(item.cycle.pod, names[item.slot], item.cycle.vector) for _, item in attempt.reserved
        ]
        outcome = _refuse_all(members, text)
        outcome.plugins |= _plugins(attempt.failures)
        outcome.preparing = (*seats, *attempt.prepared)
        return outcome

    def _beyond_quota(self, gang: Gang, members: Members, need: int) -> str:
        """Why the gang can never start under its quota, even if nobody else used any of it; else empty."""
        state = self.state
        own: dict[str, int] = {}
        for uid, pod in state.gangs.members(gang.key).items() if need else ():
            placement = state.placed.get(uid)
            if placement is not None and not state.table.going[placement.row]:
                shift(own, charged(pod.requests))
        return beyond_quota(state, members, need, own, own)

    def _try(
        self, profile: Profile, pod: Pod, now: float, failures: dict[str, Diagnosis]
    ) -> Reservation | Prepared | str:
        """Reserve one member, or say why not; one whose node must be prepared holds it in the state alone."""
        attempt = self.cycle.attempt(profile, pod, now, post_filter=False)
        if attempt.slot < 0:
            diagnosis = attempt.diagnosis or Diagnosis(0)
            failures[pod.uid] = diagnosis
            return diagnosis.message
        reserved = self.cycle.reserve(profile, attempt)
        if isinstance(reserved, Status):
            failures[pod.uid] = Diagnosis(0, reserved, plugins=frozenset({reserved.plugin}))
            if isinstance(reserved.detail, Preparation):
                self.state.assume(pod, attempt.slot, now, attempt.cycle.vector)
                node = self.state.nodes.names[attempt.slot]
                return Prepared(pod, node, attempt.cycle.vector, reserved.detail.writes)
            return reserved.reason
        return reserved

    def _undo(self, found: _Attempt) -> None:
        for prepared in reversed(found.prepared):
            self.state.forget(prepared.pod.uid)
        for profile, item in reversed(found.reserved):
            self.cycle.unreserve(profile, item.cycle, item.slot)

    def _too_few(self, gang: Gang, census: Census, members: Members) -> GangOutcome:
        text = (
            f"{gang.ref} needs minMembers {gang.min_members}: {len(members)} pods wait, "
            f"{census.allocated} have a node, {census.succeeded} succeeded"
        )
        return _refuse_all(members, text, too_few=True)

    def _no_room(
        self,
        gang: Gang,
        members: Members,
        need: int,
        found: int,
        why: str,
        failures: dict[str, Diagnosis],
        now: float,
        equal: bool,
    ) -> GangOutcome:
        """Nothing is held; evictions are looked for unless not even all that may go would be enough."""
        why = f": {why}" if why else ""
        text = f"{gang.ref}: only {found} of the {need} pods that must start together find a node{why}"
        outcome = _refuse_all(members, text, need=need)
        outcome.plugins |= _plugins(failures) | refusing(self.cycle, members, now)
        if not equal or room_for(self.cycle, *members[0], now, evicting=True).fits >= need:
            in_order = members if equal else largest_first(self.state, members)
            outcome.preemption = preempt_for_gang(self.cycle, in_order, need, now)
        return outcome


def largest_first(state: ClusterState, members: Members) -> list[tuple[Profile, Pod]]:
    """Members by the largest share that each asks of any resource of the cluster, the largest first."""
    total = state.nodes.allocatable_total()
    return sorted(members, key=lambda member: -largest_share(member[1], total))


def _refuse_all(
    members: Members, text: str, *, need: int = 0, too_few: bool = False, hopeless: bool = False
) -> GangOutcome:
    refused = {pod.uid: text for _, pod in members}
    plugins = frozenset({COSCHEDULING})
    return GangOutcome([], refused, plugins, too_few=too_few, hopeless=hopeless, need=need)


def _plugins(failures: dict[str, Diagnosis]) -> frozenset[str]:
    return frozenset().union(*(diagnosis.plugins for diagnosis in failures.values()))
