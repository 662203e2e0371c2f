"""Worlds: a cluster as it is, of which every question gets a copy of its own with some changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

# np.unique imports it when it is called first: once here, instead of once in each process that answers.
import numpy.ma as _  # noqa: F401

from scheduler_core.answers.changes import Changes
from scheduler_core.simulate.world import Simulation

T = TypeVar("T")

# A question is asked of a simulation in which the changes are made, and in which nothing has run yet.
Question = Callable[[Simulation], T]


class World(Protocol):
    """A cluster that answers questions and is not changed by them."""

    @property
    def base(self) -> Simulation:
        """The cluster as it is, before the scheduler runs. To be read only."""
        ...

    def ask(self, changes: Changes, question: Question[T], answer: type[T]) -> T:
        """The answer to a question about the changed cluster; `answer` is its type, a msgspec struct.

        Raises what the changes and the question raise.
        """
        ...


class CopiedWorld:
    """Copies the cluster for each question."""

    def __init__(self, base: Simulation) -> None:
        self._base = base

    @property
    def base(self) -> Simulation:
        """The cluster as it is, before the scheduler runs. To be read only."""
        return self._base

    def ask(self, changes: Changes, question: Question[T], answer: type[T]) -> T:
        """The answer to a question about the changed cluster."""
        twin = self._base.copy(changes.config)
        changes.apply(twin)
        return question(twin)
