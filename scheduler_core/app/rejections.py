"""What is written of pods that found no node: their condition, and the node that is nominated for them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from scheduler_core.engine.decisions import Rejected
from scheduler_core.model import names
from scheduler_core.model.conditions import condition
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Patch

# Pods of which is remembered what was said last.
_MOST: Final = 10_000


class Rejections:
    """Remembers what was said last of pods: what the watch knows of them may be older than that."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Rejected] = OrderedDict()

    def patch(self, decision: Rejected, now: float) -> Patch | None:
        """What to write of a pod now; None if it says so already."""
        uid = decision.pod.uid
        found = rejection_patch(decision, now, self._last.get(uid))
        self._last[uid] = decision
        self._last.move_to_end(uid)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)
        return found


def rejection_patch(decision: Rejected, now: float, last: Rejected | None = None) -> Patch | None:
    """PodScheduled=False and the nominated node, or None if the pod says so already.

    `last` is what was said of the pod before: the pod may not show it yet.
    """
    pod = decision.pod
    old = pod.scheduled_condition
    same = old is not None and (old.status, old.reason, old.message) == (
        "False",
        decision.reason,
        decision.message,
    )
    same &= last is None or (last.reason, last.message) == (decision.reason, decision.message)
    moved = decision.nominated != pod.nominated_node
    moved |= last is not None and decision.nominated != last.nominated
    if same and not moved:
        return None
    status: dict[str, object] = {
        "conditions": [condition(names.POD_SCHEDULED, False, decision.reason, decision.message, now, old)]
    }
    if moved:
        status["nominatedNodeName"] = decision.nominated or None
    return Patch(
        PODS,
        pod.namespace,
        pod.name,
        {"status": status},
        patch_type="strategic",
        subresource="status",
        uid=pod.uid,
    )
