"""Asks in bulk: so many random questions of each subject, answered by packages of one minor version."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from tests.beside.packages import configurations, pods, quantities, quotas, rules
from tests.beside.packages.difference import Difference
from tests.beside.packages.go_program import answers

CHUNK: Final = 5_000


@dataclass(frozen=True, slots=True)
class Subject:
    """Makes questions and compares the answers of a minor version; `share` of all questions are its."""

    name: str
    share: float
    question: Callable[[random.Random], Any]
    compare: Callable[[Any, dict[str, Any], str], list[Difference]]


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


def differences(subject: Subject, minor: str, count: int, seed: int) -> Iterator[Difference]:
    """What differs, of `count` questions that the seed names."""
    for first in range(0, count, CHUNK):
        dice = random.Random(f"{subject.name} {seed} {first}")
        questions = [subject.question(dice) for _ in range(min(CHUNK, count - first))]
        found = answers(minor, subject.name, questions)
        for question, answer in zip(questions, found, strict=True):
            yield from subject.compare(question, answer, minor)
