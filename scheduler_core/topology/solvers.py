"""The built-in solvers; asks a solver and uses its answer only if it keeps every rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scheduler_core.topology.exact.solver import solve
from scheduler_core.topology.exact.tables import OutOfBudget
from scheduler_core.topology.greedy import Greedy
from scheduler_core.topology.question import Question, Solver, fault


class Exact:
    """The optimum of the whole objective, see `scheduler_core.topology.exact.solver`."""

    name = "exact"

    def solve(self, question: Question, expired: Callable[[], bool]) -> NDArray[np.int64] | None:
        """The best placement; None only if there is no placement. Raises OutOfBudget."""
        return solve(question.problem, expired)


# Characters of an exception that are reported.
MOST_WORDS: Final = 300
EXACT: Final = Exact()
SOLVERS: Final[Mapping[str, Solver]] = {solver.name: solver for solver in (EXACT, Greedy())}


class BrokenSolver(Exception):
    """A solver that raises, or whose answer breaks a rule; the text says which solver and what it did."""


def ask(solver: Solver, question: Question, expired: Callable[[], bool]) -> NDArray[np.int64] | None:
    """The answer of a solver, int64 [leaves], or None. Raises BrokenSolver and OutOfBudget."""
    try:
        answer = solver.solve(question, expired)
        if answer is None:
            return None
        added = np.array(answer)  # what is checked is what is used
    except (MemoryError, OutOfBudget):
        raise
    except Exception as error:
        raise BrokenSolver(f"solver {solver.name} failed: {_words(error)}") from error
    problem = fault(question, added)
    if problem:
        raise BrokenSolver(f"the answer of solver {solver.name} is not used: {problem}")
    return added.astype(np.int64)


def _words(error: Exception) -> str:
    """A short text of an exception, even if its repr fails: the text goes to events and ConfigMaps."""
    try:
        text = repr(error)
    except MemoryError:
        raise
    except Exception:
        text = type(error).__name__
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}..."
