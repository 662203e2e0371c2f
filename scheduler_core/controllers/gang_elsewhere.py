"""The condition MembersElsewhere of PodGroups: members that another scheduler has, and what helps."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from scheduler_core.model.conditions import condition, find
from scheduler_core.model.gang import Gang
from scheduler_core.state.cluster import ClusterState

ELSEWHERE: Final = "MembersElsewhere"
REASON: Final = "PassedBy"


def elsewhere_condition(
    state: ClusterState, gang: Gang, others: Collection[str], now: float
) -> list[dict[str, Any]]:
    """The condition, with numbers; none where no member is with one of the schedulers `others`."""
    members = state.gangs.members(gang.key).values()
    away = [
        pod for pod in members if pod.scheduler_name in others and not pod.finished and not pod.terminating
    ]
    if not away:
        return []
    placed = sum(1 for pod in away if pod.uid in state.placed)
    names = ", ".join(sorted({pod.scheduler_name for pod in away}))
    text = f"{len(away)} of {len(members)} members went to {names}: "
    if placed < len(away):
        text += f"{len(away) - placed} wait there, {placed} have a node and count; "
        text += (
            f"`kubectl podgroup adopt {gang.ref.name} -n {gang.ref.namespace}` brings those that wait back"
        )
    else:
        text += "all have a node and count"
    return [condition(ELSEWHERE, True, REASON, text, now, find(gang.status.conditions, ELSEWHERE))]
