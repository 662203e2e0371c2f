"""Namespaces take turns where little is done at a time: nobody waits for who has much to be done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


def in_turns(items: Iterable[T], namespace: Callable[[T], str]) -> list[T]:
    """The first of every namespace, then the second of each, and so on; within a namespace as they come."""
    seen: Counter[str] = Counter()
    placed = []
    for item in items:
        name = namespace(item)
        seen[name] += 1
        placed.append((seen[name], item))
    return [item for _, item in sorted(placed, key=lambda one: one[0])]
