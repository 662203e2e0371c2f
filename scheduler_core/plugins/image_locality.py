"""ImageLocality: prefers nodes that have the pod's images, and images that many nodes have."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.arrays.types import Int64
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.interface import MAX_NODE_SCORE, Scope
from scheduler_core.framework.view import NodeView
from scheduler_core.model.names import IMAGE_LOCALITY

_MB: Final = 1024 * 1024
LEAST_BYTES: Final = 23 * _MB
MOST_BYTES_PER_CONTAINER: Final = 1000 * _MB


def full_name(image: str) -> str:
    """The image with its tag; `latest` where neither tag nor digest is given."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"


class ImageLocality:
    """Score: the images' bytes on the node, each times the share of nodes that have it, between thresholds.

    A node's score depends on how many other nodes have an image, so that one node's change may touch all of
    them. Raw scores of nodes that did not change themselves can thus be old; `normalize`, which is asked
    again after every change of a node, computes all of them from the index.
    """

    name = IMAGE_LOCALITY
    scope = Scope.STATIC
    looks_at_feasible = False

    def score(self, cycle: Cycle, nodes: NodeView) -> Int64:
        """int64 [M] 0..100 as of now."""
        out: Int64 = self._points(cycle)[nodes.slots]
        return out

    def normalize(self, cycle: Cycle, raw: Int64, feasible: NDArray[np.bool_]) -> Int64:
        """int64 [N] 0..100 for every slot, whatever the raw scores were."""
        return self._points(cycle)

    def _points(self, cycle: Cycle) -> Int64:
        """int64 [N], kept until a node changes."""
        state = cycle.state
        known: tuple[tuple[int, int], Int64] | None = cycle.slots.get(self.name)
        version = (state.images.version, state.nodes.size)
        if known is None or known[0] != version:
            known = cycle.slots[self.name] = (version, _score_all(cycle))
        return known[1]


def _score_all(cycle: Cycle) -> Int64:
    nodes, images = cycle.state.nodes, cycle.pod.images
    bytes_there: Int64 = np.zeros(nodes.size, dtype=np.int64)  # [N]
    for image in images:
        slots, sizes = cycle.state.images.find(full_name(image))
        living = nodes.alive[slots]
        slots, sizes = slots[living], sizes[living]
        if len(slots):
            bytes_there[slots] += (sizes * (len(slots) / nodes.count)).astype(np.int64)
    most = MOST_BYTES_PER_CONTAINER * max(1, len(images))
    clipped = np.clip(bytes_there, LEAST_BYTES, most)
    points: Int64 = MAX_NODE_SCORE * (clipped - LEAST_BYTES) // (most - LEAST_BYTES)
    return points
