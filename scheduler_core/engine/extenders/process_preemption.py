"""Preemption that HTTP extenders must agree to (the preempt verb, kube-scheduler's ProcessPreemption).

Extenders are asked about the victims on each node. If all victims are on one node, extenders may name a
subset; if they are on several nodes, all of them are evicted or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.budgets import violating
from scheduler_core.model.extending import VictimsQuestion
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.extender_answers import Proposal


def agreed_preemption(state: ClusterState, pod: Pod, found: PostFilterResult) -> PostFilterResult | None:
    """The PostFilter result with the victims that extenders agreed to; None if there are none (yet)."""
    if not state.extending.guards(pod):
        return found
    allowed = _allowed(state, [(victim, pod) for victim in found.victims])
    if not allowed:
        return None
    return structs.replace(found, victims=tuple(item for item in found.victims if item.uid in allowed))


def all_victims_agreed(state: ClusterState, victims: Sequence[tuple[Pod, Pod]]) -> bool:
    """Whether extenders agreed to all victims of a gang; `victims`: (victim, preempting member) pairs."""
    guarded = [item for item in victims if state.extending.guards(item[1])]
    allowed = _allowed(state, guarded) if guarded else frozenset()
    return allowed is not None and all(victim.uid in allowed for victim, _ in guarded)


def question_of(state: ClusterState, proposal: Proposal, number: int) -> VictimsQuestion:
    """The question to ask before the victims of a proposal are evicted."""
    ordered = sorted(proposal.victims, key=lambda victim: (-victim.priority, victim.start_time or 0.0))
    budgets: list[PodDisruptionBudget] = list(state.objects.get("PodDisruptionBudget", {}).values())
    hurt = sum(violating(ordered, budgets))
    return VictimsQuestion(number, proposal.pod, proposal.node, proposal.victims, hurt)


def _allowed(state: ClusterState, victims: Iterable[tuple[Pod, Pod]]) -> frozenset[str] | None:
    """The uids of the agreed victims, on several nodes all or none; None while extenders must be asked."""
    extending, proposals = state.extending, _by_node(state, victims)
    allowed: set[str] = set()
    unknown: list[Proposal] = []
    for item in proposals:
        uids = frozenset(victim.uid for victim in item.victims)
        known = extending.agreed.get(item.pod.uid, {}).get(item.node)
        if item.node in extending.excluded_nodes.get(item.pod.uid, ()):
            return frozenset()
        if known is None or known[0] != uids:
            unknown.append(item)
        elif len(proposals) > 1 and known[1] != uids:
            return frozenset()
        else:
            allowed |= known[1]
    if unknown:
        extending.proposed[unknown[0].pod.uid] = tuple(unknown)
        return None
    return frozenset(allowed)


def _by_node(state: ClusterState, victims: Iterable[tuple[Pod, Pod]]) -> list[Proposal]:
    """One proposal per node, for the first preempting pod of that node's victims."""
    nodes: dict[str, list[tuple[Pod, Pod]]] = {}
    for victim, pod in victims:
        nodes.setdefault(state.nodes.names[state.placed[victim.uid].slot], []).append((victim, pod))
    return [
        Proposal(given[0][1], node, tuple(victim for victim, _ in given)) for node, given in nodes.items()
    ]
