"""Index of selectors by the labels they require, to find those that may match a pod."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Final, Generic, TypeVar

from scheduler_core.model.selectors import IN, Selector

T = TypeVar("T", bound=Hashable)
Pair = tuple[str, str]
# An item about more namespaces is filed once, for all of them.
_MOST_NAMESPACES: Final = 16


class SelectorIndex(Generic[T]):
    """Items with a selector, filed under one label pair that a pod must have to match.

    Selectors without an `In` requirement are tried for every pod; those that match nothing are not kept.
    """

    def __init__(self) -> None:
        self._by_pair: dict[Pair, dict[T, None]] = {}
        self._rest: dict[T, None] = {}
        self._filed: dict[T, tuple[Pair, ...]] = {}

    def add(self, item: T, selector: Selector) -> None:
        """File an item; an item is filed once."""
        if selector.nothing:
            return
        alternatives = [
            tuple((r.key, value) for value in dict.fromkeys(r.values))
            for r in selector.requirements
            if r.operator == IN
        ]
        # The requirement whose pairs have the fewest items keeps every list short.
        pairs = min(alternatives, key=self._load, default=())
        self._filed[item] = pairs
        for pair in pairs:
            self._by_pair.setdefault(pair, {})[item] = None
        if not pairs:
            self._rest[item] = None

    def _load(self, pairs: tuple[Pair, ...]) -> int:
        return sum(len(self._by_pair.get(pair, ())) for pair in pairs)

    def remove(self, item: T) -> None:
        """Take an item out, filed or not."""
        self._rest.pop(item, None)
        for pair in self._filed.pop(item, ()):
            bucket = self._by_pair[pair]
            del bucket[item]
            if not bucket:
                del self._by_pair[pair]

    def candidates(self, labels: Mapping[str, str]) -> Iterator[T]:
        """Items that may match the labels, each once. All that do match are among them."""
        if self._by_pair:
            for pair in labels.items():
                yield from self._by_pair.get(pair, ())
        yield from self._rest

    def __len__(self) -> int:
        return len(self._filed)


class NamespacedIndex(Generic[T]):
    """The same for selectors of pods in some namespaces: what is about these costs pods of others nothing.

    Items about any namespace, or about many, are tried for the pods of all.
    """

    def __init__(self) -> None:
        self._by_namespace: dict[str, SelectorIndex[T]] = {}
        self._anywhere: SelectorIndex[T] = SelectorIndex()
        self._filed: dict[T, tuple[str, ...] | None] = {}

    def add(self, item: T, namespaces: Collection[str] | None, selector: Selector) -> None:
        """File an item about pods of these namespaces, None for any; an item is filed once."""
        if selector.nothing:
            return
        if namespaces is None or len(namespaces) > _MOST_NAMESPACES:
            self._filed[item] = None
            self._anywhere.add(item, selector)
            return
        self._filed[item] = names = tuple(dict.fromkeys(namespaces))
        for name in names:
            self._by_namespace.setdefault(name, SelectorIndex()).add(item, selector)

    def remove(self, item: T) -> None:
        """Take an item out, filed or not."""
        names = self._filed.pop(item, ())
        if names is None:
            self._anywhere.remove(item)
            return
        for name in names:
            index = self._by_namespace[name]
            index.remove(item)
            if not len(index):
                del self._by_namespace[name]

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Items that may select a pod, each once. All that do are among them."""
        own = self._by_namespace.get(namespace)
        if own is not None:
            yield from own.candidates(labels)
        yield from self._anywhere.candidates(labels)

    def __len__(self) -> int:
        return len(self._filed)
