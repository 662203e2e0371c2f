"""What became of the pods of a load: bound, waiting and why, and how long it took. Pure."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sandbox.nodes.pod_status import FINISHED
from sandbox.objects import Obj, at

_SHOWN_REASONS = 3
_REASON_WIDTH = 100
# Numbers and quantities.
_NUMBER = re.compile(r"\d+(\.\d+)?([mkMGTP]i?)?\b")


@dataclass
class PodWaits:
    """Pods by name, as a watch shows them; times are seconds of one clock."""

    first_seen: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)

    def see(self, key: str, pod: Obj, now: float) -> None:
        """Take in the current state of a pod."""
        self.first_seen.setdefault(key, now)
        if at(pod, "spec", "nodeName") or at(pod, "status", "phase") in FINISHED:
            self.bound.setdefault(key, now)
            self.reasons.pop(key, None)
        else:
            self.reasons[key] = _reason(pod)

    def gone(self, key: str) -> None:
        """A pod was deleted."""
        self.reasons.pop(key, None)

    @property
    def unseen_by_scheduler(self) -> int:
        """Pods that wait without a reason: the scheduler has not looked at them."""
        return sum(not reason for reason in self.reasons.values())

    def summary(self, created: int, refusals: Sequence[str]) -> list[str]:
        """The lines at the end of a load; `refusals` are the errors of requests."""
        waits = sorted(self.bound[key] - self.first_seen[key] for key in self.bound)
        lines = [f"created {created} pods; bound {len(self.bound)}, waiting {len(self.reasons)}"]
        if waits:
            lines.append(
                f"wait for a node: p50 {percentile(waits, 50):.2f} s, p99 {percentile(waits, 99):.2f} s"
            )
        lines += [f"waiting {count}: {why}" for why, count in _most(self.reasons.values())]
        lines += [f"refused {count}: {why}" for why, count in _most(refusals)]
        return lines


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _most(texts: Any) -> list[tuple[str, int]]:
    counted = Counter(text or "no scheduler has looked at the pod yet" for text in texts)
    return counted.most_common(_SHOWN_REASONS)


def _reason(pod: Obj) -> str:
    for condition in at(pod, "status", "conditions") or ():
        if condition.get("type") == "PodScheduled":
            text = " ".join(str(condition.get("message") or condition.get("reason") or "").split())
            return _in_short(text)
    return ""


def _in_short(text: str) -> str:
    """The first sentence with N for numbers, so that equal reasons of many pods are counted together."""
    short = _NUMBER.sub("N", text.split(". ")[0].rstrip("."))
    return short if len(short) <= _REASON_WIDTH else f"{short[: _REASON_WIDTH - 3]}..."
