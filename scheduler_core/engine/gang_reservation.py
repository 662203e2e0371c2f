"""Keeping nodes for a gang that does not fit (coscheduling reference, item 5).

The first such gang of the queue gets a node nominated for every member that it needs: at once where the
deadlines of running pods say when it can start, else when it has waited long enough (at once with
`strictReservation`). Pods behind it may still start wherever a nominated member keeps its room, or where they
end themselves before the gang can start (backfill); pods of higher priority are not held up. What is kept
ends with the limit (engine.gang_limits), and what could not be used by then is not kept at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TypeVar

from scheduler_core.engine.gang_capacity import Members, beyond_quota, in_use, leaving
from scheduler_core.engine.gang_cycle import GangOutcome, largest_first
from scheduler_core.engine.gang_limits import GangLimits
from scheduler_core.engine.gang_plan import (
    NO_SEATS,
    Plan,
    ending_on,
    kept_of,
    plan_by_ends,
    plan_on_empty,
    seats_held,
    still_possible,
)
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.engine.queue import SchedulingQueue
from scheduler_core.engine.unit import Part, QueuedUnit
from scheduler_core.framework.preemption.eligibility import gang_waits, lost_its_node, will_do
from scheduler_core.framework.profile import Profile
from scheduler_core.model.pod import Pod
from scheduler_core.quota.ledger import shift

T = TypeVar("T")


class GangReservations:
    """Which gang nodes are kept for: one at a time, the first in the order of the queue."""

    def __init__(self, cycle: PodCycle, queue: SchedulingQueue, profiles: Mapping[str, Profile]) -> None:
        self._cycle = cycle
        self._profiles = profiles
        self._queue = queue
        self._kept_for = ""
        self._need = 0
        self._plan_kept = NO_SEATS
        # Pods that will have ended by the start, whose share is therefore not kept a second time.
        self._ending: set[str] = set()
        self._ending_rows: list[int] = []
        self.limits = GangLimits(cycle.state, queue, self, profiles)

    @property
    def start(self) -> float:
        """When the gang that nodes are kept for can start; 0 if there is none, or nobody knows."""
        return self._plan_kept.start if self._kept_for else 0.0

    def tried(self, unit: QueuedUnit, members: Members, outcome: GangOutcome, now: float) -> None:
        """A gang was tried: keep nodes for it if time may bring the room that it lacks."""
        if outcome.hopeless or outcome.too_few:
            # No room helps it now, so nobody else need wait for what was kept for it.
            self._give_up(unit)
        elif (outcome.reserved or outcome.preemption is not None) and unit.key == self._kept_for:
            # It starts; or what is nominated now was chosen with its victims, and waits for their end.
            self._kept_for = ""
        elif outcome.need and outcome.preemption is None:
            self._consider(unit, members, outcome.need, now)
        elif outcome.preemption is None and not outcome.preparing and not outcome.reserved:
            self._unless_victims_leave(unit, members)
        if outcome.reserved:
            self._cycle.state.inherited.release(unit.key)

    def _unless_victims_leave(self, unit: QueuedUnit, members: Members) -> None:
        """No time brings it the room that it lacks; pods on their way out may."""
        if not gang_waits(self._cycle.state, (pod for _, pod in members)):
            self._give_up(unit)

    def not_whole(self, unit: QueuedUnit) -> None:
        """The pods of a unit are tried one by one: nothing is kept for them as a gang."""
        if unit.key == self._kept_for:
            self._give_up(unit)
        self._cycle.state.inherited.release(unit.key)

    def begin(self, unit: QueuedUnit, members: Iterable[Pod], *, whole: bool) -> None:
        """A gang is to be tried: give up nodes that are of no use to it any more.

        Where it starts as a `whole`, members wait for no node that was found for them alone.
        """
        state = self._cycle.state
        for pod in members:
            if lost_its_node(state, pod):
                # Where the others' nodes were found for all of them together, the gang looks anew.
                state.nominations.remove_group(unit.key)
                state.nominations.remove(pod.uid)
        for uid in unit.pods if whole else ():
            item = state.nominations.get(uid)
            if item is not None and item.group != unit.key:
                state.nominations.remove(uid)

    def _consider(self, unit: QueuedUnit, members: Members, need: int, now: float) -> None:
        state = self._cycle.state
        holder = self._queue.units.get(self._kept_for)
        order = members[0][0].queue_sort.sort_key
        if gang_waits(state, (pod for _, pod in members)):
            return
        held = self._plan_kept if holder is unit else NO_SEATS
        if unit.since is None:
            # The first try of this process: a process that is gone may have kept nodes for it.
            held = seats_held(state, members)
        if any(order(other) < order(unit) for other in self._others(unit)):
            self._give_up(unit)
            return
        plan = self._plan(unit, members, need, now, held)
        if holder is not None and (holder is unit if plan is None else holder is not unit):
            self._give_up(holder)
        if plan is not None:
            self._keep(unit, plan, need, now)
        else:
            self._drop(unit)

    def _others(self, unit: QueuedUnit) -> Iterator[QueuedUnit]:
        """Gangs beside this one for which nodes are kept, also until pods that leave anyhow are gone."""
        kept = (standing.group for standing in self._cycle.state.nominations.sums if standing.kept)
        for key in {self._kept_for, *kept} - {unit.key}:
            other = self._queue.units.get(key)
            if other is not None:
                yield other

    def _plan(self, unit: QueuedUnit, members: Members, need: int, now: float, held: Plan) -> Plan | None:
        """When running pods end; else the nodes that are kept already; else, after patience, empty nodes.

        `held` are the nodes that are kept now: what the gang had waited for is still its own.
        """
        state = self._cycle.state
        until = state.gangs.keeping.until(unit.key, members[0][1].namespace, now)
        if until <= now:
            return None
        in_order = largest_first(state, members)
        waiting = {pod.uid for _, pod in members}
        seats = [seat for seat in held.seats if seat.pod.uid in waiting]
        held = Plan(tuple(seats[:need]), held.start)
        plan = plan_by_ends(self._cycle, in_order, need, now, held)
        if plan is not None and plan.start > until:
            plan = None
        seconds = patience(members[0][0])
        waited = now - unit.since if unit.since is not None else 0.0
        if plan is not None or seconds is None or (waited < seconds and not held.seats):
            return plan
        if not self._within_quota(members, need):
            return None
        if not held.start and still_possible(self._cycle, held, members, need):
            return held
        return plan_on_empty(self._cycle, in_order, need, now)

    def _within_quota(self, members: Members, need: int) -> bool:
        """Whether the quota will have room for the members, beside those who evicted for theirs."""
        state = self._cycle.state
        namespace = members[0][1].namespace
        used, total = in_use(state, namespace, leaving(state))
        for standing, sums in state.nominations.sums.items():
            if not standing.kept and state.ledger.quota_of(standing.namespace) is not None:
                shift(total, sums)
                if standing.namespace == namespace:
                    shift(used, sums)
        return not beyond_quota(state, members, need, used, total)

    def look_after(self, unit: QueuedUnit | None, nodes: Collection[str], now: float) -> None:
        """Others were placed on some nodes, or nominated: try gangs again that cannot start beside them.

        `unit` is the one that was tried, None where a pod came with its own node. Another gang that nodes are
        kept for is no reason: of two such gangs either would give way to the other.
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
            # Only who is nominated may have what is kept.
            looks = bool(added)
            if self._lost(gang, looks) if key == self._kept_for else self._waits_in_vain(gang, given):
                self._queue.activate(gang, now)

    def in_vain(self, unit: QueuedUnit) -> bool:
        """Whether a gang cannot start on what is kept for it, even if all else ended."""
        if unit.key == self._kept_for:
            return len(unit.pods) < self._need or self._lost(unit, True)
        waiting = self._cycle.state.nominations.waiting(lambda standing: standing.group == unit.key)
        return self._waits_in_vain(unit, {item.node for item in waiting})

    def let_go(self, group: str) -> None:
        """Nothing is kept for the gang any more."""
        if self._kept_for == group:
            self._kept_for = ""

    def _lost(self, holder: QueuedUnit, looks: bool) -> bool:
        """Whether the gang cannot start on its kept nodes any more; `looks`: their room may be another's."""
        members = self._members(holder.pods.values())
        lost = looks and not still_possible(self._cycle, self._plan_kept, members, self._need)
        return lost or not self._within_quota(members, self._need)

    def _waits_in_vain(self, gang: QueuedUnit, nodes: Collection[str]) -> bool:
        """Whether a gang has nodes kept until pods that leave anyhow are gone, and would not fit even then.

        Of its nodes, those are looked at where somebody was placed or nominated; one is enough for the quota.
        """
        seats = self._cycle.state.nominations.waiting(lambda standing: standing.group == gang.key)
        return any(
            not will_do(self._cycle.state, seat)
            for number, seat in enumerate(seats)
            if number == 0 or seat.node in nodes
        )

    def _members(self, pods: Iterable[Pod]) -> Members:
        return [(self._profiles[pod.scheduler_name], pod) for pod in pods]

    def _drop(self, unit: QueuedUnit) -> None:
        for uid in unit.pods:
            self._cycle.state.nominations.remove(uid)

    def _keep(self, unit: QueuedUnit, plan: Plan, need: int, now: float) -> None:
        if plan.start > max(now, self.start if unit.key == self._kept_for else 0.0):
            self._wake_who_ends_by(plan.start, unit, now)
        self._kept_for, self._need, self._plan_kept = unit.key, need, plan
        seated = {seat.pod.uid for seat in plan.seats}
        for uid in unit.pods.keys() - seated:
            self._cycle.state.nominations.remove(uid)
        self._nominate(unit)

    def _wake_who_ends_by(self, moment: float, holder: QueuedUnit, now: float) -> None:
        """Whoever must have ended by the start of the gang may run beside what is kept for it until then."""
        units = self._queue.units.values()
        sooner = [unit for unit in units if unit is not holder and _ends_by(unit, now, moment)]
        self._queue.reactivate((pod for unit in sooner for pod in unit.pods.values()), now)

    def due(self, unit: QueuedUnit, now: float) -> float:
        """When nodes are kept for a gang that has failed, if it still does not fit by then."""
        profiles = {pod.scheduler_name for pod in unit.pods.values()}
        known = (patience(self._profiles[name]) for name in profiles)
        seconds = min((value for value in known if value is not None), default=math.inf)
        namespace = next((pod.namespace for pod in unit.pods.values()), "")
        moment = (unit.since if unit.since is not None else now) + seconds
        moment = max(moment, self._cycle.state.gangs.keeping.rests(namespace))
        return moment if moment > now else math.inf

    def _nominate(self, holder: QueuedUnit) -> None:
        """Nominate a node for every seat, for no more than is needed beside what will have ended by then."""
        state, plan = self._cycle.state, self._plan_kept
        self._ending, self._ending_rows = set(), []
        seated = (seat.pod.uid for seat in plan.seats)
        top = max((holder.pods[uid].priority for uid in seated if uid in holder.pods), default=0)
        for slot in {seat.slot for seat in plan.seats}:
            seats = [seat for seat in plan.seats if seat.slot == slot and seat.pod.uid in holder.pods]
            ending = ending_on(state, slot, plan.start) if plan.start else {}
            self._ending.update(ending)
            self._ending_rows += [state.placed[uid].row for uid in ending]
            kept = kept_of(seats, ending.values(), len(state.index))
            for seat, vector in zip(seats, kept, strict=True):
                pod, node = holder.pods[seat.pod.uid], state.nodes.names[slot]
                state.nominations.put(pod, node, vector, kept=True, group=holder.key, priority=top)

    def _give_up(self, holder: QueuedUnit) -> None:
        self._drop(holder)
        self.let_go(holder.key)

    def aside(self, unit: QueuedUnit, now: float, schedule: Callable[[QueuedUnit, float], T]) -> T:
        """Schedule a unit; one whose pods all end before the kept gang can start as if nothing were kept."""
        if not self._kept_for:
            return schedule(unit, now)
        holder = self._queue.units.get(self._kept_for)
        if holder is not None and len(holder.pods) < self._need:
            # A member that waited is gone: the gang cannot start now, whatever is kept for it.
            self._give_up(holder)
            holder = None
        if holder is None or holder is unit:
            return schedule(unit, now)
        if self._ended_early():
            # The gang counted on that room, so nobody else may take it now.
            self._nominate(holder)
        if not _ends_by(unit, now, self.start):
            return schedule(unit, now)
        with self._cycle.backfill.aside(tuple(holder.pods), lambda: self._keep_again(holder)):
            return schedule(unit, now)

    def _ended_early(self) -> bool:
        """Whether a pod whose end was expected by the start of the gang is gone, or on its way out."""
        state = self._cycle.state
        return not self._ending <= state.placed.keys() or bool(state.table.going[self._ending_rows].any())

    def _keep_again(self, holder: QueuedUnit) -> None:
        if self._kept_for == holder.key:
            self._nominate(holder)


def _ends_by(unit: QueuedUnit, now: float, moment: float) -> bool:
    return all(pod.lasts is not None and now + pod.lasts <= moment for pod in unit.pods.values())


def patience(profile: Profile) -> float | None:
    """Seconds that a gang of this profile waits before nodes are kept for it; None if none ever are."""
    seconds = [getattr(plugin, "reservation_seconds", None) for plugin in profile.plugins]
    given = [float(value) for value in seconds if value is not None]
    return min(given, default=None)
