"""PrioritySort: the order of the active queue."""

from __future__ import annotations

from typing import Any

from scheduler_core.framework.interface import Unit


class PrioritySort:
    """Highest priority first, then oldest, then by name, so that members of two gangs never interleave.

    A pod alone counts by its own creation time, a gang by its group's (coscheduling reference, item 8).
    """

    name = "PrioritySort"

    def sort_key(self, unit: Unit) -> tuple[Any, ...]:
        """Total order: priority, creation time, key."""
        return (-unit.priority, unit.created, unit.key)
