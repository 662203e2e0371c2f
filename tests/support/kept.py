"""How much an object keeps: for tests that what is gone is forgotten, whatever the attributes are named."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import MethodType
from typing import Final

COLLECTIONS: Final = (dict, list, set, frozenset, deque)
OURS: Final = ("scheduler_core", "webhook", "kubectl_plugin", "sandbox", "tests")


def entries(root: object, *, without: object = None) -> int:
    """The entries of all collections that are reached from `root`, except through `without`."""
    return sum(len(item) for item in reached(root, without=without) if isinstance(item, COLLECTIONS))


def reached(root: object, *, without: object = None) -> Iterator[object]:
    """Each object that is reached through attributes, collections and bound methods, once."""
    seen, waiting = {id(without)}, [root]
    while waiting:
        item = waiting.pop()
        if id(item) not in seen:
            seen.add(id(item))
            yield item
            waiting.extend(_parts(item))


def _parts(item: object) -> Iterator[object]:
    if isinstance(item, dict):
        yield from item.keys()
        yield from item.values()
    elif isinstance(item, (*COLLECTIONS, tuple)):
        yield from item  # type: ignore[misc]
    elif isinstance(item, MethodType):
        yield item.__self__
    elif not isinstance(item, type) and type(item).__module__.partition(".")[0] in OURS:
        yield from getattr(item, "__dict__", {}).values()
        for kind in type(item).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            yield from (getattr(item, name, None) for name in ([slots] if isinstance(slots, str) else slots))
