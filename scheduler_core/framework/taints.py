"""Finds the first NoSchedule or NoExecute taint that a pod does not tolerate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler_core.model.pods.affinity import PREFER_NO_SCHEDULE, Taint, Toleration


def untolerated(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """The first NoSchedule or NoExecute taint that the tolerations do not cover, or None."""
    for taint in taints:
        if taint.effect != PREFER_NO_SCHEDULE and not any(t.tolerates(taint) for t in tolerations):
            return taint
    return None
