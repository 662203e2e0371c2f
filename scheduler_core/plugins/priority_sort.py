"""PrioritySort: the order of the active queue, by priority and creation time."""

from __future__ import annotations

from typing import Any

from scheduler_core.framework.interface import Unit
from scheduler_core.model.names import PRIORITY_SORT


class PrioritySort:
    """Highest priority first, then oldest, then by name, so that members of two gangs never interleave.

    A single pod is ordered by its own creation time, a gang by that of its group (docs/gangs.md#rules).
    """

    name = PRIORITY_SORT

    def sort_key(self, unit: Unit) -> tuple[Any, ...]:
        """Total order: priority, creation time, key."""
        return (-unit.priority, unit.created, unit.key)
