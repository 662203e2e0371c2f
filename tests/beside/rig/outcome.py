"""What a scheduler decided about one pod, and how two of them differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# Scores by plugin and node, weighted.
Scores = Mapping[str, Mapping[str, int]]

_AVAILABLE: Final = re.compile(r"^0/\d+ nodes are available: ?")
_COUNTED: Final = re.compile(r"(\d+) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One decision.

    `node`: where the pod runs; empty: it waits. `feasible`: the nodes that pass all filters; `None` where the
    program does not say. `reasons` and `preemption`: counts by text, 0 for a text without a count. `victims`: the
    pods that are evicted, each as namespace/name.
    """

    node: str = ""
    nominated: str = ""
    feasible: frozenset[str] | None = None
    scores: Scores = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    preemption: Mapping[str, int] = field(default_factory=dict)
    victims: frozenset[str] = frozenset()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that differs: its kind (`verdict`, `scores of NAME`, ...), theirs and ours."""

    kind: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.theirs} beside {self.ours}"


def counted(message: str) -> tuple[dict[str, int], dict[str, int]]:
    """The reasons of a message and those of its part on preemption, with counts."""
    first, _, preemption = message.partition(" preemption: ")
    return _counts(first), _counts(preemption)


def _counts(text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    text = _AVAILABLE.sub("", text.strip()).rstrip(".")
    for part in re.split(r", (?=\d+ )", text) if text else ():
        number = _COUNTED.fullmatch(part)
        reason, count = (number[2], int(number[1])) if number else (part, 0)
        found[reason] = found.get(reason, 0) + count
    return found


def differences(theirs: Outcome, ours: Outcome) -> list[Finding]:
    """All that differs between two decisions about one pod."""
    if bool(theirs.node) != bool(ours.node):
        return [Finding("verdict", _verdict(theirs), _verdict(ours))]
    return _of_placed(theirs, ours) if theirs.node else _of_waiting(theirs, ours)


def _verdict(outcome: Outcome) -> str:
    if outcome.node:
        return f"runs on {outcome.node}"
    return f"waits ({outcome.message})"


def _of_placed(theirs: Outcome, ours: Outcome) -> list[Finding]:
    if theirs.feasible is not None and theirs.feasible != ours.feasible:
        return [Finding("feasible nodes", _names(theirs.feasible), _names(ours.feasible or frozenset()))]
    found = []
    for plugin in sorted({*theirs.scores, *ours.scores} if theirs.scores else ()):
        a, b = (_scores(outcome, plugin) for outcome in (theirs, ours))
        if a != b:
            found.append(Finding(f"scores of {plugin}", str(a), str(b)))
    best = _best(theirs)
    if not found and ours.node not in best:
        found.append(Finding("node", _names(best), ours.node))
    return found


def _scores(outcome: Outcome, plugin: str) -> dict[str, int]:
    """By node; a plugin that skips a pod gives 0."""
    given = outcome.scores.get(plugin, {})
    return {node: given.get(node, 0) for node in sorted(outcome.feasible or ())}


def _best(outcome: Outcome) -> frozenset[str]:
    if not outcome.scores or not outcome.feasible:
        return frozenset({outcome.node})
    totals = {node: sum(by.get(node, 0) for by in outcome.scores.values()) for node in outcome.feasible}
    most = max(totals.values())
    return frozenset(node for node, total in totals.items() if total == most)


def _of_waiting(theirs: Outcome, ours: Outcome) -> list[Finding]:
    found = []
    if theirs.victims != ours.victims:
        found.append(Finding("victims", _chosen(theirs), _chosen(ours)))
    elif theirs.nominated != ours.nominated:
        found.append(Finding("nominated node", theirs.nominated or "none", ours.nominated or "none"))
    if theirs.reasons != ours.reasons:
        found.append(Finding("reasons", _reasons(theirs.reasons), _reasons(ours.reasons)))
    if not theirs.nominated and not ours.nominated and theirs.preemption != ours.preemption:
        found.append(Finding("preemption", _reasons(theirs.preemption), _reasons(ours.preemption)))
    return found


def _chosen(outcome: Outcome) -> str:
    return f"{_names(outcome.victims)} for {outcome.nominated}" if outcome.victims else "none"


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _reasons(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{count} {text}" for text, count in sorted(counts.items())) or "none"
