"""What is written of pods that found no node: their condition, and the node that is nominated for them."""

from __future__ import annotations

import re
from collections import OrderedDict
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple

from scheduler_core.engine.decisions import Noticed, Rejected
from scheduler_core.model import names
from scheduler_core.model.conditions import condition
from scheduler_core.model.kinds import PODS
from scheduler_core.model.pod import Pod
from scheduler_core.model.writes import Patch

# Pods and groups of which is remembered what was said last.
_MOST: Final = 10_000
_FIGURE: Final = re.compile(r"[0-9]+")


class Said(NamedTuple):
    """Why a pod waits, and for which node, if for one."""

    reason: str
    message: str
    nominated: str = ""


class News(IntEnum):
    """What there is to say: nothing, the same with other figures, another reason, or another node."""

    NONE = 0
    FIGURES = 1
    REASON = 2
    NODE = 3


@lru_cache(2048)
def shape(message: str) -> str:
    """A message without its figures: what it says, however much there is of it."""
    return _FIGURE.sub("#", message)


def shown(pod: Pod) -> Said:
    """What a pod says in the form that is known of it, empty if nothing."""
    said = pod.scheduled_condition
    if said is None or said.status != "False":
        return Said("", "", pod.nominated_node)
    return Said(said.reason, said.message, pod.nominated_node)


class Rejections:
    """Remembers what was written last of pods and groups: what the watch knows of them may be older."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, Said] = OrderedDict()

    def news(self, pod: Pod, said: Said) -> News:
        """What of it the pod does not say yet, or not for sure."""
        last = self._last.get(pod.uid)
        found = _news(shown(pod), said)
        return found if last is None else max(found, _news(last, said))

    def patch(self, pod: Pod, said: Said, now: float) -> Patch | None:
        """What to write of a pod now; None if it says so already."""
        found = rejection_patch(pod, said, now, self._last.get(pod.uid))
        self._remember(pod.uid, said)
        return found

    def stands(self, uid: str, said: Said) -> bool:
        """Whether that was written last."""
        return self._last.get(uid) == said

    def noticed(self, decision: Noticed) -> None:
        """An event says this of an object."""
        self._remember(decision.uid, Said(decision.reason, decision.message))

    def is_news(self, decision: Rejected | Noticed) -> bool:
        """Whether something else, or nothing, was said of the object before."""
        if isinstance(decision, Noticed):
            return self._last.get(decision.uid) != Said(decision.reason, decision.message)
        last = self._last.get(decision.pod.uid) or shown(decision.pod)
        return last != Said(decision.reason, decision.message, decision.nominated)

    def _remember(self, uid: str, said: Said) -> None:
        self._last[uid] = said
        self._last.move_to_end(uid)
        if len(self._last) > _MOST:
            self._last.popitem(last=False)


def _news(old: Said, new: Said) -> News:
    if old.nominated != new.nominated:
        return News.NODE
    if old.reason != new.reason:
        return News.REASON
    if old.message == new.message:
        return News.NONE
    return News.FIGURES if shape(old.message) == shape(new.message) else News.REASON


def rejection_patch(pod: Pod, said: Said, now: float, last: Said | None = None) -> Patch | None:
    """PodScheduled=False and the nominated node, or None if the pod says so already.

    `last` is what was said of the pod before: the pod may not show it yet.
    """
    before = shown(pod)
    if said == before and (last is None or last == said):
        return None
    old = pod.scheduled_condition
    status: dict[str, object] = {
        "conditions": [condition(names.POD_SCHEDULED, False, said.reason, said.message, now, old)]
    }
    if said.nominated != before.nominated or (last is not None and said.nominated != last.nominated):
        status["nominatedNodeName"] = said.nominated or None
    return Patch(
        PODS,
        pod.namespace,
        pod.name,
        {"status": status},
        patch_type="strategic",
        subresource="status",
        uid=pod.uid,
    )
