"""Search for victims for one pod: on one node, across nodes, and beside conflicting pods.

Arrays give the victims that resources and quotas require. A dry run then removes them, runs every filter
again and reprieves each victim that the pod does not need. Only victims that passed the dry run are evicted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from itertools import chain, islice
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.index import PODS_ROW
from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.evaluation import Evaluation
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.nominations.nominated import nominated_room
from scheduler_core.framework.preemption.budgets import Budgets, counted
from scheduler_core.framework.preemption.candidates import Admits, CandidateSelection, admits_all
from scheduler_core.framework.preemption.conflicts import Conflicts
from scheduler_core.framework.preemption.cost_bounds import FLAWS, SURE_KEYS, Bounds, CandidateMatrix
from scheduler_core.framework.preemption.cross_node import ClusterCandidates
from scheduler_core.framework.preemption.demand import Demand, Rows, without_needed
from scheduler_core.framework.preemption.dry_run import Candidate, DryRun
from scheduler_core.framework.preemption.eligibility import refused, waits_on
from scheduler_core.framework.preemption.loans import contended_by, loans_of
from scheduler_core.framework.preemption.node_order import CheapestFirst, Offer
from scheduler_core.framework.preemption.other_sets import TriedSet, cheapest_admitted
from scheduler_core.framework.preemption.whole_gangs import any_members, nodes_of_members, that_may_go
from scheduler_core.framework.status import SUCCESS
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.trial import Trial

# Most nodes for a dry run in the order of cost, and most that other filters refuse where there are no others.
MAX_TRIALS: Final = 16
MAX_EXACT_NODES: Final = 100
# Most pods of the whole cluster, the least important first, to remove if those of a node do not suffice.
MAX_ANYWHERE: Final = 256
# Most nodes on which that is tried after the computed victims did not suffice.
MAX_UNPROVED: Final = 4
# Most leaving pods that are taken as gone to find a node that the pod can wait for.
MAX_LEAVING: Final = 256
# Most restarts of the search without members of gangs that must not be evicted.
_MAX_ROUNDS: Final = 8


class VictimSearch:
    """One preemption attempt. `evaluation` runs the filters on the current state.

    `admits` is asked of each set of victims as a whole. A search that is `brief` ends with the first set that
    is refused.
    """

    def __init__(
        self,
        cycle: Cycle,
        evaluation: Evaluation,
        demand: Demand,
        admits: Admits = admits_all,
        *,
        brief: bool = False,
    ) -> None:
        self._cycle = cycle
        self._admits = admits
        self._brief = brief
        self._refused: list[Candidate] = []
        self.state = cycle.state
        self.pod = cycle.pod
        self.now = cycle.now
        self._excluded = cycle.excluded_slots
        self.evaluation = evaluation
        self.demand = demand
        self.budgets = Budgets(self.state.table, counted(self.state))
        self.loans = loans_of(self.state.table, demand)
        self.dry_run = DryRun(self.state, self.now, evaluation, demand, self.loans)

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
        if self._unresolvable.all():
            return refused("No set of victims makes room for the pod")
        found = cheapest_admitted(self.state, demand, partial(self._tried, across_nodes=across_nodes))
        if found is None:
            return refused("No set of victims makes room for the pod")
        node = self.state.nodes.names[found.slot]
        return PostFilterResult(SUCCESS, node, tuple(found.victims), self._message(node, found.victims))

    def _tried(self, demand: Demand, *, across_nodes: bool) -> Iterator[TriedSet[Candidate]]:
        """The cheapest set of victims of a demand, and the cheapest refused one, if there are any.

        As few candidates may be left as do not free enough.
        """
        search = self
        if demand is not self.demand:
            search = VictimSearch(self._cycle, self.evaluation, demand, self._admits, brief=True)
            if search._short and not search._enough_anywhere():
                return
        found = search._found(across_nodes=across_nodes)
        if search._refused:
            cheapest = min(search._refused, key=search._rank)
            yield TriedSet(search._rank(cheapest), cheapest.victims, None)
        if found is not None:
            yield TriedSet(search._rank(found), found.victims, found)

    def _rank(self, found: Candidate) -> tuple[float, ...]:
        """The cost of a candidate. Victims on one node are preferred, unless they have flaws."""
        cost = self._choice().cost(found)
        whole = {pod.uid for gang in found.disrupted for pod in gang.members}
        slots = {self.state.placed[pod.uid].slot for pod in found.victims if pod.uid not in whole}
        return (*cost[:FLAWS], float(len(slots) > 1), *cost[FLAWS:])

    def _slot_after_leaving(self) -> int:
        """A node that fits the pod once all leaving pods of the cluster are gone; else -1."""
        leaving = self.state.table.leaving_pods()[:MAX_LEAVING]
        # `_room` evaluates other filters, so it must run before pods are removed.
        candidates = self._room() if leaving else []
        if not candidates:
            return -1
        # The nominated node comes first.
        own = self.state.nodes.slot(self.state.nominations.node_of(self.pod.uid))
        candidates.sort(key=lambda slot: slot != own)
        with Trial(self.state, self.now) as trial:
            for pod in leaving:
                trial.remove_placed(pod.uid)
            return next((slot for slot in candidates if self.evaluation.fits(slot)), -1)

    def _found(self, *, across_nodes: bool) -> Candidate | None:
        """The best candidate. Restarts without gangs that would have to be evicted but must not be."""
        for _ in range(_MAX_ROUNDS):
            found = self._on_one_node()
            if self._over:
                return found
            if across_nodes and self._short and self._worth_to_look_across(found):
                found = self._across_nodes(found)
            if found is None and across_nodes:
                found = self._beyond_the_node()
            if found is None:
                found = self._with_whole_gangs(across_nodes=across_nodes)
            if found is not None:
                return self._settled(found) if across_nodes else found
            # Pods that the required affinity selects are excluded only as a last resort.
            if not self._bar_gangs() and not self._narrow(without_needed(self.state, self.pod, self.demand)):
                return None
        return None

    @property
    def any_refused(self) -> bool:
        """Whether any set of victims made room for the pod, but must not go as a whole."""
        return bool(self._refused)

    @property
    def _over(self) -> bool:
        """Whether no further set is looked for, as one is refused."""
        return self._brief and bool(self._refused)

    @cached_property
    def _short(self) -> bool:
        """Whether the quota does not admit the pod."""
        return bool((self.demand.need > 0).any())

    def _bar_gangs(self) -> bool:
        """Exclude members of gangs that must not be evicted; False if there are none."""
        eligible = self.demand.eligible.copy()
        for key in self.dry_run.forbidden_gangs:
            members = self.state.gangs.members_of_unit(key)
            eligible[[self.state.placed[uid].row for uid in members if uid in self.state.placed]] = False
        return self._narrow(eligible)

    def _narrow(self, eligible: Bool) -> bool:
        """Restrict the search to `eligible` (bool [rows]); False if that changes nothing."""
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
        """int64 [R, N]: what will be free on every node once leaving pods are gone.

        Room for nominated pods that take precedence is subtracted.
        """
        nodes, table = self.state.nodes, self.state.table
        free: Int64 = (nodes.allocatable - nodes.requested)[:, : nodes.size]
        return free + table.leaving_requests(nodes.size)[: len(free)] - nominated_room(self.state, self.pod)

    @cached_property
    def _lacking(self) -> Int64:
        """int64 [R, N]: by how much the request exceeds what is free; 0 for resources not requested."""
        request = self.demand.request[:, None]
        out: Int64 = np.maximum(request - self._free(), 0)
        out[self.demand.request == 0] = 0
        return out

    @cached_property
    def _unresolvable(self) -> Bool:
        nodes = self.evaluation.unresolvable()
        nodes[list(self._excluded)] = True
        if self.demand.nodes is not None:
            nodes |= ~self.demand.nodes
        return nodes

    def contended(self, slot: int) -> Bool:
        """bool [R]: the contended resources of a node."""
        return contended_by(self.demand, np.maximum(self._lacking[:, slot], self.demand.need))

    # One node

    def _on_one_node(self) -> Candidate | None:
        size = self.state.nodes.size
        beyond = self.evaluation.beyond_resources()
        here: Bool = np.zeros(size, dtype=np.bool_)  # [N]
        here[self.state.table.slot[: len(self.demand.eligible)][self.demand.eligible]] = True
        here &= ~self._unresolvable
        deficit = np.maximum(self._lacking, self.demand.need[:, None])  # [R, N]
        choice = self._choice()
        for offer in islice(self._cheapest(here & ~beyond, deficit), MAX_TRIALS):
            if choice.offer(self._proved(offer.slot, offer.rows), offer.cost[:-1]) or self._over:
                break
        if not self._over:
            self._by_filters(np.flatnonzero(here & beyond), deficit, choice)
        return choice.best

    def _choice(self) -> CandidateSelection:
        return CandidateSelection(
            self.state, self.loans, self.budgets, self.contended, self._admits, self._refused
        )

    def _cheapest(self, nodes: Bool, deficit: Int64) -> Iterator[Offer]:
        """Offers of some nodes (bool [N]) for their deficits (int64 [R, N]), cheapest first."""
        slots, size = np.flatnonzero(nodes), len(nodes)
        matrix = CandidateMatrix(self.state.table, self.demand, slots, size)
        own = deficit if len(slots) == size else deficit[:, slots]
        return iter(CheapestFirst(matrix, self.demand, own, self.budgets, self.state.nodes.name_ranks()))

    def _by_filters(self, slots: Rows, deficit: Int64, choice: CandidateSelection) -> None:
        """Nodes that another filter refuses: remove all candidates, then reprieve.

        `deficit` int64 [R, N] is what each node lacks besides. The nodes whose victims may be cheapest come
        first; the search ends when none of the others can be cheaper than the best candidate.
        """
        matrix = CandidateMatrix(self.state.table, self.demand, slots, self.state.nodes.size)
        least = deficit[:, slots]
        # At least one pod must go, whatever the filter refuses.
        least[PODS_ROW] = np.maximum(least[PODS_ROW], 1)
        bounds = Bounds(matrix, None, least, self.state.nodes.name_ranks())
        places = chain.from_iterable(block.tolist() for block, _ in bounds.blocks())
        beside = 0
        for place in islice(places, MAX_EXACT_NODES):
            # A trial of a node takes milliseconds: where victims are known, few others are compared.
            beside += choice.best is not None
            if beside > MAX_TRIALS or choice.is_cheaper_than(bounds.cost(place)[:SURE_KEYS]):
                return
            lane = int(bounds.lanes[place])
            rows = matrix.rows[matrix.chosen[:, lane], lane].astype(np.int64)
            self._all_away(int(slots[lane]), rows, choice)
            if self._over:
                return

    def _all_away(
        self, slot: int, rows: Rows, choice: CandidateSelection, leaving: Sequence[str] = ()
    ) -> None:
        """Offer the needed victims among `rows`, all of which may be evicted.

        If these reach into the min of a quota, try again with the pods of this quota given back first.
        """
        order = choice.reprieve_order_of_all(rows, self.contended(slot))
        found = self.dry_run.on_node(slot, list(self.state.table.of(order)), leaving)
        if found is not None and not choice.is_lawful(found):
            order = choice.unlawful_first(order, found)
            found = self.dry_run.on_node(slot, list(self.state.table.of(order)), leaving)
        choice.offer(found)

    # Several nodes

    def _worth_to_look_across(self, found: Candidate | None) -> bool:
        """Victims on one node are preferred, unless they reach into a min and others would not."""
        if found is None:
            return True
        beyond = self._choice().cost(found)[0] > 0
        return beyond and self._anywhere.frees_within_loans(self.demand.need)

    @property
    def _anywhere(self) -> ClusterCandidates:
        return ClusterCandidates(self.state.table, self.demand, self.loans, self.budgets)

    def _across_nodes(self, found: Candidate | None) -> Candidate | None:
        choice, anywhere = self._choice(), self._anywhere
        need, unproved = self.demand.need, list[tuple[int, Rows]]()
        for offer in islice(self._cheapest(~self._unresolvable, self._lacking), MAX_TRIALS):
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
            if (choice.offer(proved) and not choice.flawed) or self._over:
                break
        # Pods without a node may start to count in a quota when others leave: less comes free than expected.
        nothing = found is None and choice.best is None and not self._over
        for slot, rows in unproved[:MAX_UNPROVED] if nothing else ():
            self._all_away(slot, np.union1d(rows, anywhere.candidates[:MAX_ANYWHERE]), choice)
        if found is None or choice.best is None:
            return choice.best or found
        better = choice.cost(choice.best)[:FLAWS] < choice.cost(found)[:FLAWS]
        return choice.best if better else found

    def _beyond_the_node(self) -> Candidate | None:
        """Nodes that other filters refuse because of pods on other nodes, or where quota is lacking too."""
        refused_there = self.evaluation.beyond_resources() & ~self._unresolvable
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

    def _opened(
        self, slot: int, conflicts: Conflicts, choice: CandidateSelection, *, whole_node: bool
    ) -> None:
        """Offer the pods that conflict with a node, together with pods that free the lacking quota.

        Some conflicting pods may be reprieved, so the quota may have to come from other pods as well.
        """
        anywhere, need = self._anywhere, self.demand.need
        rows, leaving = conflicts.rows(slot, whole_node=whole_node), conflicts.leaving(slot)
        freed = self.state.table.requests[: len(need)][:, rows].sum(axis=1)
        rest = anywhere.rest(rows, self.contended(slot), np.maximum(need - freed, 0))
        if rest is not None:
            self._all_away(slot, np.concatenate([rows, rest]), choice, leaving)
        if choice.best is None and self._short:
            self._all_away(slot, np.union1d(rows, anywhere.candidates[:MAX_ANYWHERE]), choice, leaving)

    def _with_whole_gangs(self, *, across_nodes: bool) -> Candidate | None:
        """Victims that a reclaim may not take one by one, but with their gangs, which go as a whole."""
        if self.loans is None or self.loans.strict or not any_members(self.state.table, self.demand.eligible):
            return None
        choice, table, eligible = self._choice(), self.state.table, self.demand.eligible
        anywhere = across_nodes and self._short
        lacking = self._lacking if anywhere else np.maximum(self._lacking, self.demand.need[:, None])
        slots = nodes_of_members(table, eligible, lacking)
        slots = slots[~self._unresolvable[slots]][:MAX_UNPROVED]
        elsewhere: Rows = np.zeros(0, dtype=np.int64)
        if anywhere:
            elsewhere = self._anywhere.candidates[:MAX_ANYWHERE]
            slots = np.append(slots, np.array(self._room(), dtype=np.int64)[:MAX_UNPROVED])
        for slot in slots.tolist():
            here = np.flatnonzero(eligible & (table.slot[: len(eligible)] == slot))
            self._all_away(slot, that_may_go(self.state, self.loans, np.union1d(here, elsewhere)), choice)
        return choice.best

    def _settled(self, found: Candidate) -> Candidate:
        """The candidate without victims that the pod does not need on another node."""
        reprieved = self._fewer_elsewhere(found)
        if reprieved.slot == found.slot or not self._short or not any(self._choice().cost(reprieved)[:FLAWS]):
            return reprieved
        # The other node lacks only quota, for which victims on any node will do.
        other = self._across_nodes(reprieved) or reprieved
        return reprieved if other is reprieved else self._fewer_elsewhere(other)

    def _fewer_elsewhere(self, found: Candidate) -> Candidate:
        """Reprieve victims that the pod does not need on another node, because it lacked only quota."""
        leaving = self._conflicts.leaving(found.slot)
        reprieved = self.dry_run.on_any_node(found, leaving, self._room)
        return reprieved if self._choice().is_lawful(reprieved) else found

    @property
    def _conflicts(self) -> Conflicts:
        return Conflicts(self.state, self.pod, self.demand.eligible)

    def _room(self) -> list[int]:
        """Nodes with enough free resources; nodes that other filters refused at first come last."""
        lacks = self._free() < self.demand.request[:, None]
        lacks[self.demand.request == 0] = False
        fits = ~lacks.any(axis=0) & ~self._unresolvable
        refused = self.evaluation.beyond_resources()
        slots = [np.flatnonzero(fits & ~refused)[:MAX_TRIALS], np.flatnonzero(fits & refused)[:MAX_TRIALS]]
        found: list[int] = np.concatenate(slots).tolist()
        return found

    # Dry runs

    def _proved(self, slot: int, rows: Rows) -> Candidate | None:
        """The candidate with the victims among `rows` that the pod needs on the node, or None."""
        order = self._choice().reprieve_order(rows)
        return self.dry_run.on_node(slot, list(self.state.table.of(order)))

    def _message(self, node: str, victims: Sequence[Pod]) -> str:
        quota = self.demand.quota
        under = f" under ElasticQuota {quota.key}" if quota is not None else ""
        hides, told = self.state.displacements.hides, self.pod.namespace
        keys = [f"{pod.namespace}/*" if hides(pod, told) else pod.key for pod in victims]
        shown = list(dict.fromkeys(keys))
        names = ", ".join(shown[:5]) + (", ..." if len(shown) > 5 else "")
        what = "fair move: " if self.loans is not None and self.loans.fair is not None else ""
        return f"{what}preempting {len(victims)} pods for node {node}{under}: {names}"
