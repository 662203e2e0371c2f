"""Looking again during PostFilter: PreFilter and Filter of one pod on the state as it is now."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from scheduler_core.engine.explain import unresolvable_nodes
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.preemption.nominated import Precedence
from scheduler_core.framework.preemption.nominated_neighbours import closed_beside
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Bits, Code
from scheduler_core.framework.view import NodeView
from scheduler_core.state.trial import Trial

if TYPE_CHECKING:
    from scheduler_core.engine.pod_cycle import PodCycle

Bool = NDArray[np.bool_]

_RESOURCES = "NodeResourcesFit"


class Reevaluation:
    """`framework.evaluation.Evaluation` for one pod under one profile."""

    def __init__(self, cycles: PodCycle, profile: Profile, cycle: Cycle) -> None:
        self._cycles = cycles
        self._profile = profile
        self._cycle = cycle
        self._first_bits: dict[str, Bits] | None = None

    @property
    def across_nodes(self) -> bool:
        """Whether the profile lets victims be on several nodes."""
        return self._profile.across_nodes

    def _is_closed(self, slot: int) -> bool:
        return self._closed is not None and bool(self._closed[slot])

    @cached_property
    def _closed(self) -> Bool | None:
        """bool [N]: nodes whose domain nominated pods close to the pod; None for none."""
        return closed_beside(self._cycles.state, self._cycle.pod)

    def _fresh(self) -> Cycle:
        cycle = self._cycles.new_cycle(self._profile, self._cycle.pod, self._cycle.now)
        cycle.after_leaving = True
        return cycle

    def fits(self, slot: int) -> bool:
        """Whether the pod passes everything on one node, once the pods that are on their way out are gone.

        Nominated pods that go first count as if they were there, and again as if they were not:
        a pod may neither take their room nor depend on them (kube-scheduler runs the filters twice).
        """
        if self._is_closed(slot):
            return False
        with Trial(self._cycles.state, self._cycle.now) as trial:
            self._lift_leaving(trial, slot)
            return self.passes(slot) and not (self._place_ahead(trial, slot) and any(self._refusals(slot)))

    def fits_beside_nominated(self, slot: int) -> bool:
        """Whether nominated pods that go first let the pod start on one node, which it fits as it is.

        They may wait for pods on their way out, and the pod may depend on these (by affinity). So a filter
        refuses for their sake only if it does so beside the pods that leave and without them.
        """
        if self._is_closed(slot):
            return False
        with Trial(self._cycles.state, self._cycle.now) as trial:
            if not self._place_ahead(trial, slot):
                return True
            refusals = set(self._refusals(slot))
            if not refusals:
                return True
            self._lift_leaving(trial, slot)
            return refusals.isdisjoint(self._refusals(slot))

    def passes(self, slot: int) -> bool:
        """Whether PreFilter and every filter let the pod onto one node in the state as it is."""
        cycle, alive = self._fresh(), self._cycles.state.nodes.alive[slot]
        return bool(alive) and self._pre_filter(cycle) and not any(self._refused_by(cycle, slot))

    def _lift_leaving(self, trial: Trial, slot: int) -> None:
        state = self._cycles.state
        for uid in [u for u in state.nodes.pods[slot] if state.table.going[state.placed[u].row]]:
            trial.lift(uid)

    def _place_ahead(self, trial: Trial, slot: int) -> bool:
        """Place the nominated pods of a node that go before the pod; whether there are any."""
        state, pod = self._cycles.state, self._cycle.pod
        on_node = state.nominations.on_node(state.nodes.names[slot], pod)
        precedence = Precedence(state, pod)
        ahead = [item for item in on_node if precedence.goes_first(item)]
        for item in ahead:
            trial.place(item.pod, slot, item.vector)
        return bool(ahead)

    def _refusals(self, slot: int) -> Iterator[str]:
        """Filters that refuse one node. What is refused per attempt, as by quotas, does not count."""
        cycle = self._fresh()
        self._pre_filter(cycle)
        return self._refused_by(cycle, slot)

    def _pre_filter(self, cycle: Cycle) -> bool:
        """Whether PreFilter of all plugins lets the pod in. Those that do not are not asked again."""
        passed = True
        for plugin in self._profile.pre_filter:
            status = plugin.pre_filter(cycle)
            if status.code is not Code.SUCCESS:
                cycle.skipped.add(plugin.name)
                passed = passed and status.ok
        return passed

    def _refused_by(self, cycle: Cycle, slot: int) -> Iterator[str]:
        """Names of the filters that refuse one node."""
        nodes = self._cycles.state.nodes
        view = NodeView(nodes, slice(slot, slot + 1))
        for plugin in self._profile.filter:
            if plugin.name not in cycle.skipped and plugin.filter(cycle, view)[0]:
                yield plugin.name

    def _bits(self) -> dict[str, Bits]:
        """Bits of all filters on all nodes as the state was when first asked, whatever PreFilter said."""
        if self._first_bits is None:
            cycle = self._fresh()
            self._cycles.pre_filter(self._profile, cycle)
            scores = self._cycles.scores_for(self._profile, cycle)
            self._first_bits = self._cycles.filter_bits(self._profile, cycle, scores)
            self._bits_cycle = cycle
        return self._first_bits

    def hopeless(self) -> Bool:
        """bool [N]: nodes that no eviction can make fit."""
        nodes = self._cycles.state.nodes
        bits = self._bits()
        hopeless = unresolvable_nodes(self._profile, self._bits_cycle, bits, nodes.alive[: nodes.size])
        return hopeless if self._closed is None else hopeless | self._closed

    def refusing(self) -> frozenset[str]:
        """Filters that refuse some node, as far as anybody has asked for nodes at all."""
        return frozenset(name for name, bits in (self._first_bits or {}).items() if bits.any())

    def beyond_resources(self) -> Bool:
        """bool [N]: nodes refused by a filter other than that of resources."""
        refused: Bool = np.zeros(self._cycles.state.nodes.size, dtype=np.bool_)  # [N]
        for name, bits in self._bits().items():
            if name != _RESOURCES:
                refused |= bits != 0
        return refused
