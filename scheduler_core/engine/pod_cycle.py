"""The scheduling cycle of one pod.

1. PreFilter: quota and other checks that do not depend on a node.
2. Filter and Score of STATIC and USAGE scope: cached per class of equal pods, updated for changed nodes.
3. Filter and Score of CLUSTER scope: computed for this attempt alone.
4. The node with the highest score is chosen; ties are broken by the pod's rotation.
5. No node: a Diagnosis, then PostFilter, which may nominate a node and choose victims.
6. A node: assume the pod, then Reserve, Permit and the writes of the binding cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import msgspec
import numpy as np

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.engine.backfill import Backfill
from scheduler_core.engine.binding import ReservedPod, reserve_plugins, writes_around
from scheduler_core.engine.diagnosis import diagnose
from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.plugin_errors import named_errors
from scheduler_core.engine.scores.class_cache import ClassCache
from scheduler_core.engine.scores.node_scores import INFEASIBLE, NodeScores
from scheduler_core.engine.scores.select import best_slot, rotation
from scheduler_core.engine.scores.signature import usage_signature
from scheduler_core.errors import PluginError
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.nominations.nominated import closed_by_anti_affinity, nominated_room
from scheduler_core.framework.nominations.room_beside_waiting import leaves_room
from scheduler_core.framework.nominations.spread_claims import closed_by_claims
from scheduler_core.framework.nominations.waiting_nominations import waiting_nominations
from scheduler_core.framework.profile import Agenda, Profile
from scheduler_core.framework.queueing.obstacles import searched_for
from scheduler_core.framework.status import SUCCESS, Bits, Code, Diagnosis, Status, unresolvable
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent

DYNAMIC_RESOURCES: Final = "DynamicResources"


class Attempt(msgspec.Struct):
    """The outcome of a cycle: a slot, or a diagnosis and the result of PostFilter."""

    cycle: Cycle
    slot: int = -1
    diagnosis: Diagnosis | None = None
    post_filter: PostFilterResult | None = None


class PodCycle:
    """Finds nodes for single pods and reserves them. Owns the class cache and the backfill switch.

    `domain` (bool [N]) are the nodes that may be chosen, None for all: `within` sets it.
    """

    def __init__(self, state: ClusterState) -> None:
        self.state = state
        self.classes = ClassCache(state)
        self.backfill = Backfill(state.nominations)
        self.domain: Bool | None = None

    @contextmanager
    def within(self, domain: Bool | None) -> Iterator[None]:
        """Run with these nodes alone, bool [N]; None for all nodes."""
        before, self.domain = self.domain, domain
        try:
            yield
        finally:
            self.domain = before

    def new_cycle(self, profile: Profile, pod: Pod, now: float) -> Cycle:
        """A fresh cycle for one pod."""
        key = usage_signature(pod)
        known = self.classes.get(key)
        vector = self.state.vector(pod) if known is None else known.cycle.vector
        return Cycle(self.state, pod, vector, now, profile.name, profile.enabled, key)

    # Steps 1 to 5

    def attempt(
        self,
        profile: Profile,
        pod: Pod,
        now: float,
        *,
        post_filter: bool = True,
        excluded_slots: frozenset[int] = frozenset(),
        alone: bool = True,
    ) -> Attempt:
        """Try one pod; the state is unchanged afterwards. Raises PluginError for broken plugin code.

        Without `post_filter` a pod that fits nowhere is only diagnosed. No pod on the
        `excluded_slots` is evicted. Without `alone` the pod is decided together with others of its gang.
        """
        cycle = self.new_cycle(profile, pod, now)
        cycle.alone = alone
        refused = self.state.extending.excluded_nodes.get(pod.uid)
        cycle.excluded_slots = excluded_slots | self._slots(refused) if refused else excluded_slots
        scores = None
        try:
            status = self._pre_filter(profile, cycle)
            if status is None:
                scores = self.classes.current(profile, cycle)
                status = scores.status
            if status is None and scores is not None:
                slot = self._best(profile, cycle, scores)
                if slot >= 0:
                    return Attempt(cycle, slot)
            diagnosis = self._diagnose(profile, cycle, scores, status)
            if not post_filter:
                return Attempt(cycle, -1, diagnosis)
            with self.backfill.all_kept():
                return self._post_filter(profile, cycle, diagnosis)
        except (PluginError, MemoryError):
            raise
        except Exception as error:
            raise PluginError(*cycle.calling, pod.key, error) from error

    def _slots(self, nodes: Iterable[str]) -> frozenset[int]:
        found = map(self.state.nodes.slot, nodes)
        return frozenset(slot for slot in found if slot is not None)

    def pre_filter(self, profile: Profile, cycle: Cycle) -> Status | None:
        """The first refusal of the PreFilter plugins, or None; an UNRESOLVABLE one precedes all others.

        All plugins are asked, because each prepares its Filter; the Filter of one that refused is skipped.
        Raises PluginError.
        """
        with named_errors(cycle):
            return self._pre_filter(profile, cycle)

    def _pre_filter(self, profile: Profile, cycle: Cycle) -> Status | None:
        agenda = profile.agendas.of(self.state, cycle.pod)
        cycle.idle = agenda.idle
        cycle.skipped |= agenda.idle
        if cycle.pod.needs_claims:
            # Kubernetes' DynamicResources decides these; without it no node may be taken for the pod.
            return unresolvable("resource claims are not supported by this scheduler").of(DYNAMIC_RESOURCES)
        first: Status | None = None
        for plugin in agenda.pre_filter:
            cycle.calling = (plugin.name, "preFilter")
            status = plugin.pre_filter(cycle)
            if status is SUCCESS or status.code is Code.SUCCESS:
                continue
            cycle.skipped.add(plugin.name)
            if status.code is not Code.SKIP:
                cycle.refused.add(plugin.name)
                # A refusal that no eviction can resolve precedes one that an eviction might.
                precedes = (
                    status.code is Code.UNRESOLVABLE and first is not None and first.code is not status.code
                )
                first = status.of(plugin.name) if first is None or precedes else first
        return first

    def feasible(self, profile: Profile, pod: Pod, now: float) -> Int64:
        """int64 [N]: the score of every node that the pod fits now, INFEASIBLE elsewhere.

        Requests of nominated pods that go first count; their ports and rules do not. Raises PluginError.
        """
        cycle = self.new_cycle(profile, pod, now)
        with named_errors(cycle):
            return self._feasible(profile, cycle)

    def _feasible(self, profile: Profile, cycle: Cycle) -> Int64:
        refused = self._pre_filter(profile, cycle) is not None
        scores = None if refused else self.classes.current(profile, cycle)
        if scores is None or scores.status is not None:
            return np.full(self.state.nodes.size, INFEASIBLE, dtype=np.int64)  # [N]
        agenda = self._agenda(profile, cycle)
        total = self._in_domain(scores.total)
        if agenda.filter or agenda.pre_score or agenda.score:
            total = self._with_cluster(agenda, cycle, total)
        return self._without_nominated(cycle, total)[0] if len(self.state.nominations) else total

    def scores_for(self, profile: Profile, cycle: Cycle) -> NodeScores:
        """The cached filter results and scores of the pod's class, brought up to date."""
        return self.classes.current(profile, cycle)

    def _best(self, profile: Profile, cycle: Cycle, scores: NodeScores) -> int:
        agenda = self._agenda(profile, cycle)
        total = self._in_domain(scores.total)
        filters = any(plugin.name not in cycle.skipped for plugin in agenda.filter)
        if filters or agenda.pre_score or agenda.score:
            total = self._with_cluster(agenda, cycle, total)
        start = rotation(cycle.pod.uid, len(total))
        if len(self.state.nominations):
            return self._beside_nominated(profile, cycle, total, start)
        return scores.best(start) if total is scores.total else best_slot(total, start)

    def _in_domain(self, total: Int64) -> Int64:
        return total if self.domain is None else np.where(self.domain, total, INFEASIBLE)

    def _agenda(self, profile: Profile, cycle: Cycle) -> Agenda:
        """The plugins with work for the pod: those that PreFilter found, else computed now."""
        agendas = profile.agendas
        return agendas.of(self.state, cycle.pod) if cycle.idle is None else agendas.without(cycle.idle)

    def _beside_nominated(self, profile: Profile, cycle: Cycle, total: Int64, start: int) -> int:
        """The pod's own nominated node if it fits, else the best node with room beside nominated pods.

        Only nominated pods of at least its priority count. Resources are checked on all nodes at once, the
        other filters only on the node that would be chosen.
        """
        total, room = self._without_nominated(cycle, total)
        own = self.state.nominations.get(cycle.pod.uid)
        slot = self.state.nodes.slot(own.node) if own is not None else None
        if slot is None or total[slot] < 0:
            slot = best_slot(total, start)
        evaluation = Reevaluation(self, profile, cycle)
        while slot >= 0 and room[:, slot].any() and not evaluation.fits_beside_nominated(slot):
            total[slot] = INFEASIBLE
            slot = best_slot(total, start)
        return slot

    def _without_nominated(self, cycle: Cycle, total: Int64) -> tuple[Int64, Int64]:
        """(scores, room): INFEASIBLE where nominated pods leave no room; room: their requests, int64 [R, N].

        Nodes in a domain that nominated pods close to the pod, by anti-affinity or because they wait for its
        places under a spread constraint, are INFEASIBLE as well.
        """
        nodes, size = self.state.nodes, self.state.nodes.size
        room = nominated_room(self.state, cycle.pod)  # [R, N]
        free = nodes.allocatable[:, :size] - nodes.requested[:, :size] - room
        asked = cycle.vector[:, None]
        short = ((asked > free[: len(asked)]) & (asked > 0)).any(axis=0)
        taken: Bool = np.asarray(short & (room > 0).any(axis=0))
        taken[self._free_until_others_leave(cycle, np.flatnonzero(taken & (total != INFEASIBLE)))] = False
        shut: Bool = np.zeros(size, dtype=np.bool_)  # [N]
        for closed in (
            closed_by_anti_affinity(self.state, cycle.pod),
            closed_by_claims(self.state, cycle.pod),
        ):
            if closed is not None:
                shut |= closed
        return np.where(taken | shut, INFEASIBLE, total), room

    def _free_until_others_leave(self, cycle: Cycle, slots: Int64) -> list[int]:
        """Of slots that the pod fits now but for nominated pods, those whose nominated pods wait anyhow."""
        state, table = self.state, self.state.table
        if not len(slots) or not waiting_nominations(state).uids:
            return []
        leaving = table.slot[: table.size][table.leaving[: table.size] & table.alive[: table.size]]
        slots = np.intersect1d(slots, leaving)
        return [slot for slot in slots.tolist() if leaves_room(state, cycle.pod, slot, cycle.vector)]

    def _with_cluster(self, agenda: Agenda, cycle: Cycle, total: Int64) -> Int64:
        """Apply the filters and scores of CLUSTER scope, which are computed for every attempt."""
        view = NodeView.all(self.state.nodes)
        feasible = total != INFEASIBLE
        asked = [plugin for plugin in agenda.filter if plugin.name not in cycle.skipped]
        for plugin in asked:
            cycle.calling = (plugin.name, "filter")
            feasible &= plugin.filter(cycle, view) == 0
        if asked and not feasible.any():
            return np.full_like(total, INFEASIBLE)
        out = total
        skipped = self._pre_score(agenda, cycle, feasible)
        for name, scorer, weight, normalize, _ in agenda.score:
            if name not in skipped:
                cycle.calling = (name, "score")
                raw = scorer.score(cycle, view)
                if normalize is not None:
                    cycle.calling = (name, "normalize")
                    raw = normalize.normalize(cycle, raw, feasible)
                out = out + (raw if weight == 1 else weight * raw)
        return np.where(feasible, out, INFEASIBLE) if asked or out is not total else total

    def _pre_score(self, agenda: Agenda, cycle: Cycle, feasible: np.ndarray) -> set[str]:
        skipped = set()
        for plugin in agenda.pre_score:
            cycle.calling = (plugin.name, "preScore")
            if plugin.pre_score(cycle, feasible).code is Code.SKIP:
                skipped.add(plugin.name)
        return skipped

    def filter_bits(self, profile: Profile, cycle: Cycle, scores: NodeScores) -> dict[str, Bits]:
        """uint64 [N] per filter in the profile's order, without skipped filters. Raises PluginError."""
        known = self.classes.bits(scores, cycle)
        view = NodeView.all(self.state.nodes)
        with named_errors(cycle):
            for plugin in profile.cluster_filter:
                if plugin.name not in cycle.skipped:
                    cycle.calling = (plugin.name, "filter")
                    known[plugin.name] = plugin.filter(cycle, view)
        cycle.slots = {**scores.static.cycle.slots, **scores.cycle.slots, **cycle.slots}
        return {f.name: known[f.name] for f in profile.filter if f.name in known}

    def _diagnose(
        self, profile: Profile, cycle: Cycle, scores: NodeScores | None, status: Status | None
    ) -> Diagnosis:
        nodes = self.state.nodes
        alive = nodes.alive[: nodes.size]
        if status is not None or scores is None:
            return diagnose(profile, cycle, {}, alive, status, cycle.refused)
        return diagnose(profile, cycle, self.filter_bits(profile, cycle, scores), alive)

    def _post_filter(self, profile: Profile, cycle: Cycle, diagnosis: Diagnosis) -> Attempt:
        evaluation = cycle.evaluation = Reevaluation(self, profile, cycle)
        evaluation.remember_claims()
        for plugin in profile.post_filter:
            cycle.calling = (plugin.name, "postFilter")
            result = plugin.post_filter(cycle, diagnosis)
            if result.message:
                # The plugin looked for victims. It may find some after an event that its own hints accept,
                # those of the filters that refused nodes, or those of the preemption obstacles. Where no
                # eviction can help on any node, only other nodes can.
                helpless = diagnosis.lasting and self.state.nominations.get(cycle.pod.uid) is None
                asked = (
                    diagnosis.lasting
                    if helpless
                    else (
                        diagnosis.plugins
                        | {plugin.name}
                        | searched_for(self.state, cycle.pod)
                        | evaluation.refusing()
                    )
                )
                diagnosis = msgspec.structs.replace(
                    diagnosis,
                    post_filter=result.message,
                    plugins=asked,
                    due=min(diagnosis.due, result.due),
                )
            if result.status.ok:
                return Attempt(cycle, -1, diagnosis, result)
        return Attempt(cycle, -1, diagnosis)

    # Step 6

    def reserve(self, profile: Profile, attempt: Attempt) -> ReservedPod | Status:
        """Assume the pod, run Reserve and Permit. On refusal undo everything and return the status."""
        cycle, slot = attempt.cycle, attempt.slot
        try:
            agenda = self._agenda(profile, cycle)
            self.state.assume(cycle.pod, slot, cycle.now, cycle.vector)
            status = reserve_plugins(agenda, cycle, slot)
            if status.code not in (Code.SUCCESS, Code.WAIT):
                self.unreserve(profile, cycle, slot)
                return status
            self.classes.placed(cycle, slot)
            return writes_around(profile, agenda, cycle, slot)
        except (PluginError, MemoryError):
            self.unreserve(profile, cycle, slot)
            raise
        except Exception as error:
            self.unreserve(profile, cycle, slot)
            raise PluginError(*cycle.calling, cycle.pod.key, error) from error

    def unreserve(self, profile: Profile, cycle: Cycle, slot: int) -> list[ClusterEvent]:
        """Undo `reserve`: Unreserve of the plugins in reverse order, then the state. Idempotent."""
        for plugin in reversed(profile.reserve):
            plugin.unreserve(cycle, slot)
        return self.state.forget(cycle.pod.uid)
