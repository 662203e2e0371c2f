"""Preemption of one pod: eligible or not, victims on one node, victims on several, and the proof.

The arrays say which victims resources and quotas need; a Trial then takes them away, runs every filter again
and gives back each victim that the pod can do without. Only what passes is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.across import victims_anywhere
from scheduler_core.framework.preemption.budgets import mark_violations, violating
from scheduler_core.framework.preemption.demand import Demand, Rows, nominated_room
from scheduler_core.framework.preemption.gangs import whole_gangs
from scheduler_core.framework.preemption.lanes import Lanes, rank
from scheduler_core.framework.status import SUCCESS, unschedulable
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pod import NEVER, Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial

Bool = NDArray[np.bool_]

# How many of the best nodes are tried with all filters, and how many whose filters need evictions to clear.
MAX_TRIALS: Final = 16
MAX_EXACT_NODES: Final = 100


def refused(reason: str) -> PostFilterResult:
    """No preemption, and why."""
    return PostFilterResult(unschedulable(reason), message=f"preemption: {reason}.")


def not_eligible(state: ClusterState, pod: Pod) -> str:
    """Why the pod may not preempt now, or an empty text (reference, rule 13)."""
    if pod.preemption_policy == NEVER:
        return "not eligible due to preemptionPolicy=Never"
    there = awaited(state, pod)
    if there:
        return f"not eligible while {len(there)} victims of an earlier preemption are terminating"
    return ""


def awaited(state: ClusterState, pod: Pod) -> set[str]:
    """Pods (uids) whose end a nominated pod waits for; none if its node became unusable."""
    nomination = state.nominations.get(pod.uid)
    if nomination is None:
        return set()
    slot = state.nodes.slot(nomination.node)
    if slot is None or not state.nodes.alive[slot] or state.nodes.unschedulable[slot]:
        return set()
    if nomination.victims:
        return {uid for uid in nomination.victims if uid in state.placed}
    # After a restart the victims are not known by name; those on the node can still be seen going.
    return {uid for uid in state.nodes.pods[slot] if state.table.going[state.placed[uid].row]}


class Search:
    """One preemption attempt. `evaluation` re-runs the filters on the state as it is."""

    def __init__(self, cycle: Cycle, evaluation: Evaluation, demand: Demand) -> None:
        self.state = cycle.state
        self.pod = cycle.pod
        self.now = cycle.now
        self.evaluation = evaluation
        self.demand = demand
        budgets = cycle.state.objects.get("PodDisruptionBudget", {})
        self.budgets: list[PodDisruptionBudget] = list(budgets.values())

    def run(self, *, across_nodes: bool) -> PostFilterResult:
        """The best node and its victims, or why no eviction helps."""
        demand, table = self.demand, self.state.table
        hopeless = self.evaluation.hopeless() if self._anything_leaves() else None
        if hopeless is not None:
            slot = self._after_leaving(hopeless)
            if slot >= 0:
                node = self.state.nodes.names[slot]
                return PostFilterResult(SUCCESS, node, (), f"waiting for pods to end on node {node}.")
        if not len(demand.candidates):
            return refused("No preemption victims found for incoming pod")
        most = table.requests[: len(demand.need)][:, demand.candidates].sum(axis=1)
        if (most < demand.need).any():
            return refused("No set of victims frees enough of the quota")
        hopeless = self.evaluation.hopeless() if hopeless is None else hopeless
        lacking = np.maximum(demand.request[:, None] - self._free(), 0)  # [R, N]
        found = self._on_one_node(hopeless, lacking)
        if found is None and across_nodes and (demand.need > 0).any():
            found = self._across_nodes(hopeless, lacking)
        if found is None:
            return refused("No set of victims makes room for the pod")
        if across_nodes and (demand.need > 0).any():
            found = self._fewer_elsewhere(*found, hopeless)
        slot, victims = found
        node = self.state.nodes.names[slot]
        return PostFilterResult(SUCCESS, node, tuple(victims), self._message(node, victims))

    def _anything_leaves(self) -> bool:
        table = self.state.table
        return bool((table.going[: table.size] & table.alive[: table.size]).any())

    def _after_leaving(self, hopeless: Bool) -> int:
        """A node on which the pod fits as soon as pods that are on their way out are gone, or -1."""
        if (self.demand.need > 0).any():
            return -1
        return self._slot_with_room(hopeless)

    def _free(self) -> Int64:
        """int64 [R, N]: what will be free of every node when the pods on their way out are gone,

        less what nominated pods of at least this priority will take.
        """
        nodes, table = self.state.nodes, self.state.table
        free: Int64 = (nodes.allocatable - nodes.requested)[:, : nodes.size]
        going = np.flatnonzero(table.going[: table.size] & table.alive[: table.size])
        np.add.at(free.T, table.slot[going], table.requests[: len(free)].T[going])
        return free - nominated_room(self.state, self.pod)

    # One node

    def _on_one_node(self, hopeless: Bool, lacking: Int64) -> tuple[int, list[Pod]] | None:
        counts = np.bincount(self.state.table.slot[self.demand.candidates], minlength=len(hopeless))  # [N]
        slots = np.flatnonzero((counts > 0) & ~hopeless)
        if not len(slots):
            return None
        beyond = self.evaluation.beyond_resources()[slots]
        found = self._by_arrays(slots[~beyond], lacking)
        return found if found is not None else self._by_filters(slots[beyond][:MAX_EXACT_NODES])

    def _by_arrays(self, slots: Rows, lacking: Int64) -> tuple[int, list[Pod]] | None:
        deficit = np.maximum(lacking[:, slots], self.demand.need[:, None]).T  # [L, R]
        lanes = self._lanes(slots, deficit)
        choice = _Choice(self)
        for lane in rank(lanes, self.state.nodes.names, MAX_TRIALS):
            slot = int(lanes.slots[lane])
            victims = self._proved(slot, list(self.state.table.of(lanes.victims(lane))))
            if victims is not None and choice.offer(slot, victims):
                break
        return choice.best

    def _lanes(self, slots: Rows, deficit: Int64) -> Lanes:
        lanes = Lanes(self.state.table, self.demand, slots, deficit)
        lanes.remove()
        mark_violations(lanes, self.budgets)
        lanes.reprieve()
        return lanes

    def _by_filters(self, slots: Rows) -> tuple[int, list[Pod]] | None:
        """Nodes that another filter refuses: take all candidates away, give back what can be spared."""
        table = self.state.table
        choice = _Choice(self)
        for slot in slots:
            here = self.demand.candidates[table.slot[self.demand.candidates] == slot]
            pods = list(table.of(here[::-1]))
            victims = self._proved(int(slot), pods)
            if victims:
                choice.offer(int(slot), victims)
        return choice.best

    def cost(self, victims: Sequence[Pod]) -> tuple[float, ...]:
        """The order of `rank` for a single set of victims."""
        top = max(pod.priority for pod in victims)
        start = min(pod.start_time or self.now for pod in victims if pod.priority == top)
        hurt = sum(violating(victims, self.budgets))
        return (hurt, top, sum(pod.priority + 2**31 for pod in victims), len(victims), -start)

    # Several nodes

    def _across_nodes(self, hopeless: Bool, lacking: Int64) -> tuple[int, list[Pod]] | None:
        slots = np.flatnonzero(~hopeless)
        lanes = self._lanes(slots, lacking[:, slots].T.copy())
        choice = _Choice(self)
        table = self.state.table
        for lane in rank(lanes, self.state.nodes.names, MAX_TRIALS):
            local = lanes.victims(lane)
            freed = table.requests[: len(self.demand.need)][:, local].sum(axis=1)
            rest = victims_anywhere(table, self.demand, local, np.maximum(self.demand.need - freed, 0))
            if rest is None:
                continue
            wanted = np.isin(self.demand.candidates, np.concatenate([local, rest]))
            chosen = self.demand.candidates[wanted][::-1]
            victims = self._proved(int(lanes.slots[lane]), list(table.of(chosen)))
            if victims and choice.offer(int(lanes.slots[lane]), victims):
                break
        return choice.best

    def _fewer_elsewhere(self, slot: int, victims: list[Pod], hopeless: Bool) -> tuple[int, list[Pod]]:
        """Spare victims without which the pod fits another node: what it lacked was quota, not room there."""
        if any(self.state.gangs.of(pod) is not None for pod in victims):
            return slot, victims
        kept: list[Pod] = []
        with Trial(self.state, self.now) as trial:
            for pod in victims:
                trial.lift(pod.uid)
            for pod in victims:
                trial.restore(pod.uid)
                other = slot if self.evaluation.fits(slot) else self._slot_with_room(hopeless)
                if other >= 0:
                    slot = other
                else:
                    trial.lift(pod.uid)
                    kept.append(pod)
        return slot, kept

    def _slot_with_room(self, hopeless: Bool) -> int:
        """A node that takes the pod in the state as it is, or -1."""
        fits = (self.demand.request[:, None] <= self._free()).all(axis=0) & ~hopeless
        for slot in np.flatnonzero(fits & ~self.evaluation.beyond_resources())[:MAX_TRIALS]:
            if self.evaluation.fits(int(slot)):
                return int(slot)
        return -1

    # The proof

    def _proved(self, slot: int, pods: Sequence[Pod]) -> list[Pod] | None:
        """The victims among `pods` (most important first) without which the pod does not fit `slot`.

        None if it does not fit even when all are gone. The state is as before afterwards.
        """
        with Trial(self.state, self.now) as trial:
            for pod in pods:
                trial.lift(pod.uid)
            if not self.evaluation.fits(slot):
                return None
            hurt = violating(pods, self.budgets)
            victims = {pod.uid: pod for pod in pods}
            for first in (True, False):
                for pod, hurts in zip(pods, hurt, strict=True):
                    if hurts == first and self._spared(trial, pod, slot):
                        del victims[pod.uid]
            return list(victims.values())

    def _spared(self, trial: Trial, pod: Pod, slot: int) -> bool:
        """Give one victim back; take it again if the pod then does not fit."""
        trial.restore(pod.uid)
        if self.evaluation.fits(slot):
            return True
        trial.lift(pod.uid)
        return False

    def _message(self, node: str, victims: Sequence[Pod]) -> str:
        quota = self.demand.quota
        under = f" under ElasticQuota {quota.key}" if quota is not None else ""
        names = ", ".join(pod.key for pod in victims[:5]) + (", ..." if len(victims) > 5 else "")
        return f"preempting {len(victims)} pods for node {node}{under}: {names}"


class _Choice:
    """The cheapest offer so far, whole gangs counted in."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._cost: tuple[float, ...] = ()
        self.best: tuple[int, list[Pod]] | None = None

    def offer(self, slot: int, victims: list[Pod]) -> bool:
        """Take an offer into account; True if it tears no gang apart: no other node need be tried then."""
        search = self._search
        whole = whole_gangs(search.state, search.demand, victims)
        if whole is None:
            return False
        cost = search.cost(whole) if whole else ()
        if self.best is None or cost < self._cost:
            self._cost, self.best = cost, (slot, whole)
        return len(whole) == len(victims)
