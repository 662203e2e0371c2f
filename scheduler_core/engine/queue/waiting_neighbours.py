"""The waiting classes with rules about other pods, found by the namespace and labels of such a pod."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scheduler_core.framework.queueing.hints import Neighbour
from scheduler_core.framework.queueing.neighbour_terms import NeighbourTerm
from scheduler_core.state.neighbours.selector_index import NamespacedIndex


class WaitingNeighbours:
    """Rows of classes by their terms, each of which is filed under (row, number of the term)."""

    def __init__(self) -> None:
        self._terms: NamespacedIndex[tuple[int, int]] = NamespacedIndex()
        self._filed: dict[int, int] = {}

    def add(self, row: int, terms: Sequence[NeighbourTerm]) -> None:
        """File the terms of a class; a class is filed once."""
        if terms:
            self._filed[row] = len(terms)
        for number, term in enumerate(terms):
            self._terms.add((row, number), term.namespaces, term.selector)

    def remove(self, row: int) -> None:
        """Take a class out, filed or not."""
        for number in range(self._filed.pop(row, 0)):
            self._terms.remove((row, number))

    def about(self, neighbour: Neighbour) -> Iterable[int]:
        """Rows of the classes with a term that may select a pod, each once."""
        terms = self._terms.candidates(neighbour.namespace, neighbour.labels)
        return dict.fromkeys(row for row, _ in terms)
