"""The last checkpoint of a pod: an eviction loses the work since then (docs/fair-sharing.md#calm)."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler_core.model.names import CHECKPOINTED_AT_ANNOTATION
from scheduler_core.model.timestamps import parse_time


def checkpointed_at(annotations: Mapping[str, str]) -> float | None:
    """When the pod last saved its work, in seconds since the epoch; None without a time that can be read."""
    text = annotations.get(CHECKPOINTED_AT_ANNOTATION)
    if text is None:
        return None
    try:
        return parse_time(text)
    except ValueError:
        return None
