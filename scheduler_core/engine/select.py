"""Choosing a node: the highest score, ties by a rotation seeded from the pod's uid."""

from __future__ import annotations

import zlib

from scheduler_core.arrays.index import Int64


def rotation(uid: str, size: int) -> int:
    """Where the search for the best node starts: the same for the same pod, spread over the nodes."""
    return zlib.crc32(uid.encode()) % size if size else 0


def best_slot(total: Int64, start: int) -> int:
    """First slot with the highest total at or after `start` (cyclic), or -1 if no node is feasible.

    `total` is int64 [N], negative where infeasible.
    """
    if not len(total):
        return -1
    first = start + int(total[start:].argmax()) if start < len(total) else 0
    if start:
        second = int(total[:start].argmax())
        if total[second] > total[first]:
            first = second
    return first if total[first] >= 0 else -1
