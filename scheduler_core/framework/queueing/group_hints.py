"""The queueing hints of groups, in every profile: native groups are scheduled as groups without a plugin."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.framework.gang_members import OWN_GROUP
from scheduler_core.framework.queueing.hints import Hint
from scheduler_core.framework.queueing.obstacles import Obstacle
from scheduler_core.model.names import COSCHEDULING
from scheduler_core.state.events import EventKind


def group_hints() -> dict[str, Mapping[EventKind, Hint | None]]:
    """The group was added or changed, or a sibling was placed, removed or is leaving."""
    return {COSCHEDULING: Obstacle.GROUP.hints(OWN_GROUP)}
