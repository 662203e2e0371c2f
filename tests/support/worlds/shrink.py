"""Making a failing world small: the fewest steps, objects and fields with which the same check fails."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any, Final

import yaml

from scheduler_core.errors import MusterError
from tests.support.worlds.player import World, play

# Plays of one world at most; shrinking ends there, however small the world is.
MAX_PLAYS: Final = 1500
_PARTS: Final = ("delete", "patch", "create")
# Fields without which an object would be another kind of thing.
_KEPT: Final = frozenset(
    [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "spec",
        "status",
        "containers",
        "image",
        "schedulerName",
        "pods",
        "key",
        "whenUnsatisfiable",
        "kubernetes.io/hostname",
        "capacity",
        "allocatable",
        "resources",
        "requests",
    ]
)
# Kinds that mean something else when a field is missing.
_WHOLE: Final = ("PersistentVolume", "PersistentVolumeClaim", "StorageClass")


def failing_checks(world: World) -> set[str]:
    """The checks that fail when the world is played."""
    return {item.check for item in play(copy.deepcopy(world)).findings}


class Shrinker:
    """`failing(world)` says whether a smaller world still shows the same; `plays`: so often at most."""

    def __init__(self, failing: Callable[[World], bool], plays: int = MAX_PLAYS) -> None:
        self._failing = failing
        self._most = plays
        self._plays = 0

    def shrink(self, world: World) -> World:
        """The smallest world that was found."""
        world = copy.deepcopy(world)
        while True:
            before = _size(world)
            for candidates in (_fewer_steps, _fewer_objects, _merged_steps, _plainer, _fewer_fields):
                world = self._reduce(world, candidates)
            if _size(world) >= before or self._plays >= self._most:
                return world

    def _reduce(self, world: World, candidates: Callable[[World], Iterator[World]]) -> World:
        """Take the first candidate that still fails, again and again."""
        done = False
        start = 0
        while not done:
            done = True
            for number, candidate in enumerate(candidates(world)):
                if number < start:
                    continue
                if self._plays >= self._most:
                    return world
                self._plays += 1
                if self._failing(candidate):
                    # What was tried before this one did not help; go on from here.
                    world, done, start = candidate, False, max(0, number - 1)
                    break
            else:
                done = start == 0
                start = 0
        return world


def _size(world: World) -> int:
    return len(yaml.safe_dump([world["objects"], world["steps"], world["grace"], world["topology"]]))


def _changed(world: World, change: Callable[[World], Any]) -> World:
    other = copy.deepcopy(world)
    change(other)
    return other


def _fewer_steps(world: World) -> Iterator[World]:
    steps = world["steps"]
    for size in (len(steps) // 2, len(steps) // 4, 1):
        for start in range(0, len(steps), size) if size else ():
            yield {**world, "steps": steps[:start] + steps[start + size :]}


def _fewer_objects(world: World) -> Iterator[World]:
    objects = world["objects"]
    for size in (4, 1):
        for start in range(0, len(objects), size):
            yield {**world, "objects": objects[:start] + objects[start + size :]}
    for i, step in enumerate(world["steps"]):
        for part in _PARTS:
            for j in range(len(step.get(part, ()))):
                yield _without(world, ("steps", i, part, j))
        if step.get("advance"):
            yield _without(world, ("steps", i, "advance"))


def _merged_steps(world: World) -> Iterator[World]:
    """What a step creates is there from the start, or one step earlier."""
    for i, step in enumerate(world["steps"]):
        if not step.get("create"):
            continue

        def to_start(other: World, i: int = i) -> None:
            other["objects"] += other["steps"][i].pop("create")

        def earlier(other: World, i: int = i) -> None:
            made = other["steps"][i].pop("create")
            other["steps"][i - 1].setdefault("create", []).extend(made)

        yield _changed(world, to_start)
        if i:
            yield _changed(world, earlier)


def _plainer(world: World) -> Iterator[World]:
    """Evicted pods gone at once. What a group is depends on `topology`, so that stays."""
    if world["grace"]:
        yield {**world, "grace": False}


def _fewer_fields(world: World) -> Iterator[World]:
    """Every field of every object left out once; numbers of priority and requests made small."""
    for path in list(_paths(world["objects"], ("objects",))):
        yield _without(world, path)
    for i, step in enumerate(world["steps"]):
        for path in list(_paths(step.get("create", []), ("steps", i, "create"))):
            yield _without(world, path)


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, dict) and value.get("kind") in _WHOLE:
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            if name not in _KEPT:
                yield (*path, name)
            yield from _paths(inner, (*path, name))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _paths(inner, (*path, i))


def _without(world: World, path: tuple[Any, ...]) -> World:
    def change(other: World) -> None:
        inner: Any = other
        for name in path[:-1]:
            inner = inner[name]
        del inner[path[-1]]

    return _changed(world, change)


def shrunk(world: World, check: str) -> World:
    """The world made small. Nothing else may fail in it that did not before, so that it shows the same."""
    before = failing_checks(world)

    def failing(candidate: World) -> bool:
        try:
            return check in (found := failing_checks(candidate)) and found <= before
        except (KeyError, TypeError, ValueError, MusterError):
            # No smaller form of the world: the player itself stumbles over it.
            return False

    return Shrinker(failing).shrink(world)
