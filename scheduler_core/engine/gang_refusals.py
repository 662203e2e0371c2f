"""Who stands in the way of a gang: all that refuses any kind of its members anywhere.

One member that waits alone is refused by the filters of its attempt. In a gang the members that found a node
matter too: where another node opens for one of them, its node may be another's.
"""

from __future__ import annotations

from typing import Final

from scheduler_core.engine.gang_capacity import Members, kinds_of
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.obstacles import NOMINATED_PODS, searched_for

# What members may take from each other, whether it is scarce now or not.
_SHARED: Final = frozenset({"NodeResourcesFit", "NodePorts", "CapacityScheduling"})
# With more kinds of members every plugin of their profiles is taken to be in the way.
_MOST_KINDS: Final = 16


def refusing(cycle: PodCycle, members: Members, now: float) -> frozenset[str]:
    """Names of those whose events may help a gang that found no room. Raises PluginError."""
    found = set().union(*(searched_for(cycle.state, pod) for _, pod in members))
    if _others_are_nominated(cycle, members):
        found.add(NOMINATED_PODS)
    kinds = dict(zip(kinds_of(cycle.state, members), members, strict=True))
    if len(kinds) > _MOST_KINDS:
        return frozenset(found).union(*(profile.enabled for profile, _ in members))
    nodes = cycle.state.nodes
    alive = nodes.alive[: nodes.size]
    for profile, pod in kinds.values():
        own = cycle.new_cycle(profile, pod, now)
        cycle.pre_filter(profile, own)
        scores = cycle.scores_for(profile, own)
        if scores.status is not None:
            found.add(scores.status.plugin)
        bits = cycle.filter_bits(profile, own, scores)
        found |= own.refused | (_SHARED & profile.enabled)
        found |= {name for name, refused in bits.items() if refused[alive].any()}
    return frozenset(found)


def _others_are_nominated(cycle: PodCycle, members: Members) -> bool:
    own = {pod.uid for _, pod in members}
    return any(item.pod.uid not in own for item in cycle.state.nominations.waiting(lambda _: True))
