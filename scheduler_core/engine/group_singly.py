"""The last resort for a group whose best placements filters between pods refuse: its members one by one.

Such filters (spread constraints, anti-affinity) may leave only placements that packing would not choose.
Every member takes the best node that its filters let it; the result counts if it meets the strict rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scheduler_core.engine.binding import Reservation
from scheduler_core.topology.placer import can_place

if TYPE_CHECKING:
    from scheduler_core.engine.group_placement import GroupPlacer, Question, Reserved


def place_singly(placer: GroupPlacer, question: Question, now: float) -> Reserved | None:
    """All members reserved, or None with nothing held. Raises PluginError; then nothing is held either."""
    leaf_of = {slot: leaf for leaf, slot in enumerate(question.slots.nodes.tolist()) if slot >= 0}
    counts = question.fixed.copy()  # [leaves]
    reserved: Reserved = []
    try:
        for profile, pod in question.members:
            attempt = placer.cycle.attempt(profile, pod, now, post_filter=False)
            taken = placer.cycle.reserve(profile, attempt) if attempt.slot in leaf_of else None
            if not isinstance(taken, Reservation):
                break
            reserved.append((profile, taken))
            counts[leaf_of[attempt.slot]] += 1
        else:
            if can_place(question.tree, np.zeros_like(counts), question.size, question.rules, counts):
                return reserved
    except BaseException:
        placer.undo(reserved)
        raise
    placer.undo(reserved)
    return None
