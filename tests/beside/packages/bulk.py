"""Asks in bulk: so many random questions of each subject, answered by packages of one minor version."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.beside.minors import tool
from tests.beside.packages import (
    claims,
    configurations,
    fair_claims,
    loads,
    pods,
    quantities,
    quotas,
    rules,
)
from tests.beside.packages.difference import Difference
from tests.beside.packages.go_program import answers

CHUNK: Final = 5_000


@dataclass(frozen=True, slots=True)
class Subject:
    """Makes questions and compares the answers of a minor version; `share` of all questions are its.

    `peer` is another program that answers, with the version that it is made of: it has no minor versions.
    """

    name: str
    share: float
    question: Callable[[random.Random], Any]
    compare: Callable[[Any, dict[str, Any], str], list[Difference]]
    peer: tuple[str, str] | None = None

    def program(self, minor: str) -> str:
        """The tool that answers."""
        return tool("kubernetes-packages", minor) if self.peer is None else self.peer[0]

    def whose(self, minor: str) -> str:
        """Whose answers these are."""
        return minor if self.peer is None else self.peer[1]


Compare = Callable[[Any, dict[str, Any]], list[Difference]]


def _alike(compare: Compare) -> Callable[[Any, dict[str, Any], str], list[Difference]]:
    """The same comparison for all minor versions."""
    return lambda question, answer, minor: compare(question, answer)


SUBJECTS: Final = (
    Subject("quantities", 0.3, quantities.question, _alike(quantities.compare)),
    Subject("pods", 0.35, pods.question, pods.compare),
    Subject("quotas", 0.2, quotas.question, quotas.compare),
    Subject("configurations", 0.05, configurations.question, _alike(configurations.compare)),
    Subject("rules", 0.1, rules.question, _alike(rules.compare)),
)
_KUEUE: Final = ("kueue-packages", "Kueue 0.17")
# Programs of other schedulers: large builds, so that only the whole comparison has them.
PEERS: Final = (
    Subject(
        "loads",
        0.1,
        loads.question,
        _alike(loads.compare),
        ("koordinator-packages", "Koordinator 1.8"),
    ),
    Subject("claims", 0.1, claims.question, _alike(claims.compare), _KUEUE),
    Subject("fair claims", 0.04, fair_claims.question, _alike(fair_claims.compare), _KUEUE),
)


def differences(subject: Subject, minor: str, count: int, seed: int) -> Iterator[Difference]:
    """What differs, of `count` questions that the seed names."""
    for first in range(0, count, CHUNK):
        dice = random.Random(f"{subject.name} {seed} {first}")
        questions = [subject.question(dice) for _ in range(min(CHUNK, count - first))]
        found = answers(subject.program(minor), subject.name, questions)
        for question, answer in zip(questions, found, strict=True):
            yield from subject.compare(question, answer, minor)
