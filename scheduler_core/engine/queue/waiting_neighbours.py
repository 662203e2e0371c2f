"""The waiting classes with rules about other pods, found by the namespace and labels of such a pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from scheduler_core.framework.queueing.hints import Neighbour
from scheduler_core.framework.queueing.neighbour_terms import NeighbourTerm
from scheduler_core.state.neighbours.selector_index import SelectorIndex

# A term of a class: the row of the class, and the number of the term.
Filed = tuple[int, int]


class WaitingNeighbours:
    """Rows of classes by their terms. `None` holds terms about pods of any namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str | None, SelectorIndex[Filed]] = {}
        self._filed: dict[int, list[tuple[str | None, Filed]]] = {}

    def add(self, row: int, terms: Iterable[NeighbourTerm]) -> None:
        """File the terms of a class; a class is filed once."""
        filed: list[tuple[str | None, Filed]] = []
        selecting = (term for term in terms if not term.selector.nothing)
        for number, term in enumerate(selecting):
            for namespace in (None,) if term.namespaces is None else term.namespaces:
                index = self._by_namespace.setdefault(namespace, SelectorIndex())
                index.add((row, number), term.selector)
                filed.append((namespace, (row, number)))
        if filed:
            self._filed[row] = filed

    def remove(self, row: int) -> None:
        """Take a class out, filed or not."""
        for namespace, item in self._filed.pop(row, ()):
            index = self._by_namespace[namespace]
            index.remove(item)
            if not len(index):
                del self._by_namespace[namespace]

    def about(self, neighbour: Neighbour) -> Iterator[int]:
        """Rows of the classes with a term that may select a pod, some of them several times."""
        for namespace in (neighbour.namespace, None):
            index = self._by_namespace.get(namespace)
            if index is not None:
                yield from (row for row, _ in index.candidates(neighbour.labels))
