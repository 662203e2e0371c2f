"""Which taints keep a pod off a node: those of effect NoSchedule and NoExecute that it does not tolerate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler_core.model.affinity import PREFER_NO_SCHEDULE, Taint, Toleration


def untolerated(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> Taint | None:
    """The first taint that keeps a pod with these tolerations off a node, or None."""
    for taint in taints:
        if taint.effect != PREFER_NO_SCHEDULE and not any(t.tolerates(taint) for t in tolerations):
            return taint
    return None
