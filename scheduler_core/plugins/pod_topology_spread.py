"""PodTopologySpread: spreads pods that match a selector over the domains of a topology key."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import MAX_NODE_SCORE, Scope
from scheduler_core.framework.queueing.hints import EVERYBODY, Hint, NarrowHint, Reach
from scheduler_core.framework.queueing.neighbour_terms import beside, forms_of
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.scoring import chosen, percent
from scheduler_core.framework.spread import (
    SYSTEM_CONSTRAINTS,
    constraints_of,
    may_spread,
    spread_domains,
)
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import LABEL_HOSTNAME, POD_TOPOLOGY_SPREAD
from scheduler_core.model.node import Node
from scheduler_core.model.pods.affinity import SpreadConstraint
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.neighbours.domains import EACH_NODE, Domains
from scheduler_core.state.neighbours.selections import counted

REASONS: Final = (
    Reason("node(s) didn't match pod topology spread constraints"),
    Reason("node(s) didn't match pod topology spread constraints (missing required label)", resolvable=False),
)
_SCORING: Final = "PodTopologySpread/score"
_NO_LABEL: Final = 2


class _Scoring(NamedTuple):
    """Per soft constraint its domains and what a domain adds, float64 [V + 1]; nodes that do not count."""

    parts: list[tuple[Domains, NDArray[np.float64]]]
    ignored: Bool | None  # [N]


class PodTopologySpread:
    """`defaults` are constraints for pods without any; their selectors come from the pods' controllers.

    `system` says that they are kube-scheduler's own: then a node without a key still scores by the others.
    """

    name = POD_TOPOLOGY_SPREAD
    scope = Scope.CLUSTER

    def __init__(
        self, defaults: Sequence[SpreadConstraint] = SYSTEM_CONSTRAINTS, system: bool = True
    ) -> None:
        self.defaults = tuple(defaults)
        self.system = system

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Pods with constraints of their own or by default."""
        return may_spread(pod, self.defaults)

    # Hard constraints

    def pre_filter(self, cycle: Cycle) -> Status:
        """A verdict per domain of every hard constraint; SKIP without one."""
        constraints = constraints_of(cycle.pod, self.defaults, hard=True)
        if not constraints:
            return SKIP
        keys = [constraint.topology_key for constraint in constraints]
        cycle.slots[self.name] = [self._verdicts(cycle, constraint, keys) for constraint in constraints]
        return SUCCESS

    def _verdicts(
        self, cycle: Cycle, constraint: SpreadConstraint, keys: Sequence[str]
    ) -> tuple[Domains, NDArray[np.uint8]]:
        """Bits per domain, uint8 [V + 1]: skewed if its pods, with this one, exceed the least by maxSkew."""
        domains = spread_domains(cycle.state, cycle.pod, constraint, keys)
        sums = cycle.state.neighbours.selected(counted(cycle.pod, constraint), domains)
        least = domains.lowest(sums) if len(domains.occupied) >= constraint.min_domains else 0
        itself = int(constraint.selector.matches(cycle.pod.labels))
        bits = (sums > constraint.max_skew + least - itself).view(np.uint8)
        bits[-1] = _NO_LABEL
        return domains, bits

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]: the first constraint that a node breaks decides, as in kube-scheduler."""
        out = np.zeros(len(nodes), dtype=np.uint8)  # [M]
        for domains, verdicts in cycle.slots[self.name]:
            bits = verdicts[domains.raw[nodes.slots]]
            bits *= out == 0
            out |= bits
        return out.astype(np.uint64)

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The two bits."""
        return REASONS

    # Soft constraints

    def pre_score(self, cycle: Cycle, feasible: Bool) -> Status:
        """The weighted part of every domain in the score; SKIP without constraints."""
        constraints = constraints_of(cycle.pod, self.defaults, hard=False)
        if not constraints:
            return SKIP
        keys = [constraint.topology_key for constraint in constraints]
        counting = feasible
        if not self.system or cycle.pod.spread:
            counting = feasible.copy()
            for key in dict.fromkeys(keys):
                counting &= cycle.state.neighbours.domains(key).labelled[: len(feasible)]
        else:
            keys = []
        parts = [self._part(cycle, constraint, keys, counting) for constraint in constraints]
        ignored = feasible & ~counting  # [N]
        cycle.slots[_SCORING] = _Scoring(parts, ignored if ignored.any() else None)
        return SUCCESS

    def _part(
        self, cycle: Cycle, constraint: SpreadConstraint, keys: Sequence[str], counting: Bool
    ) -> tuple[Domains, NDArray[np.float64]]:
        """kube-scheduler's scoreForCount: pods in the domain * log(domains + 2) + maxSkew - 1.

        Under the hostname key every node counts its own pods.
        """
        state = cycle.state
        per_node = constraint.topology_key == LABEL_HOSTNAME
        everywhere = state.neighbours.domains(constraint.topology_key)
        labelled = everywhere.labelled[: len(counting)]
        if per_node:
            domains, size = state.neighbours.domains(EACH_NODE), int(np.count_nonzero(counting))
        else:
            domains = spread_domains(state, cycle.pod, constraint, keys)
            # Nodes without the key, where they count, are one domain more.
            size = everywhere.among(counting) + bool((counting & ~labelled).any())
        sums = state.neighbours.selected(counted(cycle.pod, constraint), domains)
        added = sums.astype(np.float64)  # [V + 1]
        added *= math.log(size + 2)
        added += constraint.max_skew - 1
        added[-1] = 0.0
        if per_node:
            added[: len(labelled)] *= labelled
        return domains, added

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M]: pods in the node's domains, weighted and rounded; more is worse."""
        scoring: _Scoring = cycle.slots[_SCORING]
        (domains, added), *others = scoring.parts
        out = added[domains.raw[nodes.slots]]  # float64 [M]
        for domains, added in others:
            out += added[domains.raw[nodes.slots]]
        # Rounds as Go does: what is added is 0 or at least log 2, so the sum is never just below a half.
        out += 0.5
        rounded = out.astype(np.int64)
        if scoring.ignored is not None:
            rounded *= ~scoring.ignored[nodes.slots]
        return rounded

    def normalize(self, cycle: Cycle, raw: Int64, feasible: Bool) -> Int64:
        """int64 [N]: the least raw score becomes 100; nodes without a key get 0."""
        scoring: _Scoring = cycle.slots[_SCORING]
        values = chosen(raw, feasible if scoring.ignored is None else feasible & ~scoring.ignored)
        if not len(values):
            return np.zeros_like(raw)
        low, high = int(values.min()), int(values.max())
        out = np.full_like(raw, MAX_NODE_SCORE)
        if high > 0:
            out = percent(high + low - raw, np.array([high], dtype=np.float64)).astype(np.int64)
        if scoring.ignored is not None:
            out *= ~scoring.ignored
        return out

    # Queue

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Counted pods or nodes of the domains were added, changed or removed."""
        return Obstacle.NEIGHBOURS.hints(NarrowHint(self._may_even_out, self._reach))

    def _reach(self, state: ClusterState, event: ClusterEvent) -> Reach:
        """Pods whose constraints count the event's pod; with defaults that filter, any of its namespace."""
        pod = event.pod
        if pod is None:
            return EVERYBODY
        known = event.old_pod is not None or not event.what & EventKind.POD_UPDATE
        if known and not any(constraint.hard for constraint in self.defaults):
            return beside(event)
        return Reach(namespaces=frozenset({pod.namespace}))

    def _may_even_out(self, state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
        """A pod that counts comes or goes; or a node that has, or had, all topology keys changes.

        An update may have removed the counted labels, so what the pod was before counts as well.
        """
        other, old = event.pod, event.old_pod
        if other is not None and other.namespace != pod.namespace:
            return False
        if other is not None and old is None and event.what & EventKind.POD_UPDATE:
            return True
        constraints = constraints_of(pod, self.defaults, hard=True)
        if other is not None:
            labels = [form.labels for form in forms_of(event)]
            return any(constraint.selector.matches(each) for constraint in constraints for each in labels)
        keys = [constraint.topology_key for constraint in constraints]
        forms: tuple[Node | None, ...] = (event.node, event.old_node)
        return any(all(key in node.labels for key in keys) for node in forms if node is not None)
