"""HTTP extenders that have a say in who is evicted: nobody goes before they agreed.

They are asked about the victims on each node. On the only node some of those named may stay; where victims
on several nodes must go together, all of them go or none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.budgets import violating
from scheduler_core.model.extending import VictimsQuestion
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pod import Pod
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.extending import Proposal


def agreed(state: ClusterState, pod: Pod, found: PostFilterResult) -> PostFilterResult | None:
    """What was found, with those victims that extenders let go; None where nobody may go, or not yet."""
    if not state.extending.guards(pod):
        return found
    allowed = _allowed(state, [(victim, pod) for victim in found.victims])
    if not allowed:
        return None
    return structs.replace(found, victims=tuple(item for item in found.victims if item.uid in allowed))


def all_may_go(state: ClusterState, victims: Sequence[tuple[Pod, Pod]]) -> bool:
    """Whether extenders let all victims of a gang go, each given with the member that it goes for."""
    guarded = [item for item in victims if state.extending.guards(item[1])]
    allowed = _allowed(state, guarded) if guarded else frozenset()
    return allowed is not None and all(victim.uid in allowed for victim, _ in guarded)


def question_of(state: ClusterState, proposal: Proposal, number: int) -> VictimsQuestion:
    """What to ask before the pods of a proposal are evicted."""
    ordered = sorted(proposal.victims, key=lambda victim: (-victim.priority, victim.start_time or 0.0))
    budgets: list[PodDisruptionBudget] = list(state.objects.get("PodDisruptionBudget", {}).values())
    hurt = sum(violating(ordered, budgets))
    return VictimsQuestion(number, proposal.pod, proposal.node, proposal.victims, hurt)


def _allowed(state: ClusterState, victims: Iterable[tuple[Pod, Pod]]) -> frozenset[str] | None:
    """The uids of those who may go, of several nodes all or none; None while extenders are to be asked."""
    extending, proposals = state.extending, _by_node(state, victims)
    allowed: set[str] = set()
    unknown: list[Proposal] = []
    for item in proposals:
        uids = frozenset(victim.uid for victim in item.victims)
        known = extending.agreed.get(item.pod.uid, {}).get(item.node)
        if item.node in extending.spared.get(item.pod.uid, ()):
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
    """Who is to go from each node, for the first pod that somebody there goes for."""
    nodes: dict[str, list[tuple[Pod, Pod]]] = {}
    for victim, pod in victims:
        nodes.setdefault(state.nodes.names[state.placed[victim.uid].slot], []).append((victim, pod))
    return [
        Proposal(given[0][1], node, tuple(victim for victim, _ in given)) for node, given in nodes.items()
    ]
