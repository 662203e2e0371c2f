"""Preemption of one pod: eligible or not, victims on one node, victims on several, and the proof.

The arrays say which victims resources and quotas need; a Trial then takes them away, runs every filter again
and gives back each victim that the pod can do without. Only what passes is committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.index import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.across import Anywhere
from scheduler_core.framework.preemption.bounds import FLAWS, Field
from scheduler_core.framework.preemption.budgets import Budgets, counted
from scheduler_core.framework.preemption.choice import Choice
from scheduler_core.framework.preemption.conflicts import Conflicts
from scheduler_core.framework.preemption.demand import Demand, Rows, without_needed
from scheduler_core.framework.preemption.eligibility import refused, waits_on
from scheduler_core.framework.preemption.loans import contended_by, loans_of
from scheduler_core.framework.preemption.nominated import nominated_room
from scheduler_core.framework.preemption.order import CheapestFirst, Offer
from scheduler_core.framework.preemption.proof import Found, Proof
from scheduler_core.framework.status import SUCCESS
from scheduler_core.model.pod import Pod
from scheduler_core.state.trial import Trial

Bool = NDArray[np.bool_]

# How many of the best nodes are tried with all filters, and how many whose filters need evictions to clear.
MAX_TRIALS: Final = 16
MAX_EXACT_NODES: Final = 100
# How many of the least important pods of the whole cluster are taken away where a node's own do not suffice.
MAX_ANYWHERE: Final = 256
# On how many nodes so many are taken away because those who should have sufficed did not.
MAX_UNPROVED: Final = 4
# How many pods that leave anyhow are taken as gone where a pod could wait for them.
MAX_LEAVING: Final = 256
# How often the search starts anew without the members of gangs that turned out to be nobody's victims.
_MAX_ROUNDS: Final = 8


class Search:
    """One preemption attempt. `evaluation` re-runs the filters on the state as it is."""

    def __init__(self, cycle: Cycle, evaluation: Evaluation, demand: Demand) -> None:
        self.state = cycle.state
        self.pod = cycle.pod
        self.now = cycle.now
        self._spared = cycle.spared
        self.evaluation = evaluation
        self.demand = demand
        self.budgets = Budgets(self.state.table, counted(self.state))
        self.loans = loans_of(self.state.table, demand)
        self.proof = Proof(self.state, self.now, evaluation, demand)

    def run(self, *, across_nodes: bool) -> PostFilterResult:
        """The best node and its victims, or why no eviction helps."""
        demand = self.demand
        slot = -1 if self._short else self._slot_after_leaving()
        if slot >= 0:
            node = self.state.nodes.names[slot]
            return PostFilterResult(SUCCESS, node, (), waits_on(node))
        if not demand.eligible.any():
            return refused("No preemption victims found for incoming pod")
        if self._short and not self._enough_anywhere():
            return refused("No set of victims frees enough of the quota")
        if self._hopeless.all():
            return refused("No set of victims makes room for the pod")
        found = self._found(across_nodes=across_nodes)
        if found is None:
            return refused("No set of victims makes room for the pod")
        node = self.state.nodes.names[found.slot]
        return PostFilterResult(SUCCESS, node, tuple(found.victims), self._message(node, found.victims))

    def _slot_after_leaving(self) -> int:
        """A node that takes the pod once all that leaves anyhow is gone, wherever it runs; else -1."""
        going = self.state.table.leaving_pods()[:MAX_LEAVING]
        # Which nodes other filters refuse is asked before anybody is taken away.
        candidates = self._room() if going else []
        if not candidates:
            return -1
        # Of several nodes that get free, the one that it waits for already.
        own = self.state.nodes.slot(self.state.nominations.node_of(self.pod.uid))
        candidates.sort(key=lambda slot: slot != own)
        with Trial(self.state, self.now) as trial:
            for pod in going:
                trial.lift(pod.uid)
            return next((slot for slot in candidates if self.evaluation.fits(slot)), -1)

    def _found(self, *, across_nodes: bool) -> Found | None:
        """The best that can be proved. Gangs that would have to go but may not are left out, and again."""
        for _ in range(_MAX_ROUNDS):
            found = self._on_one_node()
            if across_nodes and self._short and self._worth_to_look_across(found):
                found = self._across_nodes(found)
            if found is None and across_nodes:
                found = self._beyond_the_node()
            if found is not None:
                return self._settled(found) if across_nodes else found
            # Whom the pod must be near to may be one of several, and is spared only where nothing else helps.
            if not self._bar_gangs() and not self._narrow(without_needed(self.state, self.pod, self.demand)):
                return None
        return None

    @cached_property
    def _short(self) -> bool:
        """Whether the quota does not admit the pod."""
        return bool((self.demand.need > 0).any())

    def _bar_gangs(self) -> bool:
        """Leave the members of gangs out that would have to go but may not; False if there are none."""
        eligible = self.demand.eligible.copy()
        for key in self.proof.barred:
            members = self.state.gangs.members(key)
            eligible[[self.state.placed[uid].row for uid in members if uid in self.state.placed]] = False
        return self._narrow(eligible)

    def _narrow(self, eligible: Bool) -> bool:
        """Search among these alone (bool [rows]); False if they are as many as before."""
        fewer = not np.array_equal(eligible, self.demand.eligible)
        self.demand = msgspec.structs.replace(self.demand, eligible=eligible)
        return fewer

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
        return free + table.leaving(nodes.size)[: len(free)] - nominated_room(self.state, self.pod)

    @cached_property
    def _lacking(self) -> Int64:
        """int64 [R, N]: by how much the request exceeds what is free. Who asks for nothing lacks nothing."""
        request = self.demand.request[:, None]
        out: Int64 = np.maximum(request - self._free(), 0)
        out[self.demand.request == 0] = 0
        return out

    @cached_property
    def _hopeless(self) -> Bool:
        hopeless = self.evaluation.hopeless()
        hopeless[list(self._spared)] = True
        return hopeless

    def contended(self, slot: int) -> Bool:
        """bool [R]: what victims for a node go for."""
        return contended_by(self.demand, np.maximum(self._lacking[:, slot], self.demand.need))

    # One node

    def _on_one_node(self) -> Found | None:
        size = self.state.nodes.size
        beyond = self.evaluation.beyond_resources()
        here: Bool = np.zeros(size, dtype=np.bool_)  # [N]
        here[self.state.table.slot[: len(self.demand.eligible)][self.demand.eligible]] = True
        here &= ~self._hopeless
        deficit = np.maximum(self._lacking, self.demand.need[:, None])  # [R, N]
        choice = self._choice()
        for offer in islice(self._cheapest(here & ~beyond, deficit), MAX_TRIALS):
            if choice.offer(self._proved(offer.slot, offer.rows), offer.cost[:-1]):
                break
        if choice.best is None:
            self._by_filters(np.flatnonzero(here & beyond)[:MAX_EXACT_NODES], choice)
        return choice.best

    def _choice(self) -> Choice:
        return Choice(self.state, self.loans, self.budgets, self.contended)

    def _cheapest(self, nodes: Bool, deficit: Int64) -> Iterator[Offer]:
        """Offers of some nodes (bool [N]) for what lacks there (int64 [R, N]), cheapest first."""
        slots, size = np.flatnonzero(nodes), len(nodes)
        field = Field(self.state.table, self.demand, slots, size)
        own = deficit if len(slots) == size else deficit[:, slots]
        return iter(CheapestFirst(field, self.demand, own, self.budgets, self.state.nodes.name_ranks()))

    def _by_filters(self, slots: Rows, choice: Choice) -> None:
        """Nodes that another filter refuses: take all candidates away, give back what can be spared."""
        field = Field(self.state.table, self.demand, slots, self.state.nodes.size)
        for lane, slot in enumerate(slots.tolist()):
            rows = field.rows[field.chosen[:, lane], lane].astype(np.int64)
            self._all_away(slot, rows, choice)

    def _all_away(self, slot: int, rows: Rows, choice: Choice, leaving: Sequence[str] = ()) -> None:
        """Offer what is needed of all `rows`, any of which may go.

        Where that takes what a quota is guaranteed, once more with those of its pods given back first.
        """
        order = choice.give_back_all(rows, self.contended(slot))
        found = self.proof.on(slot, list(self.state.table.of(order)), leaving)
        if found is not None and not choice.is_lawful(found):
            order = choice.overdrawn_first(order, found)
            found = self.proof.on(slot, list(self.state.table.of(order)), leaving)
        choice.offer(found)

    # Several nodes

    def _worth_to_look_across(self, found: Found | None) -> bool:
        """Victims on one node come first, unless they reach into a min and others would not."""
        if found is None:
            return True
        beyond = self._choice().cost(found)[0] > 0
        return beyond and self._anywhere.frees_within_loans(self.demand.need)

    @property
    def _anywhere(self) -> Anywhere:
        return Anywhere(self.state.table, self.demand, self.loans, self.budgets)

    def _across_nodes(self, found: Found | None) -> Found | None:
        choice, anywhere = self._choice(), self._anywhere
        need, unproved = self.demand.need, list[tuple[int, Rows]]()
        for offer in islice(self._cheapest(~self._hopeless, self._lacking), MAX_TRIALS):
            rows = anywhere.best(offer.slot, self._lacking[:, offer.slot], need)
            if rows is None:
                freed = self.state.table.requests[: len(need)][:, offer.rows].sum(axis=1)
                rest = anywhere.rest(offer.rows, self.contended(offer.slot), np.maximum(need - freed, 0))
                if rest is None:
                    continue
                rows = np.concatenate([offer.rows, rest])
            proved = self._proved(offer.slot, rows)
            if proved is None:
                unproved.append((offer.slot, rows))
            if choice.offer(proved) and not choice.flawed:
                break
        # Pods without a node may count in a quota as soon as others leave: less comes free than these hold.
        for slot, rows in unproved[:MAX_UNPROVED] if found is None and choice.best is None else ():
            self._all_away(slot, np.union1d(rows, anywhere.candidates[:MAX_ANYWHERE]), choice)
        if found is None or choice.best is None:
            return choice.best or found
        better = choice.cost(choice.best)[:FLAWS] < choice.cost(found)[:FLAWS]
        return choice.best if better else found

    def _beyond_the_node(self) -> Found | None:
        """Nodes that other filters refuse because of pods elsewhere, or beside which quota is lacking."""
        refused_there = self.evaluation.beyond_resources() & ~self._hopeless
        if not refused_there.any():
            return None
        conflicts, choice = self._conflicts, self._choice()
        lacks: Bool = np.asarray((self._lacking > 0).any(axis=0))
        for slot in conflicts.nodes(refused_there, lacks):
            self._opened(slot, conflicts, choice, whole_node=bool(lacks[slot]))
        if choice.best is None:
            for slot in conflicts.nodes_to_clear(refused_there):
                self._opened(slot, conflicts, choice, whole_node=True)
        return choice.best

    def _opened(self, slot: int, conflicts: Conflicts, choice: Choice, *, whole_node: bool) -> None:
        """Offer those who close a node, with whoever else frees the quota that is lacking.

        Not all who are there need to go, so the quota may have to come from elsewhere although they would do.
        """
        anywhere, need = self._anywhere, self.demand.need
        rows, leaving = conflicts.rows(slot, whole_node=whole_node), conflicts.leaving(slot)
        freed = self.state.table.requests[: len(need)][:, rows].sum(axis=1)
        rest = anywhere.rest(rows, self.contended(slot), np.maximum(need - freed, 0))
        if rest is not None:
            self._all_away(slot, np.concatenate([rows, rest]), choice, leaving)
        if choice.best is None and self._short:
            self._all_away(slot, np.union1d(rows, anywhere.candidates[:MAX_ANYWHERE]), choice, leaving)

    def _settled(self, found: Found) -> Found:
        """Without those who can be spared because the pod fits another node."""
        spared = self._fewer_elsewhere(found)
        if spared.slot == found.slot or not self._short or not any(self._choice().cost(spared)[:FLAWS]):
            return spared
        # All that the other node lacks is quota: it need not come from the node that was looked at first.
        other = self._across_nodes(spared) or spared
        return spared if other is spared else self._fewer_elsewhere(other)

    def _fewer_elsewhere(self, found: Found) -> Found:
        """Spare victims without which the pod fits another node: what it lacked was quota, not room there."""
        leaving = self._conflicts.leaving(found.slot)
        spared = self.proof.anywhere(found, leaving, self._room)
        return spared if self._choice().is_lawful(spared) else found

    @property
    def _conflicts(self) -> Conflicts:
        return Conflicts(self.state, self.pod, self.demand.eligible)

    def _room(self) -> list[int]:
        """Nodes on which the pod's resources are free, those last that other filters refused at first."""
        lacks = self._free() < self.demand.request[:, None]
        lacks[self.demand.request == 0] = False
        fits = ~lacks.any(axis=0) & ~self._hopeless
        refused = self.evaluation.beyond_resources()
        slots = [np.flatnonzero(fits & ~refused)[:MAX_TRIALS], np.flatnonzero(fits & refused)[:MAX_TRIALS]]
        found: list[int] = np.concatenate(slots).tolist()
        return found

    # The proof

    def _proved(self, slot: int, rows: Rows) -> Found | None:
        """The victims among `rows` without which the pod does not fit the node, or None."""
        order = self._choice().give_back(rows)
        return self.proof.on(slot, list(self.state.table.of(order)))

    def _message(self, node: str, victims: Sequence[Pod]) -> str:
        quota = self.demand.quota
        under = f" under ElasticQuota {quota.key}" if quota is not None else ""
        names = ", ".join(pod.key for pod in victims[:5]) + (", ..." if len(victims) > 5 else "")
        return f"preempting {len(victims)} pods for node {node}{under}: {names}"
