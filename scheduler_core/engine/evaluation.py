"""PreFilter and Filter of one pod on one node in the current state, as PostFilter and nominations need them.

Counterpart of kube-scheduler's RunFilterPluginsWithNominatedPods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Protocol

import numpy as np

from scheduler_core.arrays.types import Bool
from scheduler_core.engine.diagnosis import unresolvable_nodes
from scheduler_core.engine.plugin_errors import named_errors
from scheduler_core.engine.scores.node_scores import NodeScores
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.nominations.first_of_group import FirstOfGroup
from scheduler_core.framework.nominations.nominated import Precedence, closed_by_anti_affinity
from scheduler_core.framework.nominations.spread_claims import EvictionClaims
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits, Code, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import NODE_RESOURCES_FIT, POD_TOPOLOGY_SPREAD
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.trial import Trial

_RESOURCES = NODE_RESOURCES_FIT


class FilterRunner(Protocol):
    """The parts of a pod's scheduling cycle that an evaluation repeats (`engine.pod_cycle.PodCycle`)."""

    @property
    def state(self) -> ClusterState:
        """The cluster that is looked at."""

    def new_cycle(self, profile: Profile, pod: Pod, now: float) -> Cycle:
        """A fresh cycle for one pod."""

    def pre_filter(self, profile: Profile, cycle: Cycle) -> Status | None:
        """The first refusal of PreFilter, or None."""

    def scores_for(self, profile: Profile, cycle: Cycle) -> NodeScores:
        """The cached filter results and scores of the pod's class, brought up to date."""

    def filter_bits(self, profile: Profile, cycle: Cycle, scores: NodeScores) -> dict[str, Bits]:
        """uint64 [N] per filter, in the profile's order."""


def remove_leaving(trial: Trial, state: ClusterState, slot: int) -> None:
    """Count the leaving pods of a node as gone."""
    for uid in [u for u in state.nodes.pods[slot] if state.table.leaving[state.placed[u].row]]:
        trial.remove_placed(uid)


class Reevaluation:
    """`framework.evaluation.Evaluation` for one pod under one profile."""

    def __init__(self, cycles: FilterRunner, profile: Profile, cycle: Cycle) -> None:
        self._cycles = cycles
        self._profile = profile
        self._cycle = cycle
        self._first_bits: dict[str, Bits] | None = None
        # What nominated pods leave on a slot, by rules between pods.
        self._leave: tuple[Callable[[int], bool], ...] = ()
        # Filters that need not look at nominated pods of one node, as all of them were looked at.
        self._judged: frozenset[str] = frozenset()

    def remember_claims(self) -> None:
        """Before any eviction is tried: note what nominated pods could do without them."""
        state, pod = self._cycles.state, self._cycle.pod
        if len(state.nominations):
            self._leave = EvictionClaims(state, pod).allow, FirstOfGroup(state, pod).allows
            self._judged = frozenset({POD_TOPOLOGY_SPREAD} if pod.spread else ())

    @property
    def across_nodes(self) -> bool:
        """Whether the profile allows victims on several nodes."""
        return self._profile.across_nodes

    def _is_closed(self, slot: int) -> bool:
        return self._closed is not None and bool(self._closed[slot])

    @cached_property
    def _closed(self) -> Bool | None:
        """bool [N]: nodes in domains that (anti-)affinity of nominated pods closes to the pod, or None."""
        return closed_by_anti_affinity(self._cycles.state, self._cycle.pod)

    def _fresh(self) -> Cycle:
        cycle = self._cycles.new_cycle(self._profile, self._cycle.pod, self._cycle.now)
        cycle.after_leaving = True
        return cycle

    def fits(self, slot: int) -> bool:
        """Whether the pod passes all filters on one node once terminating pods are gone.

        As in kube-scheduler the filters run twice, with and without the nominated pods that go first: the pod
        may neither take their room nor depend on them. Rules between pods look at those on other nodes, too.
        """
        if self._is_closed(slot):
            return False
        with Trial(self._cycles.state, self._cycle.now) as trial:
            remove_leaving(trial, self._cycles.state, slot)
            if not all(leave(slot) for leave in self._leave) or not self.passes(slot):
                return False
            return not self._place_ahead(trial, slot) or self._judged.issuperset(self._refusals(slot))

    def fits_beside_nominated(self, slot: int) -> bool:
        """Whether the pod still fits a node, which it fits now, beside the nominated pods that go first.

        Nominated pods may wait for terminating pods, and the pod may depend on those by affinity. So a filter
        counts as refusing because of nominated pods only if it refuses with and without the terminating pods.
        """
        if self._is_closed(slot):
            return False
        with Trial(self._cycles.state, self._cycle.now) as trial:
            if not self._place_ahead(trial, slot):
                return True
            refusals = set(self._refusals(slot))
            if not refusals:
                return True
            remove_leaving(trial, self._cycles.state, slot)
            return refusals.isdisjoint(self._refusals(slot))

    def passes(self, slot: int) -> bool:
        """Whether PreFilter and every filter pass the pod on one node in the current state."""
        cycle, alive = self._fresh(), self._cycles.state.nodes.alive[slot]
        return bool(alive) and self._pre_filter(cycle) and not any(self._refused_by(cycle, slot))

    def _place_ahead(self, trial: Trial, slot: int) -> bool:
        """Place the nominated pods of a node that go before the pod; False if there are none."""
        state, pod = self._cycles.state, self._cycle.pod
        on_node = state.nominations.on_node(state.nodes.names[slot], pod)
        precedence = Precedence(state, pod)
        ahead = [item for item in on_node if precedence.nominee_goes_first(item)]
        for item in ahead:
            trial.place(item.pod, slot, item.vector)
        return bool(ahead)

    def _refusals(self, slot: int) -> Iterator[str]:
        """Filters that refuse one node. Refusals of PreFilter, such as quotas, do not count."""
        cycle = self._fresh()
        self._pre_filter(cycle)
        return self._refused_by(cycle, slot)

    def _pre_filter(self, cycle: Cycle) -> bool:
        """Whether all PreFilter plugins pass the pod. The filters of those that refuse are skipped."""
        passed = True
        with named_errors(cycle):
            for plugin in self._profile.pre_filter:
                cycle.calling = (plugin.name, "preFilter")
                status = plugin.pre_filter(cycle)
                if status.code is not Code.SUCCESS:
                    cycle.skipped.add(plugin.name)
                    passed = passed and status.ok
        return passed

    def _refused_by(self, cycle: Cycle, slot: int) -> Iterator[str]:
        """Names of the filters that refuse one node."""
        nodes = self._cycles.state.nodes
        view = NodeView(nodes, slice(slot, slot + 1))
        with named_errors(cycle):
            for plugin in self._profile.filter:
                cycle.calling = (plugin.name, "filter")
                if plugin.name not in cycle.skipped and plugin.filter(cycle, view)[0]:
                    yield plugin.name

    def _bits(self) -> dict[str, Bits]:
        """Bits of all filters on all nodes, computed on the first call, whatever PreFilter said."""
        if self._first_bits is None:
            cycle = self._fresh()
            self._cycles.pre_filter(self._profile, cycle)
            scores = self._cycles.scores_for(self._profile, cycle)
            self._first_bits = self._cycles.filter_bits(self._profile, cycle, scores)
            self._bits_cycle = cycle
        return self._first_bits

    def unresolvable(self) -> Bool:
        """bool [N]: nodes on which no eviction can make the pod fit."""
        nodes = self._cycles.state.nodes
        bits = self._bits()
        found = unresolvable_nodes(self._profile, self._bits_cycle, bits, nodes.alive[: nodes.size])
        return found if self._closed is None else found | self._closed

    def refusing(self) -> frozenset[str]:
        """Filters that refuse some node; empty until the bits have been computed."""
        return frozenset(name for name, bits in (self._first_bits or {}).items() if bits.any())

    def beyond_resources(self) -> Bool:
        """bool [N]: nodes refused by a filter other than NodeResourcesFit."""
        refused: Bool = np.zeros(self._cycles.state.nodes.size, dtype=np.bool_)  # [N]
        for name, bits in self._bits().items():
            if name != _RESOURCES:
                refused |= bits != 0
        return refused
