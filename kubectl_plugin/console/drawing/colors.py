"""The colours of quotas: the same on every page and after every restart, and different for each."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable
from typing import Final

# Classes q0 ... q9 of the style sheet: hues that people with colour vision deficiency tell apart.
COLORS: Final = 10
# More quotas than colours share them, and differ by the classes m1 ... m3: the shape of the dot, the outline.
MARKS: Final = 4
# The class of a namespace without a quota: grey.
UNOWNED: Final = "unowned"


class QuotaColors:
    """The class of each namespace that has a quota, given by the set of these namespaces alone.

    The hash of its name chooses a colour. Where names collide, the first by name has it, and the others take
    the next free ones: so, most quotas keep their colour when others come and go.
    """

    def __init__(self, namespaces: Iterable[str]) -> None:
        self._classes: dict[str, str] = {}
        waiting = sorted(set(namespaces))
        for turn in itertools.count():
            if not waiting:
                break
            mark = f" m{turn % MARKS}" if turn % MARKS else ""
            chosen = _one_each(waiting)
            self._classes |= {name: f"q{color}{mark}" for name, color in chosen.items()}
            waiting = [name for name in waiting if name not in chosen]

    def of(self, namespace: str) -> str:
        """The class of a namespace."""
        return self._classes.get(namespace, UNOWNED)


def _one_each(names: Iterable[str]) -> dict[str, int]:
    """A colour for each of the names, as long as there are free ones."""
    owners: dict[int, str] = {}
    later = [name for name in names if owners.setdefault(_wanted(name), name) != name]
    for name in later[: COLORS - len(owners)]:
        near = ((_wanted(name) + step) % COLORS for step in range(COLORS))
        owners[next(color for color in near if color not in owners)] = name
    return {name: color for color, name in owners.items()}


def _wanted(name: str) -> int:
    return zlib.crc32(name.encode()) % COLORS
