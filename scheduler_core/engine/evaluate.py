"""Looking again during PostFilter: PreFilter and Filter of one pod on the state as it is now."""

from __future__ import annotations

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
        state, closed = self._cycles.state, self._closed
        if closed is not None and closed[slot]:
            return False
        with Trial(state, self._cycle.now) as trial:
            for uid in [u for u in state.nodes.pods[slot] if state.table.going[state.placed[u].row]]:
                trial.lift(uid)
            return self._passes(slot) and self._passes_with_nominated(trial, slot)

    def _passes_with_nominated(self, trial: Trial, slot: int) -> bool:
        state, pod = self._cycles.state, self._cycle.pod
        on_node = state.nominations.on_node(state.nodes.names[slot], pod)
        precedence = Precedence(state, pod)
        ahead = [item for item in on_node if precedence.goes_first(item)]
        for item in ahead:
            trial.place(item.pod, slot, item.vector)
        return not ahead or self._passes(slot, quotas=False)

    def _passes(self, slot: int, *, quotas: bool = True) -> bool:
        """PreFilter and all filters on one node. Without `quotas` the per-attempt refusals do not count."""
        cycle = self._fresh()
        for plugin in self._profile.pre_filter:
            status = plugin.pre_filter(cycle)
            if not status.ok and quotas:
                return False
            if status.code is Code.SKIP or not status.ok:
                cycle.skipped.add(plugin.name)
        nodes = self._cycles.state.nodes
        view = NodeView(nodes, slice(slot, slot + 1))
        asked = (plugin for plugin in self._profile.filter if plugin.name not in cycle.skipped)
        return bool(nodes.alive[slot]) and all(not plugin.filter(cycle, view)[0] for plugin in asked)

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
