"""What kube-scheduler tells in its log: scores of plugins at level 10, bindings and evictions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

_PAIR: Final = re.compile(r'(\w+)="?([^\s"]*)')
_SCORED: Final = '"Plugin scored node for pod"'
_BOUND: Final = '"Successfully bound pod to node"'
_EVICTED: Final = '"Preemptor Pod preempted victim Pod"'


@dataclass(slots=True)
class Told:
    """What the log says of one pod. `feasible` is the number of nodes that passed, once the pod is bound."""

    scores: dict[str, dict[str, int]] = field(default_factory=dict)
    feasible: int | None = None
    victims: set[str] = field(default_factory=set)


def told(lines: Iterable[str], pod: str) -> Told:
    """What the lines say of a pod (namespace/name); of several attempts the last."""
    found = Told()
    for line in lines:
        if _SCORED in line:
            pairs = _pairs(line)
            if pairs["pod"] == pod:
                found.scores.setdefault(pairs["plugin"], {})[pairs["node"]] = int(pairs["score"])
        elif _BOUND in line:
            pairs = _pairs(line)
            if pairs["pod"] == pod:
                found.feasible = int(pairs["feasibleNodes"])
        elif _EVICTED in line:
            pairs = _pairs(line)
            if pairs["preemptor"] == pod:
                found.victims.add(pairs["victim"])
    return found


def _pairs(line: str) -> dict[str, str]:
    return dict(_PAIR.findall(line))
