"""What is written of pods that found no node: their condition, and the node that is nominated for them."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from scheduler_core.engine.decisions import Noticed, Rejected
from scheduler_core.model import names
from scheduler_core.model.conditions import condition
from scheduler_core.model.kinds import PODS
from scheduler_core.model.writes import Patch

# Pods and groups of which is remembered what was said last.
_MOST: Final = 10_000


class Rejections:
    """Remembers what was said last of pods and groups: what the watch knows of them may be older."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Rejected | Noticed] = OrderedDict()

    def patch(self, decision: Rejected, now: float) -> Patch | None:
        """What to write of a pod now; None if it says so already."""
        last = self._last.get(decision.pod.uid)
        found = rejection_patch(decision, now, last if isinstance(last, Rejected) else None)
        self._remember(decision.pod.uid, decision)
        return found

    def noticed(self, decision: Noticed) -> None:
        """An event says this of an object."""
        self._remember(decision.uid, decision)

    def is_news(self, decision: Rejected | Noticed) -> bool:
        """Whether something else, or nothing, was said of the object before."""
        uid = decision.uid if isinstance(decision, Noticed) else decision.pod.uid
        last = self._last.get(uid)
        if last is None or (last.reason, last.message) != (decision.reason, decision.message):
            return True
        return (
            isinstance(decision, Rejected)
            and isinstance(last, Rejected)
            and last.nominated != decision.nominated
        )

    def _remember(self, uid: str, decision: Rejected | Noticed) -> None:
        self._last[uid] = decision
        self._last.move_to_end(uid)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)


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
