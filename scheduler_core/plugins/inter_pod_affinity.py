"""InterPodAffinity: required and preferred (anti-)affinity between pods, in both directions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Bool, Int32, Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import MAX_NODE_SCORE, Scope
from scheduler_core.framework.pod_terms import all_select, selected_by, selected_by_all
from scheduler_core.framework.queueing.hints import EVERYBODY, Hint, NarrowHint, Reach
from scheduler_core.framework.queueing.neighbour_terms import beside
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.framework.scoring import chosen
from scheduler_core.framework.status import SKIP, SUCCESS, Bits, Reason, Status
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import INTER_POD_AFFINITY
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.neighbours.affinity_index import carries_terms
from scheduler_core.state.neighbours.domains import Domains

REASONS: Final = (
    Reason("node(s) didn't match pod affinity rules", resolvable=False),
    Reason("node(s) didn't match pod anti-affinity rules"),
    Reason("node(s) didn't satisfy existing pods anti-affinity rules"),
)
_SCORING: Final = "InterPodAffinity/score"
_AFFINITY: Final = 1
_ANTI_AFFINITY: Final = 2
_EXISTING: Final = 4

_Verdicts = dict[str, tuple[Domains, Bool]]


class _Filtering(NamedTuple):
    """Excluded domains per topology key, bool [V + 1] each."""

    unwanted: _Verdicts
    avoided: _Verdicts
    guarded: _Verdicts


class InterPodAffinity:
    """`hard_weight` is what a required affinity term of a placed pod adds for a pod that it matches.

    With `ignore_existing`, preferences of placed pods count only for pods that have preferences of their own.
    """

    name = INTER_POD_AFFINITY
    scope = Scope.CLUSTER

    def __init__(self, hard_weight: int = 1, ignore_existing: bool = False) -> None:
        self.hard_weight = hard_weight
        self.ignore_existing = ignore_existing

    def concerns(self, state: ClusterState, pod: Pod) -> bool:
        """Pods with terms of their own, and every pod while a placed one has any."""
        return state.neighbours.have_terms or carries_terms(pod)

    # Required terms

    def pre_filter(self, cycle: Cycle) -> Status:
        """Verdicts per domain; SKIP for a pod without required terms that no placed pod rejects."""
        pod = cycle.pod
        guarded = cycle.state.neighbours.refusals_of(pod)
        if not (guarded or pod.pod_affinity.required or pod.pod_anti_affinity.required):
            return SKIP
        cycle.slots[self.name] = _Filtering(_unwanted(cycle.state, pod), _avoided(cycle.state, pod), guarded)
        return SUCCESS

    def filter(self, cycle: Cycle, nodes: NodeView) -> Bits:
        """uint64 [M]: bit 0 the pod's affinity, else bit 1 its anti-affinity, else bit 2 that of others."""
        filtering: _Filtering = cycle.slots[self.name]
        out = np.zeros(len(nodes), dtype=np.uint8)  # [M]
        # The first reason overwrites later ones and is reported.
        for verdicts, bit in zip(reversed(filtering), (_EXISTING, _ANTI_AFFINITY, _AFFINITY), strict=True):
            for domains, ruled_out in verdicts.values():
                np.putmask(out, ruled_out[domains.raw[nodes.slots]], bit)
        return out.astype(np.uint64)

    def reasons(self, cycle: Cycle) -> Sequence[Reason]:
        """The three bits."""
        return REASONS

    # Preferred terms

    def pre_score(self, cycle: Cycle, feasible: Bool) -> Status:
        """Weights per domain, of the pod's own preferences and of those of placed pods; SKIP without any."""
        state, pod = cycle.state, cycle.pod
        own = bool(pod.pod_affinity.preferred or pod.pod_anti_affinity.preferred)
        if self.ignore_existing and not own:
            return SKIP
        weights: dict[str, Int64] = {}  # [V + 1] per topology key
        for terms, sign in ((pod.pod_affinity.preferred, 1), (pod.pod_anti_affinity.preferred, -1)):
            for term in terms:
                domains = state.neighbours.domains(term.topology_key)
                sums = state.neighbours.selected(selected_by(state, pod, term), domains)
                _add(weights, term.topology_key, sign * term.weight, sums)
        of_others = state.neighbours.carried_together(
            *state.neighbours.terms_about(pod).weighted(self.hard_weight)
        )
        for key, theirs in of_others.items():
            _add(weights, key, 1, theirs)
        if not weights:
            return SKIP
        cycle.slots[_SCORING] = weights
        return SUCCESS

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M]: sum of the weights of the node's domains; may be negative."""
        out: Int64 = np.zeros(len(nodes), dtype=np.int64)  # [M]
        weights: dict[str, Int64] = cycle.slots[_SCORING]
        for key, added in weights.items():
            out += added[cycle.state.neighbours.domains(key).raw[nodes.slots]]
        return out

    def normalize(self, cycle: Cycle, raw: Int64, feasible: Bool) -> Int64:
        """int64 [N]: from the least (0) to the most (100) feasible score.

        In floating point and truncated, as kube-scheduler does it: 29 of 100 becomes 28.
        """
        values = chosen(raw, feasible)
        low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        if high == low:
            return np.zeros_like(raw)
        share: NDArray[np.float64] = (raw - low).astype(np.float64)  # [N]
        share /= high - low
        share *= MAX_NODE_SCORE
        return share.astype(np.int64)

    # Queue

    def hints(self) -> Mapping[EventKind, Hint | None]:
        """Relevant pods were added, changed or deleted; nodes or namespaces were added or relabelled."""
        return Obstacle.NEIGHBOURS.hints(NarrowHint(_may_change_neighbours, _reach))


def _add(weights: dict[str, Int64], key: str, weight: int, sums: Int32 | Int64) -> None:
    added: Int64 = sums * np.int64(weight)  # [V + 1]
    held = weights.get(key)
    weights[key] = added if held is None else held + added


def _unwanted(state: ClusterState, pod: Pod) -> _Verdicts:
    """Domains without a pod that all required affinity terms select; nodes without the label as well.

    The first pod of a group may use any node with the keys: if the terms select no placed pod in any
    domain, and select the pod itself.
    """
    terms = pod.pod_affinity.required
    if not terms:
        return {}
    everyone = selected_by_all(state, pod, terms)
    out: _Verdicts = {}
    for key in dict.fromkeys(term.topology_key for term in terms):
        domains = state.neighbours.domains(key)
        out[key] = domains, state.neighbours.selected(everyone, domains) == 0
    if everyone.takes(pod) and all(empty.all() for _, empty in out.values()):
        for _, empty in out.values():
            empty[:-1] = False
    return out


def _avoided(state: ClusterState, pod: Pod) -> _Verdicts:
    """Domains with a pod that a required anti-affinity term selects."""
    out: _Verdicts = {}
    for term in pod.pod_anti_affinity.required:
        domains = state.neighbours.domains(term.topology_key)
        present = state.neighbours.selected(selected_by(state, pod, term), domains) > 0
        _join(out, term.topology_key, domains, present)
    return out


def _join(verdicts: _Verdicts, key: str, domains: Domains, more: Bool) -> None:
    held = verdicts.get(key)
    verdicts[key] = domains, more if held is None else held[1] | more


def _reach(state: ClusterState, event: ClusterEvent) -> Reach:
    """Pods with rules about the event's pod; all pods where its own rules or its node matter."""
    pod, what = event.pod, event.what
    if pod is None or what.meets(EventKind.OTHER):
        return EVERYBODY
    if what.meets(EventKind.POD_UPDATE) and event.old_pod is None:
        return EVERYBODY
    if what.meets(EventKind.POD_DELETE) and pod.pod_anti_affinity.required:
        return EVERYBODY
    return beside(event)


def _may_change_neighbours(state: ClusterState, pod: Pod, event: ClusterEvent) -> bool:
    what, other = event.what, event.pod
    if what.meets(EventKind.OTHER):
        return bool(event.namespace)
    if other is None:
        return True
    if what.meets(EventKind.POD_UPDATE):
        old = event.old_pod
        if old is None or _came_near(state, pod, other):
            return True
        return _went_away(state, pod, old, moved=what.meets(EventKind.POD_DELETE))
    if what.meets(EventKind.POD_DELETE):
        return _went_away(state, pod, other, moved=True)
    return _came_near(state, pod, other) if what.meets(EventKind.POD_ADD) else True


def _came_near(state: ClusterState, pod: Pod, came: Pod) -> bool:
    """A new pod helps a pod whose required affinity selects it."""
    terms = pod.pod_affinity.required
    return bool(terms) and all_select(state, pod, terms, came)


def _went_away(state: ClusterState, pod: Pod, gone: Pod, *, moved: bool) -> bool:
    """A pod that went away helps a pod that avoids it, a pod that it rejected, and the first of a group.

    If it has other labels alone, it rejects whom it rejected before.
    """
    rejects = gone.pod_anti_affinity.required if moved else ()
    if any(selected_by(state, gone, term).takes(pod) for term in rejects):
        return True
    if any(selected_by(state, pod, term).takes(gone) for term in pod.pod_anti_affinity.required):
        return True
    return _came_near(state, pod, gone)
