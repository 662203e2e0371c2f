"""Who of a quota loses least work, without a disadvantage for the quota whose pods tell of their checkpoints.

An eviction loses what a pod did since its start, or since its last checkpoint. Only some pods tell of
checkpoints. If these times were compared as they are, pods that tell would go before those of other quotas
that keep silent. So between quotas the times since the start count, and nothing that pods tell changes these.
Within a quota, pods of equal priority share out these times: who loses least takes the latest of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scheduler_core.arrays.types import Float, Int64
from scheduler_core.model.pods.pod import Pod


def shared_out(start: Float, saved: Float, priority: Int64, pods: Sequence[Pod]) -> Float:
    """float64 [P]: the starts of a namespace's pods, among those of equal priority in the order of `saved`.

    Where both are equal, the keys of the pods decide, so that a new scheduler gives the same times.
    """
    found: Float = start.copy()  # [P]
    for level in np.unique(priority[saved > start]).tolist():
        at = np.flatnonzero(priority == level)
        order = sorted(at.tolist(), key=lambda pod: (saved[pod], start[pod], pods[pod].key, pods[pod].uid))
        found[order] = np.sort(start[at])
    return found
