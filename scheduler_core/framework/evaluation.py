"""What the engine does for a plugin that must look again: the filters on the state as it is now."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Bool = NDArray[np.bool_]


class Evaluation(Protocol):
    """Re-runs of PreFilter and Filter for one pod; inside a Trial the state says what would be true."""

    @property
    def across_nodes(self) -> bool:
        """Whether victims may be on several nodes."""
        ...

    def fits(self, slot: int) -> bool:
        """Whether PreFilter and every filter let the pod onto one node.

        Pods on their way out are taken as gone, nominated pods of at least the pod's priority as there.
        """
        ...

    def hopeless(self) -> Bool:
        """bool [N]: nodes that no eviction can make fit."""
        ...

    def beyond_resources(self) -> Bool:
        """bool [N]: nodes refused by a filter other than that of resources, which evictions might clear."""
        ...
