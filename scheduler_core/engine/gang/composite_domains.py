"""The nodes that are open to each pod of a tree of groups while a search with backtracking places its pods.

All pods of a group with a topology key are in one domain: the first pod that takes a node chooses it, unless
pods hold nodes already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from scheduler_core.arrays.types import Bool, Int64


class GroupDomain(msgspec.Struct):
    """A group with a topology key: `ids` int64 [N] are the domains of the nodes, negative for none.

    `open`: bool [N], nodes of domains that may have room for it. `held`: so many pods of the search are in
    its domain.
    """

    ids: Int64
    open: Bool
    domain: int = -1
    held: int = 0


class TreeDomains:
    """Of each PodGroup (by key) the groups at and above it that have a topology key."""

    def __init__(self, groups: Mapping[str, Sequence[GroupDomain]]) -> None:
        self._groups = groups

    def open_to(self, leaf: str) -> Bool | None:
        """The nodes that a pod of a PodGroup may take now, bool [N]; None for all."""
        found: Bool | None = None
        for group in self._groups.get(leaf, ()):
            own = group.ids == group.domain if group.held else group.open
            found = own if found is None else found & own
        return found

    def took(self, leaf: str, slot: int) -> None:
        """A pod of a PodGroup took a node."""
        for group in self._groups.get(leaf, ()):
            group.domain = int(group.ids[slot])
            group.held += 1

    def left(self, leaf: str) -> None:
        """The last pod that took a node left it again."""
        for group in self._groups.get(leaf, ()):
            group.held -= 1
