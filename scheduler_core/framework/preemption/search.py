"""Preemption of one pod: eligible or not, victims on one node, victims on several, and the proof.

The arrays say which victims resources and quotas need; a Trial then takes them away, runs every filter again
and gives back each victim that the pod can do without. Only what passes is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.across import victims_anywhere
from scheduler_core.framework.preemption.bounds import PRIORITY_OFFSET, Field
from scheduler_core.framework.preemption.budgets import violating
from scheduler_core.framework.preemption.demand import Demand, Rows
from scheduler_core.framework.preemption.gangs import whole_gangs
from scheduler_core.framework.preemption.nominated import nominated_room
from scheduler_core.framework.preemption.order import CheapestFirst, Offer
from scheduler_core.framework.status import SUCCESS, unschedulable
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pod import Pod
from scheduler_core.state.trial import Trial

Bool = NDArray[np.bool_]

# How many of the best nodes are tried with all filters, and how many whose filters need evictions to clear.
MAX_TRIALS: Final = 16
MAX_EXACT_NODES: Final = 100


def refused(reason: str) -> PostFilterResult:
    """No preemption, and why."""
    return PostFilterResult(unschedulable(reason), message=f"preemption: {reason}.")


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
        demand = self.demand
        short = bool((demand.need > 0).any())
        if not short and self._anything_leaves():
            slot = self._slot_with_room()
            if slot >= 0:
                node = self.state.nodes.names[slot]
                return PostFilterResult(SUCCESS, node, (), f"waiting for pods to end on node {node}.")
        if not demand.eligible.any():
            return refused("No preemption victims found for incoming pod")
        if short and not self._enough_anywhere():
            return refused("No set of victims frees enough of the quota")
        if self._hopeless.all():
            return refused("No set of victims makes room for the pod")
        lacking = np.maximum(demand.request[:, None] - self._free(), 0)  # [R, N]
        found = self._on_one_node(lacking)
        if found is None and across_nodes and short:
            found = self._across_nodes(lacking)
        if found is None:
            return refused("No set of victims makes room for the pod")
        if across_nodes and short:
            found = self._fewer_elsewhere(*found)
        slot, victims = found
        node = self.state.nodes.names[slot]
        return PostFilterResult(SUCCESS, node, tuple(victims), self._message(node, victims))

    def _anything_leaves(self) -> bool:
        table = self.state.table
        return bool((table.going[: table.size] & table.alive[: table.size]).any())

    def _enough_anywhere(self) -> bool:
        """Whether all candidates together free what the quota lacks."""
        table, eligible = self.state.table, self.demand.eligible
        return all(
            int((table.requests[row, : len(eligible)] * eligible).sum()) >= self.demand.need[row]
            for row in np.flatnonzero(self.demand.need > 0)
        )

    def _free(self) -> Int64:
        """int64 [R, N]: what will be free of every node when the pods on their way out are gone,

        less what nominated pods of at least this priority will take.
        """
        nodes, table = self.state.nodes, self.state.table
        free: Int64 = (nodes.allocatable - nodes.requested)[:, : nodes.size]
        going = np.flatnonzero(table.going[: table.size] & table.alive[: table.size])
        slots = table.slot[going]
        for row in range(len(free)):
            np.add.at(free[row], slots, table.requests[row, going])
        return free - nominated_room(self.state, self.pod)

    @cached_property
    def _hopeless(self) -> Bool:
        return self.evaluation.hopeless()

    # One node

    def _on_one_node(self, lacking: Int64) -> tuple[int, list[Pod]] | None:
        size = self.state.nodes.size
        beyond = self.evaluation.beyond_resources()
        here: Bool = np.zeros(size, dtype=np.bool_)  # [N]
        here[self.state.table.slot[: len(self.demand.eligible)][self.demand.eligible]] = True
        here &= ~self._hopeless
        deficit = np.maximum(lacking, self.demand.need[:, None])  # [R, N]
        choice = _Choice(self)
        for offer in islice(self._cheapest(here & ~beyond, deficit), MAX_TRIALS):
            victims = self._proved(offer.slot, list(self.state.table.of(offer.rows)))
            if victims is not None and choice.offer(offer.slot, victims):
                break
        if choice.best is not None:
            return choice.best
        return self._by_filters(np.flatnonzero(here & beyond)[:MAX_EXACT_NODES])

    def _cheapest(self, nodes: Bool, deficit: Int64) -> Iterator[Offer]:
        """Offers of some nodes (bool [N]) for what lacks there (int64 [R, N]), cheapest first."""
        slots, size = np.flatnonzero(nodes), len(nodes)
        field = Field(self.state.table, self.demand, slots, size)
        own = deficit if len(slots) == size else deficit[:, slots]
        return iter(CheapestFirst(field, self.demand, own, self.budgets, self.state.nodes.name_ranks()))

    def _by_filters(self, slots: Rows) -> tuple[int, list[Pod]] | None:
        """Nodes that another filter refuses: take all candidates away, give back what can be spared."""
        table = self.state.table
        choice = _Choice(self)
        if len(slots):
            field = Field(table, self.demand, slots, self.state.nodes.size)
        for lane, slot in enumerate(slots.tolist()):
            pods = list(table.of(field.rows[field.chosen[:, lane], lane][::-1]))
            victims = self._proved(slot, pods)
            if victims:
                choice.offer(slot, victims)
        return choice.best

    def cost(self, victims: Sequence[Pod]) -> tuple[float, ...]:
        """The order of `Lanes.costs` for a single set of victims, without the node's name."""
        top = max(pod.priority for pod in victims)
        start = min(pod.start_time or self.now for pod in victims if pod.priority == top)
        hurt = sum(violating(victims, self.budgets))
        return (hurt, top, sum(pod.priority + PRIORITY_OFFSET for pod in victims), len(victims), -start)

    # Several nodes

    def _across_nodes(self, lacking: Int64) -> tuple[int, list[Pod]] | None:
        choice = _Choice(self)
        table, need = self.state.table, self.demand.need
        candidates = table.removal_order(self.demand.eligible)
        for offer in islice(self._cheapest(~self._hopeless, lacking), MAX_TRIALS):
            local = offer.rows
            freed = table.requests[: len(need)][:, local].sum(axis=1)
            rest = victims_anywhere(table, self.demand, candidates, local, np.maximum(need - freed, 0))
            if rest is None:
                continue
            wanted = np.isin(candidates, np.concatenate([local, rest]))
            victims = self._proved(offer.slot, list(table.of(candidates[wanted][::-1])))
            if victims and choice.offer(offer.slot, victims):
                break
        return choice.best

    def _fewer_elsewhere(self, slot: int, victims: list[Pod]) -> tuple[int, list[Pod]]:
        """Spare victims without which the pod fits another node: what it lacked was quota, not room there."""
        if any(self.state.gangs.of(pod) is not None for pod in victims):
            return slot, victims
        kept: list[Pod] = []
        with Trial(self.state, self.now) as trial:
            for pod in victims:
                trial.lift(pod.uid)
            if not (self._nodes_with_room() != slot).any():
                return slot, victims
            for pod in victims:
                trial.restore(pod.uid)
                other = slot if self.evaluation.fits(slot) else self._slot_with_room()
                if other >= 0:
                    slot = other
                else:
                    trial.lift(pod.uid)
                    kept.append(pod)
        return slot, kept

    def _slot_with_room(self) -> int:
        """A node that takes the pod in the state as it is, or -1."""
        for slot in self._nodes_with_room()[:MAX_TRIALS].tolist():
            if self.evaluation.fits(slot):
                return int(slot)
        return -1

    def _nodes_with_room(self) -> Rows:
        """Nodes on which the pod's resources are free, and that no other filter refused at first."""
        fits = (self.demand.request[:, None] <= self._free()).all(axis=0) & ~self._hopeless
        return np.flatnonzero(fits & ~self.evaluation.beyond_resources())

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
