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
from scheduler_core.engine.gang_search import GangSearch, largest_share, worth_a_search
from scheduler_core.engine.gang_seats import Seat, Seats, Unprepared, give_back, take
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Diagnosis, Status
from scheduler_core.model.gang import Gang, GroupRef
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Write
from scheduler_core.quota.ledger import charged, shift
from scheduler_core.state.census import take_census
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs import missing, too_few

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
    """Members that found a node, and why the others have none."""

    seats: Seats
    refused: dict[str, str]
    failures: dict[str, Diagnosis]

    @property
    def unprepared(self) -> Status | None:
        """What the first of the nodes lacks that cannot be taken yet; None if all can."""
        return next((seat.status for _, seat in self.seats if isinstance(seat, Unprepared)), None)

    @property
    def reserved(self) -> list[tuple[Profile, Reservation]]:
        """The seats, where all can be taken."""
        return [(profile, seat) for profile, seat in self.seats if isinstance(seat, Reservation)]


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
            return _refuse_all(members, too_few(gang, census, len(members)), too_few=True)
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
        if len(attempt.seats) < need and worth_a_search(members, equal=equal):
            searched = GangSearch(self.cycle, members, need, now).run()
            if searched is not None:
                # Members that it left out are on their own.
                held = {seat.cycle.pod.uid for _, seat in searched}
                attempt = _Attempt(searched, {pod.uid: "" for _, pod in members if pod.uid not in held}, {})
        if len(attempt.seats) >= need:
            return self._starts(gang, members, attempt)
        diagnosis = next(iter(attempt.failures.values()), None)
        why = diagnosis.message if diagnosis is not None else ""
        return self._no_room(gang, members, need, len(attempt.seats), why, attempt.failures, now, equal)

    def _attempt(self, members: Members, need: int, now: float) -> _Attempt:
        """Hold nodes for members in this order; none where they are not enough. Raises PluginError."""
        found = _Attempt([], {}, {})
        try:
            for profile, pod in members:
                result = self._try(profile, pod, now)
                if isinstance(result, tuple):
                    found.refused[pod.uid], found.failures[pod.uid] = result
                    if len(members) - len(found.refused) < need:
                        break
                else:
                    found.seats.append((profile, result))
        except BaseException:
            self._undo(found.seats)
            raise
        if len(found.seats) < need:
            self._undo(found.seats)
        return found

    def _starts(self, gang: Gang, members: Members, attempt: _Attempt) -> GangOutcome:
        """Enough members hold nodes; where some must be prepared first, all are merely nominated."""
        lacks = attempt.unprepared
        if lacks is None:
            return GangOutcome(attempt.reserved, attempt.refused, _plugins(attempt.failures))
        self._undo(attempt.seats)
        text = f"{gang.ref}: the pods that must start together have found nodes: {lacks.reason}"
        names = self.state.nodes.names
        outcome = _refuse_all(members, text)
        outcome.plugins |= _plugins(attempt.failures) | {lacks.plugin}
        outcome.preparing = tuple(
            Prepared(
                seat.cycle.pod,
                names[seat.slot],
                seat.cycle.vector,
                seat.writes if isinstance(seat, Unprepared) else (),
            )
            for _, seat in attempt.seats
        )
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

    def _try(self, profile: Profile, pod: Pod, now: float) -> Seat | tuple[str, Diagnosis]:
        """Hold a node for one member, or say why not."""
        attempt = self.cycle.attempt(profile, pod, now, post_filter=False)
        if attempt.slot < 0:
            diagnosis = attempt.diagnosis or Diagnosis(0)
            return diagnosis.message, diagnosis
        seat = take(self.cycle, profile, attempt)
        if isinstance(seat, Status):
            return seat.reason, Diagnosis(0, seat, plugins=frozenset({seat.plugin}))
        return seat

    def _undo(self, seats: Seats) -> None:
        for profile, seat in reversed(seats):
            give_back(self.cycle, profile, seat)

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
            # With members to spare, what gets free is for the most important of them.
            in_order = members if equal or need < len(members) else largest_first(self.state, members)
            with self.cycle.backfill.all_kept():
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
