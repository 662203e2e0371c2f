"""What a scheduler decided about one pod, and how two of them differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# Scores by plugin and node, weighted.
Scores = Mapping[str, Mapping[str, int]]

_AVAILABLE: Final = re.compile(r"^0/\d+ nodes are available: ?")
_PREEMPTION: Final = re.compile(
    r"\.? (?:no new claims to deallocate, |preemption: |waiting for pods to end |preempting \d+ pods )"
)
_COUNTED: Final = re.compile(r"(\d+) (.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One decision.

    `node`: where the pod runs; empty: it waits. `feasible`: the nodes that pass all filters, of a pod that
    runs. `reasons`: counts by text, 0 for a text without one. `victims`: the pods that are evicted, each as
    namespace/name.
    """

    node: str = ""
    nominated: str = ""
    feasible: frozenset[str] = frozenset()
    scores: Scores = field(default_factory=dict)
    reasons: Mapping[str, int] = field(default_factory=dict)
    victims: frozenset[str] = frozenset()
    message: str = ""


# The kind of a finding about a scheduler that decides nothing.
UNDECIDED: Final = "undecided"


class Undecided(Exception):
    """A scheduler decides nothing in its time, or has ended; the message says about what, or with what."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that differs: its kind (`verdict`, `scores of NAME`, ...), theirs and ours."""

    kind: str
    theirs: str
    ours: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.theirs} beside {self.ours}"


def counted(message: str) -> dict[str, int]:
    """The reasons of a message with their counts, without what it says about preemption."""
    return _counts(_PREEMPTION.split(message)[0].removesuffix(". not found"))


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
        return [Finding("verdict", verdict(theirs), verdict(ours))]
    return _of_placed(theirs, ours) if theirs.node else _of_waiting(theirs, ours)


def same_decision(scored: Outcome, decided: Outcome) -> list[Finding]:
    """What differs, where only the first tells feasible nodes and scores: any of its best nodes is right."""
    if bool(scored.node) != bool(decided.node):
        return [Finding("verdict", verdict(scored), verdict(decided))]
    if not decided.node:
        return _of_waiting(scored, decided)
    best = _best(scored)
    return [] if decided.node in best else [Finding("node", _names(best), decided.node)]


def verdict(outcome: Outcome) -> str:
    """Where the pod runs, or why it waits."""
    if outcome.node:
        return f"runs on {outcome.node}"
    return f"waits ({outcome.message})"


def _of_placed(theirs: Outcome, ours: Outcome) -> list[Finding]:
    if theirs.feasible != ours.feasible:
        return [Finding("feasible nodes", _names(theirs.feasible), _names(ours.feasible))]
    found = []
    for plugin in sorted({*theirs.scores, *ours.scores} if theirs.scores else ()):
        a, b = (_scores(outcome, plugin) for outcome in (theirs, ours))
        if a != b and not (plugin not in ours.scores and len(set(a.values())) == 1):
            found.append(Finding(f"scores of {plugin}", str(a), str(b)))
    best = _best(theirs)
    if not found and ours.node not in best:
        found.append(Finding("node", _names(best), ours.node))
    return found


def _scores(outcome: Outcome, plugin: str) -> dict[str, int]:
    """By node; a plugin that skips a pod gives all nodes the same: 0."""
    given = outcome.scores.get(plugin, {})
    return {node: given.get(node, 0) for node in sorted(outcome.feasible)}


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
    return found


def _chosen(outcome: Outcome) -> str:
    return f"{_names(outcome.victims)} for {outcome.nominated}" if outcome.victims else "none"


def _names(names: frozenset[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _reasons(counts: Mapping[str, int]) -> str:
    return "; ".join(f"{count} {text}" for text, count in sorted(counts.items())) or "none"
