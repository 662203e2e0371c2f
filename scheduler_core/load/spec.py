"""The settings of load-aware scheduling: resources, factors, thresholds and percentiles.

Values per resource are in the order of `LoadSpec.resources`. All settings are hashable, so that profiles with
equal settings share columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

# A threshold of more than ten times the capacity is never reached; counting it as this keeps products small.
MAX_PERCENT: Final = 1000


class Percentile(msgspec.Struct, frozen=True):
    """The aggregate of the node's use to read; `duration` in seconds, 0 is the longest one with data."""

    kind: str
    duration: float = 0.0


class Thresholds(msgspec.Struct, frozen=True):
    """Percent per resource, 0 where there is none. `aggregated` counts only together with `percentile`."""

    plain: tuple[int, ...]
    prod: tuple[int, ...]
    aggregated: tuple[int, ...] = ()
    percentile: Percentile | None = None


class Estimation(msgspec.Struct, frozen=True):
    """The rules of estimates: percent of their requests per resource (None: not estimated).

    For so many seconds after the two moments a pod is estimated whatever was measured; `customizable` says
    whether annotations of the pod may say otherwise, `capped` whether no estimate exceeds the pod's limit.
    """

    factors: tuple[int | None, ...]
    after_scheduled: int = 0
    after_initialized: int = 0
    customizable: bool = False
    capped: bool = True


class LoadSpec(msgspec.Struct, frozen=True):
    """All of it. `expiration` in seconds; `inclusive`: usage equal to its threshold is too much already."""

    resources: tuple[str, ...]
    estimation: Estimation
    thresholds: Thresholds
    score_percentile: Percentile | None = None
    include_system: bool = False
    expiration: float = 180.0
    inclusive: bool = False


def aligned(values: Mapping[str, int], resources: Sequence[str]) -> tuple[int, ...]:
    """Percentages in the order of the resources, 0 where nothing is said, within 0..MAX_PERCENT."""
    return tuple(min(max(values.get(name, 0), 0), MAX_PERCENT) for name in resources)
