"""Decides which pods count in their quota, for scheduler, webhook, simulation and command line alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduler_core.model.names import CHARGED_ANNOTATION, FINISHED_PHASES

_TRUE: Final = "true"


def charged_at_creation(annotations: Mapping[str, str]) -> bool:
    """Whether admission has charged the pod: it counts from creation on, node or not."""
    return annotations.get(CHARGED_ANNOTATION) == _TRUE


def counts_in_quota(*, node: str, charged: bool, phase: str) -> bool:
    """Whether a pod counts: it is not finished, and has a node (empty: none) or was charged at its creation.

    Its scheduler counts a pod besides from the moment it has chosen a node.
    """
    return phase not in FINISHED_PHASES and (bool(node) or charged)
