"""Whether the topology constraints of a group are enforced for all of its members.

A group with strict constraints waits where they are not, so that it never runs spread out by mistake. One
whose constraints are preferences runs, and its status says that nobody looks at them.
"""

from __future__ import annotations

from typing import Final

from scheduler_core.errors import ModelError
from scheduler_core.model.groups.gang import Gang
from scheduler_core.model.groups.topology import LevelConstraint, parse_constraints
from scheduler_core.model.names import CLUSTER_TOPOLOGY_PLACEMENT_GROUP
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import is_constrained

NOT_ENFORCED: Final = "not enforced: "
_PLUGIN: Final = CLUSTER_TOPOLOGY_PLACEMENT_GROUP


def has_strict_constraints(gang: Gang) -> bool:
    """Whether a group has a constraint that must hold; a text that cannot be read may hold one."""
    if gang.topology_key or gang.problem:
        return True
    if gang.group is not None:
        return any(map(_is_strict, gang.group.constraints))
    try:
        return any(map(_is_strict, parse_constraints(gang.constraints)))
    except ModelError:
        return True


def _is_strict(rule: LevelConstraint) -> bool:
    limits = (rule.partitions, rule.min, rule.max, rule.factor)
    return rule.hard or any(limit is not None for limit in limits)


def unenforced(state: ClusterState, gang: Gang) -> str:
    """The text why a gang's topology constraints are not enforced; empty if they are, or there are none.

    Members that have a node do not count: no scheduler will place them. The key of a native group is the
    business of the scheduler that its members name, and others enforce it as well.
    """
    if not is_constrained(gang):
        return ""
    live = [pod for pod in state.gangs.members(gang.key).values() if not pod.finished]
    if gang.topology_key and not any(pod.scheduler_name in state.unplaced.own for pod in live):
        return ""
    away = [pod for pod in live if pod.scheduler_name not in state.topology.settings]
    strict = has_strict_constraints(gang)
    if strict:
        away = [pod for pod in away if pod.uid not in state.placed]
    if not away:
        return ""
    names = ", ".join(sorted({pod.scheduler_name for pod in away}))
    text = f"{NOT_ENFORCED}{len(away)} of {len(live)} members are with {names}, and no profile of that name "
    if not strict:
        return f"{text}has {_PLUGIN}; the constraints are preferences, so they run without them"
    return (
        f"{text}has {_PLUGIN}; the group waits: enable the plugin there, "
        "or give the members a scheduler that has it"
    )
