"""What a placed pod means to its gang: of pods of equal priority, those that mean less go first.

Pods without a gang go first, as in kube-scheduler, then members beyond the minimum of their gang, then those
within it. The most important members are within the minimum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from scheduler_core.model.groups.gang import Disruption, Gang
from scheduler_core.state.placed.pods import PodTable
from scheduler_core.state.placement import Placement

NO_GANG: Final = 0
BEYOND_MINIMUM: Final = 1
WITHIN_MINIMUM: Final = 2


def running_rows(members: Iterable[str], placed: Mapping[str, Placement], table: PodTable) -> list[int]:
    """Rows of the members (uids) that hold a node and do not end, most important first."""
    rows = {uid: placed[uid].row for uid in members if uid in placed and not table.ending[placed[uid].row]}
    priority, start = table.priority, table.start
    order = sorted(rows, key=lambda uid: (-int(priority[rows[uid]]), float(start[rows[uid]]), uid))
    return [rows[uid] for uid in order]


def within_minimum(gang: Gang, running: int) -> int:
    """How many running members the gang needs: none of a basic group, all of one that goes as a whole."""
    if gang.disruption is Disruption.ALL:
        return running
    return 0 if gang.basic else gang.min_members


def ranks_in(gang: Gang | None, running: Sequence[int]) -> Iterator[tuple[int, int]]:
    """(row, rank) of a gang's running members, which are given by their rows, most important first."""
    least = within_minimum(gang, len(running)) if gang is not None else 0
    for place, row in enumerate(running):
        within = WITHIN_MINIMUM if place < least else BEYOND_MINIMUM
        yield row, within if gang is not None else NO_GANG
