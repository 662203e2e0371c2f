"""The trees of groups: CompositePodGroups with PodGroups as leaves (docs/gangs.md#composite-groups).

The root of a tree is the unit in which the pods below it wait, are tried and start. Nothing is derived in
advance: a tree has few levels, so the root of a group is found by walking up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from scheduler_core.model.groups.composite import (
    Composite,
    composite_key,
    composite_text,
    is_composite_key,
)
from scheduler_core.model.groups.gang import Disruption, Gang

# Levels of a tree at most, that of the PodGroups included (WorkloadMaxTreeDepth of the API).
MOST_LEVELS: Final = 4

Group = Gang | Composite


class TreeFault(msgspec.Struct, frozen=True):
    """Why no group of a tree can start. `awaits`: an object is missing, and its creation may help."""

    text: str
    awaits: bool = False


class GroupForest:
    """Parents and children of groups by key. While it is not `enabled` it is empty: every group is alone.

    A child is known under its parent whether the parent exists or not. `gangs` are all PodGroups by key.
    """

    def __init__(self, gangs: Mapping[str, Gang]) -> None:
        self.enabled = False
        self.composites: dict[str, Composite] = {}
        self._gangs = gangs
        self._parents: dict[str, str] = {}
        self._children: dict[str, set[str]] = {}

    def put(self, group: Group) -> None:
        """A group was added or changed."""
        if not self.enabled:
            return
        if isinstance(group, Composite):
            self.composites[group.key] = group
        self._unlink(group.key)
        if group.parent:
            above = composite_key(_namespace(group), group.parent)
            self._parents[group.key] = above
            self._children.setdefault(above, set()).add(group.key)

    def remove(self, group: Group) -> None:
        """A group is gone; its children wait until it comes again."""
        self.composites.pop(group.key, None)
        self._unlink(group.key)

    def _unlink(self, key: str) -> None:
        above = self._parents.pop(key, None)
        if above is not None:
            children = self._children[above]
            children.discard(key)
            if not children:
                del self._children[above]

    def unit_of(self, key: str) -> str:
        """The key of the unit in which the pods of a group wait: that of the root.

        Groups below a CompositePodGroup that does not exist wait under its key, groups of a cycle under the
        first of its keys.
        """
        if key not in self._parents:
            return key
        path = self._path(key)
        above = self._parents.get(path[-1])
        return path[-1] if above is None else min(path[path.index(above) :])

    def _path(self, key: str) -> list[str]:
        """A group's key and the keys above it, without repetition."""
        path = [key]
        while (above := self._parents.get(path[-1])) is not None and above not in path:
            path.append(above)
        return path

    def above(self, key: str) -> Iterator[Group]:
        """The group and the groups above it, as far as they exist."""
        for found in self._path(key):
            group = self._group(found)
            if group is None:
                return
            yield group

    def _group(self, key: str) -> Group | None:
        return self.composites.get(key) if is_composite_key(key) else self._gangs.get(key)

    def children(self, key: str) -> list[Group]:
        """The child groups, oldest first, those of one age by name."""
        found = [group for child in self._children.get(key, ()) if (group := self._group(child)) is not None]
        return sorted(found, key=_age)

    def leaves(self, key: str) -> list[Gang]:
        """The PodGroups at and below a group, in the order in which they are tried; of a cycle all."""
        found: list[Gang] = []
        seen = {key}
        waiting = [key]
        while waiting:
            at = waiting.pop()
            if not is_composite_key(at):
                if at in self._gangs:
                    found.append(self._gangs[at])
                continue
            below = [child.key for child in self.children(at) if child.key not in seen]
            seen.update(below)
            waiting += reversed(below)
        return found

    def taken_with(self, key: str) -> Group | None:
        """The highest group, at or above a PodGroup, that an eviction takes as a whole; None for none."""
        if key not in self._parents:
            # Asked for every group of the cluster, and most stand alone.
            alone = self._group(key)
            return alone if alone is not None and alone.disruption is Disruption.ALL else None
        whole = [group for group in self.above(key) if group.disruption is Disruption.ALL]
        return whole[-1] if whole else None

    def fault(self, unit: str) -> TreeFault | None:
        """Why the tree under a CompositePodGroup, given by its key, cannot start; None if it can."""
        root = self.composites.get(unit)
        if root is None:
            child = min(self._children.get(unit, ()), default="")
            return TreeFault(
                f"{composite_text(unit)} does not exist; {self._text(child)} names it in "
                "spec.parentCompositePodGroupName and waits until it is created",
                awaits=True,
            )
        if unit in self._parents:
            circle = self._path(unit)
            names = " -> ".join(composite_text(key).split("/")[-1] for key in (*circle, unit))
            return TreeFault(
                f"{root}: spec.parentCompositePodGroupName={root.parent} closes a cycle ({names}); "
                "the groups of a tree have one root: create one of them again without this field"
            )
        paths = [self._path(leaf.key) for leaf in self.leaves(unit)]
        for key in sorted({key for path in paths for key in path[1:]}):
            if problem := self.composites[key].problem:
                return TreeFault(problem)
        deepest = max(paths, key=len, default=[])
        if len(deepest) > MOST_LEVELS:
            leaf = self._gangs[deepest[0]]
            return TreeFault(
                f"{leaf.ref}: spec.parentCompositePodGroupName={leaf.parent} puts it on level {len(deepest)} "
                f"below {root}; a tree of groups has at most {MOST_LEVELS} levels"
            )
        return None

    def _text(self, key: str) -> str:
        group = self._group(key)
        return text_of(group) if group is not None else ""


def text_of(group: Group) -> str:
    """Kind, namespace and name of a group, for messages."""
    return str(group.ref) if isinstance(group, Gang) else str(group)


def _namespace(group: Group) -> str:
    return group.ref.namespace if isinstance(group, Gang) else group.namespace


def _age(group: Group) -> tuple[float, str, str]:
    return group.created, group.ref.name if isinstance(group, Gang) else group.name, group.key
