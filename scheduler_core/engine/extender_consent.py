"""HTTP extenders that have a say in who is evicted: nobody goes before they agreed."""

from __future__ import annotations

from msgspec import structs

from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.budgets import violating
from scheduler_core.framework.profile import Profile
from scheduler_core.model.extending import VictimsQuestion
from scheduler_core.model.pdb import PodDisruptionBudget
from scheduler_core.model.pod import Pod
from scheduler_core.plugins.extenders import Extenders
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.extending import Proposal


def agreed(
    state: ClusterState, profile: Profile, pod: Pod, found: PostFilterResult
) -> PostFilterResult | None:
    """What was found, with those victims that extenders let go; None while they have to be asked."""
    if not any(isinstance(plugin, Extenders) and plugin.guards(pod) for plugin in profile.plugins):
        return found
    extending, uids = state.extending, frozenset(victim.uid for victim in found.victims)
    known = extending.agreed.get(pod.uid, {}).get(found.nominated)
    if known is None or known[0] != uids:
        extending.proposed[pod.uid] = Proposal(pod, found.nominated, found.victims)
        return None
    return structs.replace(found, victims=tuple(item for item in found.victims if item.uid in known[1]))


def question_of(state: ClusterState, proposal: Proposal, number: int) -> VictimsQuestion:
    """What to ask before the pods of a proposal are evicted."""
    ordered = sorted(proposal.victims, key=lambda victim: (-victim.priority, victim.start_time or 0.0))
    budgets: list[PodDisruptionBudget] = list(state.objects.get("PodDisruptionBudget", {}).values())
    hurt = sum(violating(ordered, budgets))
    return VictimsQuestion(number, proposal.pod, proposal.node, proposal.victims, hurt)
