"""The scheduling cycle of a gang: all or nothing (docs/gangs.md#rules).

1. Check that enough pods exist to reach minMembers, and that the quota can ever hold them.
2. Try and reserve every waiting member, highest priority first; each sees the members before it in nodes and
   quotas. If that is not enough and members differ, search other assignments (`gang.search`).
3. Enough members have a node: the gang starts. Members beyond minMembers without a node are tried one by one.
4. Not enough: undo all reservations, so that two gangs cannot starve each other.
5. Then look for victims for the whole gang (`gang.preemption`).
"""

from __future__ import annotations

from typing import Final

import msgspec

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.gang.capacity import (
    CAPACITY,
    beyond_quota,
    capacity_limit,
    charges_by_namespace,
    no_room_text,
    refused_by_quota,
)
from scheduler_core.engine.gang.fair_preemption import move_fairly
from scheduler_core.engine.gang.group_preemption import never_preempts, preempt_for_group
from scheduler_core.engine.gang.members import (
    AssumedMember,
    AssumedMembers,
    Members,
    UnpreparedMember,
    assume_member,
    equal_members,
    forget_member,
    kinds_of,
    largest_first,
    undone_on_error,
)
from scheduler_core.engine.gang.outcome import (
    Lack,
    MustWait,
    Outcome,
    Prepares,
    Starts,
    one_text,
    to_prepare,
    waits,
)
from scheduler_core.engine.gang.preemption import preempt_for_gang
from scheduler_core.engine.gang.search import GangSearch, worth_a_search
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.pod_terms import looks_around
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.queueing.obstacles import NOMINATED_PODS, searched_for
from scheduler_core.framework.status import Diagnosis, Status
from scheduler_core.model import names
from scheduler_core.model.groups.gang import Gang, GroupRef
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.gangs.gangs import missing, take_census, too_few

COSCHEDULING: Final = names.COSCHEDULING
TOPOLOGY: Final = names.CLUSTER_TOPOLOGY_PLACEMENT_GROUP


# The plugins that let the pods of a profile preempt.
_PREEMPTING: Final = frozenset({names.DEFAULT_PREEMPTION, CAPACITY})


class _Waiting(msgspec.Struct, frozen=True):
    """A gang's waiting members, of which at least `need` must find nodes.

    `together`: they count towards a minimum; else any of them may start. `equal`: they are of one kind.
    """

    gang: Gang
    members: Members
    need: int
    together: bool
    equal: bool
    now: float


class _Attempt(msgspec.Struct, frozen=True):
    """The members that are assumed on nodes, and the messages and diagnoses of the others by uid."""

    assumed: AssumedMembers
    refused: dict[str, str]
    failures: dict[str, Diagnosis]

    @property
    def unprepared(self) -> Status | None:
        """The status of the first member whose node must be prepared, or None."""
        return next(
            (member.status for _, member in self.assumed if isinstance(member, UnpreparedMember)), None
        )

    @property
    def reserved(self) -> list[tuple[Profile, ReservedPod]]:
        """The assumed members, if none of their nodes must be prepared."""
        return [(profile, member) for profile, member in self.assumed if isinstance(member, ReservedPod)]


def schedules_gang(profile: Profile, ref: GroupRef) -> bool:
    """Whether a profile schedules the pods of such a group as a gang; native groups need no plugin."""
    if ref.native:
        return True
    if ref.dialect == "ConfigMap":
        return TOPOLOGY in profile.enabled
    return COSCHEDULING in profile.enabled or TOPOLOGY in profile.enabled


class GangCycle:
    """Tries gangs on the state of `cycle`. Has no state of its own."""

    def __init__(self, cycle: PodCycle) -> None:
        self.cycle = cycle
        self.state = cycle.state

    def run(self, gang: Gang, members: Members, now: float) -> Outcome:
        """Try the waiting members in order. Raises PluginError; then nothing is reserved."""
        census = take_census(self.state, gang.key)
        need = missing(gang, census)
        if need > len(members):
            return waits(members, too_few(gang, census, len(members)), lack=Lack.PODS)
        together = need > 0 and not gang.basic
        refusal = self._beyond_quota(gang, members, need) if together else ""
        if refusal:
            text = f"{gang.ref}: {refusal}"
            return waits(members, text, lack=Lack.QUOTA, plugins=frozenset({COSCHEDULING, CAPACITY}))
        need = max(need, 1)
        equal = len(members) > 1 and equal_members(self.state, members)
        waiting = _Waiting(gang, members, need, together, equal, now)
        if equal and (need > 1 or gang.ref.native):
            room = capacity_limit(self.cycle, *members[0], now)
            if room.fits < need:
                return self._no_room(waiting, room.fits, room.lack(need), {})
        attempt = self._attempt(waiting)
        if len(attempt.assumed) < need and worth_a_search(members, equal=equal):
            searched = GangSearch(self.cycle, members, need, now).run()
            if searched is not None:
                # Members that the search left out are tried one by one.
                held = {member.cycle.pod.uid for _, member in searched}
                attempt = _Attempt(searched, {pod.uid: "" for _, pod in members if pod.uid not in held}, {})
        if len(attempt.assumed) >= need:
            return self._starts(gang, members, attempt)
        diagnosis = next(iter(attempt.failures.values()), None)
        why = diagnosis.message if diagnosis is not None else ""
        return self._no_room(waiting, len(attempt.assumed), why, attempt.failures)

    def _attempt(self, waiting: _Waiting) -> _Attempt:
        """Assume members in this order; none if fewer than needed find nodes. Raises PluginError."""
        members, need = waiting.members, waiting.need
        alike = waiting.equal and not (self.state.nominations or looks_around(members[0][1]))
        found = _Attempt([], {}, {})
        with undone_on_error(lambda: self._undo(found.assumed)):
            for number, (profile, pod) in enumerate(members):
                result = self._try(profile, pod, waiting.now)
                if not isinstance(result, tuple):
                    found.assumed.append((profile, result))
                    continue
                found.refused[pod.uid], found.failures[pod.uid] = result
                if alike:
                    # The members that follow meet the same nodes and quota.
                    found.refused.update({other.uid: result[0] for _, other in members[number + 1 :]})
                    break
                if len(members) - len(found.refused) < need:
                    break
        if len(found.assumed) < need:
            self._undo(found.assumed)
        return found

    def _starts(self, gang: Gang, members: Members, attempt: _Attempt) -> Starts | Prepares:
        """The outcome if enough members have nodes; if a node must be prepared first, all are nominated."""
        lacks, plugins = attempt.unprepared, _plugins(attempt.failures)
        if lacks is None:
            return Starts(reserved=attempt.reserved, refused=attempt.refused, plugins=plugins, singly=True)
        self._undo(attempt.assumed)
        text = f"{gang.ref}: the pods that must start together have found nodes: {lacks.reason}"
        return Prepares(
            refused=one_text(members, text),
            plugins=plugins | {COSCHEDULING, lacks.plugin},
            members=to_prepare(self.state, attempt.assumed),
        )

    def _beyond_quota(self, gang: Gang, members: Members, need: int) -> str:
        """The text why the gang can never start under its quota, even an unused one; else empty."""
        state = self.state
        placed, ending = state.placed, state.table.ending
        known = state.gangs.members(gang.key).items() if need else ()
        running = [pod for uid, pod in known if uid in placed and not ending[placed[uid].row]]
        own = charges_by_namespace(state, running).get(gang.ref.namespace, {})
        return beyond_quota(state, members, need, own, own)

    def _try(self, profile: Profile, pod: Pod, now: float) -> AssumedMember | tuple[str, Diagnosis]:
        """Assume one member on a node, or give (message, diagnosis)."""
        attempt = self.cycle.attempt(profile, pod, now, post_filter=False)
        if attempt.slot < 0:
            diagnosis = attempt.diagnosis or Diagnosis(0)
            return diagnosis.message, diagnosis
        member = assume_member(self.cycle, profile, attempt)
        if isinstance(member, Status):
            return member.reason, Diagnosis(0, member, plugins=frozenset({member.plugin}))
        return member

    def _undo(self, assumed: AssumedMembers) -> None:
        for profile, member in reversed(assumed):
            forget_member(self.cycle, profile, member)

    def _no_room(self, waiting: _Waiting, found: int, why: str, failures: dict[str, Diagnosis]) -> MustWait:
        """The outcome without enough nodes, with victims unless evicting all candidates is not enough."""
        gang, members, need, now = waiting.gang, waiting.members, waiting.need, waiting.now
        shown = next(iter(failures.values()), None)
        if shown is None or shown.status is None or shown.status.plugin != CAPACITY:
            quota = refused_by_quota(self.state, members, need)
            why += f"; quota blocks, too: {quota}" if quota else ""
        outcome = waits(
            members,
            no_room_text(gang, found, need, len(members), why),
            need=need if waiting.together else 0,
            plugins=_plugins(failures) | {COSCHEDULING} | unschedulable_plugins(self.cycle, members, now),
        )
        if waiting.equal and capacity_limit(self.cycle, *members[0], now, evicting=True).fits < need:
            return outcome
        with self.cycle.backfill.all_kept():
            return self._with_victims(waiting, outcome)

    def _with_victims(self, waiting: _Waiting, outcome: MustWait) -> MustWait:
        """The outcome with the evictions that make room, or the reason why there is no fair move."""
        gang, members, need, now = waiting.gang, waiting.members, waiting.need, waiting.now
        if gang.ref.native:
            if all(_PREEMPTING.isdisjoint(profile.enabled) for profile, _ in members):
                return outcome
            preemption = preempt_for_group(self.cycle, gang, members, need, now)
        else:
            # With more members than needed, freed room goes to those with the highest priority.
            fewer = waiting.equal or need < len(members)
            in_order = members if fewer else largest_first(self.state, members)
            preemption = preempt_for_gang(self.cycle, in_order, need, now)
        if preemption is not None or never_preempts(gang, [pod for _, pod in members]):
            return msgspec.structs.replace(outcome, preemption=preemption)
        return outcome.with_fair_move(move_fairly(self.cycle, members, need, now))


def _plugins(failures: dict[str, Diagnosis]) -> frozenset[str]:
    return frozenset().union(*(diagnosis.plugins for diagnosis in failures.values()))


# Filters by which members may exclude each other, even if they refuse no node now.
_SHARED: Final = frozenset({names.NODE_RESOURCES_FIT, names.NODE_PORTS, names.CAPACITY_SCHEDULING})
# With more kinds of members all plugins of their profiles count as rejecting.
MOST_KINDS: Final = 16


def unschedulable_plugins(cycle: PodCycle, members: Members, now: float) -> frozenset[str]:
    """The plugins whose events may help a gang without room: all that reject any kind of member anywhere.

    Members that found a node count as well: if another node opens for one of them, its node may be another
    member's. Raises PluginError.
    """
    found = set().union(*(searched_for(cycle.state, pod) for _, pod in members))
    if _others_are_nominated(cycle, members):
        found.add(NOMINATED_PODS)
    kinds = dict(zip(kinds_of(cycle.state, members), members, strict=True))
    if len(kinds) > MOST_KINDS:
        return frozenset(found).union(*(profile.enabled for profile, _ in members))
    nodes = cycle.state.nodes
    alive = nodes.alive[: nodes.size]
    for profile, pod in kinds.values():
        own = cycle.new_cycle(profile, pod, now)
        cycle.pre_filter(profile, own)
        scores = cycle.scores_for(profile, own)
        if scores.status is not None:
            found.add(scores.status.plugin)
        bits = cycle.filter_bits(profile, own, scores)
        found |= own.refused | (_SHARED & profile.enabled)
        found |= {name for name, refused in bits.items() if refused[alive].any()}
    return frozenset(found)


def _others_are_nominated(cycle: PodCycle, members: Members) -> bool:
    own = {pod.uid for _, pod in members}
    return any(item.pod.uid not in own for item in cycle.state.nominations.waiting(lambda _: True))
