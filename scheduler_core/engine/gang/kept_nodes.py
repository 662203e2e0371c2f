"""Keeps nodes for a gang that waits for room (docs/gangs.md#when-a-gang-does-not-fit).

The first such gang in queue order gets a node nominated for every member that it needs: at once if the
deadlines of running pods tell when it can start, else when it has waited long enough (at once with
`strictReservation`). Pods behind it may still start beside the kept room, or if they end before the gang can
start (backfill); pods of higher priority are not held up. Keeping ends with a limit; nodes that could not be
used before the limit are not kept at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeVar

from scheduler_core.engine.gang.capacity import beyond_quota, charges_of, in_use, leaving
from scheduler_core.engine.gang.members import Members, largest_first
from scheduler_core.engine.gang.outcome import AtFault, Lack, MustWait, Outcome, Starts
from scheduler_core.engine.gang.plan import (
    EMPTY_PLAN,
    GangPlan,
    ending_on,
    fits_after_leaving,
    kept_of,
    plan_by_ends,
    plan_of_kept_nodes,
    plan_on_empty,
    still_possible,
)
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.queue.scheduling_queue import SchedulingQueue
from scheduler_core.engine.queue.unit import Part, QueuedUnit
from scheduler_core.framework.nominations.nominated_sums import (
    nominated_by_quota,
    nominated_of_quotas,
    nominated_requests,
)
from scheduler_core.framework.nominations.stale_nominations import release_lost
from scheduler_core.framework.preemption.eligibility import (
    gang_waits,
    leaving_for,
    lost_its_node,
    will_do,
)
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.ledger import shift
from scheduler_core.quota.policy import admit_charge
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.gangs.kept_nodes import DEFAULT_LIMIT_SECONDS

T = TypeVar("T")


class NodeKeeper:
    """Keeps nodes for one gang at a time, the first in queue order.

    `kept_for`: the key of that gang's unit; empty if no nodes are kept.
    """

    def __init__(self, cycle: PodCycle, queue: SchedulingQueue, profiles: Mapping[str, Profile]) -> None:
        self._cycle = cycle
        self._profiles = profiles
        self._queue = queue
        self.kept_for = ""
        self._need = 0
        self._kept_plan = EMPTY_PLAN
        # Whether its quota has room for the gang only when others have come to their deadlines.
        self._quota_later = False
        # Pods that will have ended by the start; their room is not kept a second time.
        self._ending: set[str] = set()
        self._ending_rows: list[int] = []
        self.limits = KeepingLimits(cycle.state, queue, self, profiles)

    @property
    def start(self) -> float:
        """When the gang that nodes are kept for can start; 0 if there is none or the time is not known."""
        return self._kept_plan.start if self.kept_for else 0.0

    def after_attempt(self, unit: QueuedUnit, members: Members, outcome: Outcome, now: float) -> None:
        """Keep nodes for a gang after its attempt, if time may bring the room that it lacks."""
        state = self._cycle.state
        match outcome:
            case AtFault() | MustWait(lack=Lack.QUOTA | Lack.PODS):
                # No room would help it now, so its kept nodes are released.
                self._give_up(unit)
            case Starts():
                self.forget(unit.key)
                state.restored_nominations.release(unit.key)
            case MustWait(preemption=preemption) if preemption is not None:
                # Its nodes are now nominated with victims and wait for their end.
                self.forget(unit.key)
            case MustWait(need=need) if need:
                self._consider(unit, members, need, now)
            case MustWait() if not gang_waits(state, (pod for _, pod in members)):
                # It waits for no leaving pods either.
                self._give_up(unit)

    def members_tried_singly(self, unit: QueuedUnit) -> None:
        """Release the kept nodes of a unit whose pods are tried one by one."""
        if unit.key == self.kept_for:
            self._give_up(unit)
        self._cycle.state.restored_nominations.release(unit.key)

    def before_attempt(self, unit: QueuedUnit, members: Iterable[Pod], *, whole: bool) -> None:
        """Release nominations of a gang that are of no use to it any more, before its attempt.

        If it starts as a `whole`, nominations that a member got alone are released as well.
        """
        state = self._cycle.state
        for pod in members:
            if lost_its_node(state, pod):
                # The members' nodes were found together, so the gang searches again for all.
                state.nominations.remove_group(unit.key)
                state.nominations.remove(pod.uid)
        for uid in unit.pods if whole else ():
            item = state.nominations.get(uid)
            if item is not None and item.group != unit.key:
                state.nominations.remove(uid)

    def _consider(self, unit: QueuedUnit, members: Members, need: int, now: float) -> None:
        state = self._cycle.state
        holder = self._queue.units.get(self.kept_for)
        order = members[0][0].queue_sort.sort_key
        if gang_waits(state, (pod for _, pod in members)):
            self._keep_whole(unit, members, need)
            return
        held = self._kept_plan if holder is unit else EMPTY_PLAN
        if unit.since is None:
            # The first attempt in this process: an earlier process may have kept nodes.
            held = plan_of_kept_nodes(state, members)
        if any(order(other) < order(unit) for other in self._others(unit)):
            self._give_up(unit)
            return
        plan = self._plan(unit, members, need, now, held)
        if holder is not None and (holder is unit if plan is None else holder is not unit):
            self._give_up(holder)
            if holder is not unit and holder.part is Part.UNSCHEDULABLE:
                # It says that its nodes are kept until it is tried again.
                self._queue.activate(holder, now)
        if plan is not None:
            self._keep(unit, members, plan, need, now)
        else:
            self._remove_nominations(unit)

    def _keep_whole(self, unit: QueuedUnit, members: Members, need: int) -> None:
        """Keep all that the members need, if leaving pods make room before ends that were counted on.

        Else a pod would start in the room of these, and the gang would evict it so as not to wait for them.
        """
        plan = self._kept_plan
        if unit.key == self.kept_for and plan.start and fits_after_leaving(self._cycle, plan, members, need):
            self._kept_plan = GangPlan(plan.members)
            self._nominate(unit)

    def _others(self, unit: QueuedUnit) -> Iterator[QueuedUnit]:
        """Other gangs for which nodes are kept, including those that wait for leaving pods."""
        kept = (standing.group for standing in self._cycle.state.nominations.sums if standing.kept)
        for key in {self.kept_for, *kept} - {unit.key}:
            other = self._queue.units.get(key)
            if other is not None:
                yield other

    def _plan(
        self, unit: QueuedUnit, members: Members, need: int, now: float, held: GangPlan
    ) -> GangPlan | None:
        """The plan by the ends of running pods, else the kept nodes, else (after the delay) empty nodes.

        `held`: the plan of the nodes that are kept now.
        """
        state = self._cycle.state
        until = state.gangs.kept_nodes.until(unit.key, members[0][1].namespace, now)
        if until <= now:
            return None
        in_order = largest_first(state, members)
        waiting = {pod.uid for _, pod in members}
        planned = [member for member in held.members if member.pod.uid in waiting]
        held = GangPlan(tuple(planned[:need]), held.start)
        plan = plan_by_ends(self._cycle, in_order, need, now, held)
        if plan is not None and plan.start > until:
            plan = None
        seconds = reservation_delay(members[0][0])
        waited = now - unit.since if unit.since is not None else 0.0
        if plan is not None or seconds is None or (waited < seconds and not held.members):
            return plan
        if not self._within_quota(members, need):
            return None
        if not held.start and still_possible(self._cycle, held, members, need):
            return held
        return plan_on_empty(self._cycle, in_order, need, now)

    def _within_quota(self, members: Members, need: int) -> bool:
        """Whether the quota will have room for the members, beside pods nominated with victims."""
        state = self._cycle.state
        namespace = members[0][1].namespace
        used, total = in_use(state, namespace, leaving(state))
        nominated, by_namespace = nominated_of_quotas(state)
        shift(total, nominated)
        shift(used, by_namespace.get(namespace, {}))
        return not beyond_quota(state, members, need, used, total)

    def recheck(self, unit: QueuedUnit | None, nodes: Collection[str], now: float) -> None:
        """Requeue gangs that can no longer start on their kept nodes, after others were placed or nominated.

        `unit` is the one that was tried, None for a pod that was added with a node. Nodes kept for another
        gang do not count: of two such gangs each would give way to the other.
        """
        self.limits.observe(now)
        known, added = self._cycle.state.nominations.sums, self._cycle.state.nominations.added
        given = {*nodes, *(item.node for item in added.values() if not item.kept)}
        if not given:
            return
        for key in sorted({standing.group for standing in known if standing.kept}):
            gang = self._queue.units.get(key)
            if gang is None or gang is unit or gang.part is not Part.UNSCHEDULABLE:
                continue
            # Only newly nominated pods can take kept room.
            looks = bool(added)
            if (
                self._lost_kept_nodes(gang, looks)
                if key == self.kept_for
                else self._cannot_start_after_victims(gang, given)
            ):
                self._queue.activate(gang, now)

    def cannot_start(self, unit: QueuedUnit) -> bool:
        """Whether a gang cannot start on its kept nodes, even if all other pods ended."""
        if unit.key == self.kept_for:
            return len(unit.pods) < self._need or self._lost_kept_nodes(unit, True)
        waiting = self._cycle.state.nominations.waiting(lambda standing: standing.group == unit.key)
        return self._cannot_start_after_victims(unit, {item.node for item in waiting})

    def forget(self, key: str) -> None:
        """Forget the plan of a gang whose kept nodes were released."""
        if self.kept_for == key:
            self.kept_for = ""

    def _lost_kept_nodes(self, holder: QueuedUnit, looks: bool) -> bool:
        """Whether the gang can no longer start on its kept nodes; with `looks` the nodes are checked too.

        A quota that has room later, by the plan, is looked at when the gang is tried again.
        """
        members = self._members(holder.pods.values())
        lost = looks and not still_possible(self._cycle, self._kept_plan, members, self._need)
        return lost or not (self._quota_later or self._within_quota(members, self._need))

    def _cannot_start_after_victims(self, gang: QueuedUnit, nodes: Collection[str]) -> bool:
        """Whether a gang that waits for leaving pods would not fit its nominated nodes even without them.

        Only `nodes`, where others were placed or nominated, and the first nomination (for the quota) are
        checked.
        """
        nominations = self._cycle.state.nominations.waiting(lambda standing: standing.group == gang.key)
        return any(
            not will_do(self._cycle.state, item)
            for number, item in enumerate(nominations)
            if number == 0 or item.node in nodes
        )

    def _members(self, pods: Iterable[Pod]) -> Members:
        return [(self._profiles[pod.scheduler_name], pod) for pod in pods]

    def _remove_nominations(self, unit: QueuedUnit) -> None:
        for uid in unit.pods:
            self._cycle.state.nominations.remove(uid)

    def _keep(self, unit: QueuedUnit, members: Members, plan: GangPlan, need: int, now: float) -> None:
        if self._waits_for_victims(unit, members, plan, need):
            return
        if plan.start > max(now, self.start if unit.key == self.kept_for else 0.0):
            self._activate_units_that_end_by(plan.start, unit, now)
        self.kept_for, self._need, self._kept_plan = unit.key, need, plan
        self._quota_later = plan.start > now and not self._within_quota(members, need)
        planned = {member.pod.uid for member in plan.members}
        for uid in unit.pods.keys() - planned:
            self._cycle.state.nominations.remove(uid)
        self._nominate(unit)

    def _waits_for_victims(self, unit: QueuedUnit, members: Members, plan: GangPlan, need: int) -> bool:
        """Nominate the planned nodes with the right of earlier evictions, if their victims still leave.

        Only if the gang can start once they are gone. Else it would not wait for them: its next attempt would
        take the nominations back, which wakes it again. A new process reads the same right from the
        conditions of these victims.
        """
        state = self._cycle.state
        victims = leaving_for(state, list(unit.pods.values()))
        if not victims or not fits_after_leaving(self._cycle, plan, members, need):
            return False
        nominated = [
            (unit.pods[item.pod.uid], state.nodes.names[item.slot], item.vector)
            for item in plan.members
            if item.pod.uid in unit.pods
        ]
        if not _admitted_after_leaving(state, [pod for pod, _, _ in nominated]):
            return False
        state.nominations.put_gang(unit.key, nominated, victims, kept=False)
        self.forget(unit.key)
        return True

    def _activate_units_that_end_by(self, moment: float, holder: QueuedUnit, now: float) -> None:
        """Requeue units that must have ended by the start of the gang: they may be backfilled."""
        units = self._queue.units.values()
        sooner = [unit for unit in units if unit is not holder and _ends_by(unit, now, moment)]
        self._queue.reactivate((pod for unit in sooner for pod in unit.pods.values()), now)

    def due(self, unit: QueuedUnit, now: float) -> float:
        """When nodes will be kept for a rejected gang if it still does not fit; infinite if never."""
        profiles = {pod.scheduler_name for pod in unit.pods.values()}
        known = (reservation_delay(self._profiles[name]) for name in profiles)
        seconds = min((value for value in known if value is not None), default=math.inf)
        namespace = next((pod.namespace for pod in unit.pods.values()), "")
        moment = (unit.since if unit.since is not None else now) + seconds
        moment = max(moment, self._cycle.state.gangs.kept_nodes.rests(namespace))
        return moment if moment > now else math.inf

    def _nominate(self, holder: QueuedUnit) -> None:
        """Nominate the planned node of every member, without the room of pods that end before the start."""
        state, plan = self._cycle.state, self._kept_plan
        self._ending, self._ending_rows = set(), []
        uids = (member.pod.uid for member in plan.members)
        top = max((holder.pods[uid].priority for uid in uids if uid in holder.pods), default=0)
        for slot in {member.slot for member in plan.members}:
            planned = [
                member for member in plan.members if member.slot == slot and member.pod.uid in holder.pods
            ]
            ending = ending_on(state, slot, plan.start) if plan.start else {}
            self._ending.update(ending)
            self._ending_rows += [state.placed[uid].row for uid in ending]
            kept = kept_of(planned, ending.values(), len(state.index))
            for member, vector in zip(planned, kept, strict=True):
                pod, node = holder.pods[member.pod.uid], state.nodes.names[slot]
                state.nominations.put(pod, node, vector, kept=True, group=holder.key, priority=top)

    def _give_up(self, holder: QueuedUnit) -> None:
        self._remove_nominations(holder)
        self.forget(holder.key)

    def schedule(self, unit: QueuedUnit, now: float, schedule: Callable[[QueuedUnit, float], T]) -> T:
        """Schedule a unit; if its pods end before the gang can start, without the kept nodes (backfill)."""
        if not self.kept_for:
            return schedule(unit, now)
        holder = self._queue.units.get(self.kept_for)
        if holder is not None and len(holder.pods) < self._need:
            # A waiting member is gone: the gang cannot start now.
            self._give_up(holder)
            holder = None
        if holder is None or holder is unit:
            return schedule(unit, now)
        if self._ended_early():
            # The gang counted on that room: keep it.
            self._nominate(holder)
        if not _ends_by(unit, now, self.start):
            return schedule(unit, now)
        with self._cycle.backfill.aside(tuple(holder.pods), lambda: self._keep_again(holder)):
            return schedule(unit, now)

    def _ended_early(self) -> bool:
        """Whether a pod that was expected to end before the start of the gang is gone or leaving."""
        state = self._cycle.state
        return not self._ending <= state.placed.keys() or bool(state.table.leaving[self._ending_rows].any())

    def _keep_again(self, holder: QueuedUnit) -> None:
        if self.kept_for == holder.key:
            self._nominate(holder)


def _admitted_after_leaving(state: ClusterState, pods: Sequence[Pod]) -> bool:
    """Whether quotas admit some members of a gang together once all leaving pods are gone."""
    own, total = nominated_requests(state, pods[0])
    refusal = admit_charge(
        state.ledger,
        pods[0].namespace,
        charges_of(state, pods),
        nominated=own,
        nominated_total=total,
        nominated_by=nominated_by_quota(state, pods[0]),
        after_leaving=True,
    )
    return refusal is None


def _ends_by(unit: QueuedUnit, now: float, moment: float) -> bool:
    return all(pod.lasts is not None and now + pod.lasts <= moment for pod in unit.pods.values())


def reservation_delay(profile: Profile) -> float | None:
    """Seconds that a gang of this profile waits before nodes are kept for it; None if they never are."""
    return min(_given(profile, "reservation_seconds"), default=None)


# How often kept nodes are checked for whether their gang can still start on them.
EXAMINED_EVERY_SECONDS: Final = 5.0


class KeepingLimits:
    """Releases kept nodes at their limit, or when their gang can no longer start on them.

    The shortest limit of all profiles applies.
    """

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        keeper: NodeKeeper,
        profiles: Mapping[str, Profile],
    ) -> None:
        self._state = state
        self._queue = queue
        self._keeper = keeper
        self._examined = -math.inf
        self._keeping = state.gangs.kept_nodes
        self._keeping.limit = min(map(limit, profiles.values()), default=DEFAULT_LIMIT_SECONDS)
        state.gangs.quota_holds.limit = self._keeping.limit

    def enforce(self, now: float) -> None:
        """Release overdue nodes and take over nominations of an earlier process; called before each step."""
        for node in sorted(self._state.restored_nominations.resolve()):
            self._queue.reactivate(release_lost(self._state, node), now)
        self.observe(now)
        for key in self._keeping.overdue(now):
            self._keeping.end(key, now)
            self._end(key, now)
        if self._keeping.kept and now >= self._examined + EXAMINED_EVERY_SECONDS:
            self._examined = now
            self._examine(now)

    def observe(self, now: float) -> None:
        """Update the records of kept nodes from the nominations."""
        self._keeping.observe(self._state.nominations, self._state.placed.keys(), now)

    def _examine(self, now: float) -> None:
        for key, kept in list(self._keeping.kept.items()):
            unit = self._queue.units.get(key)
            if unit is None or unit.part is not Part.UNSCHEDULABLE or not self._keeper.cannot_start(unit):
                continue
            if kept.evicts:
                # The gang decides by a new attempt what it still needs.
                self._queue.activate(unit, now)
            else:
                self._end(key, now)

    def _end(self, key: str, now: float) -> None:
        self._state.nominations.remove_group(key)
        self._keeper.forget(key)
        unit = self._queue.units.get(key)
        if unit is None:
            return
        # Its reservation delay starts again.
        unit.since = now
        if unit.part is Part.UNSCHEDULABLE:
            self._queue.activate(unit, now)


def limit(profile: Profile) -> float:
    """The longest time in seconds for which nodes are kept for a gang of this profile."""
    return min(_given(profile, "reservation_limit"), default=DEFAULT_LIMIT_SECONDS)


def _given(profile: Profile, setting: str) -> list[float]:
    """The values of a setting, of the plugins that have it."""
    values = (getattr(plugin, setting, None) for plugin in profile.plugins)
    return [float(value) for value in values if value is not None]
