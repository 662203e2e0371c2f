"""Rooms of the product, the places in them where a fault can stand, and fair samples of these places."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.tools.mutants_faults import Fault, faults

ROOT = Path(__file__).parents[2]
# The sandbox is a tool: it is judged by the suites of Kubernetes.
PACKAGES = ("scheduler_core", "webhook", "kubectl_plugin")
# A room, and where its modules are. A module belongs to the longest prefix of its path.
ROOMS: dict[str, tuple[str, ...]] = {
    "answers": ("scheduler_core/answers/",),
    "app": ("scheduler_core/app/",),
    "config": ("scheduler_core/config/",),
    "console": ("kubectl_plugin/console/",),
    "controllers": ("scheduler_core/controllers/",),
    "engine": ("scheduler_core/engine/",),
    "framework": ("scheduler_core/framework/",),
    "kube": ("scheduler_core/kube/",),
    "kubectl_plugin": ("kubectl_plugin/",),
    "model": ("scheduler_core/model/",),
    "plugins": ("scheduler_core/plugins/",),
    "preemption": ("scheduler_core/framework/preemption/", "scheduler_core/framework/nominations/"),
    "quota": ("scheduler_core/quota/",),
    "simulate": ("scheduler_core/simulate/",),
    "state": ("scheduler_core/state/",),
    "topology": ("scheduler_core/topology/",),
    "webhook": ("webhook/",),
    # Small rooms: each alone has too few faults for a share.
    "base": ("scheduler_core/",),
}


@dataclass(frozen=True)
class Place:
    """A fault of one module, `path` relative to the repository."""

    room: str
    path: str
    fault: Fault

    def __str__(self) -> str:
        fault = self.fault
        return f"{self.path}:{fault.first}  {fault.kind}:  {fault.before}  ->  {fault.after}"


def room_of(path: str) -> str | None:
    """The room of a module, by its path; None for what is no module of the product."""
    prefixes = {prefix: room for room, places in ROOMS.items() for prefix in places}
    return next((prefixes[p] for p in sorted(prefixes, key=len, reverse=True) if path.startswith(p)), None)


@cache
def modules() -> dict[str, list[str]]:
    """By room, the paths of its modules, at any depth."""
    rooms: dict[str, list[str]] = {room: [] for room in ROOMS}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            room = room_of(name)
            assert room is not None, f"{name} is in no room"
            rooms[room].append(name)
    return rooms


def places(room: str, module: str = "") -> list[Place]:
    """Every fault that can be set into a room, or into those of its modules whose path ends in `module`."""
    return [
        Place(room, path, fault)
        for path in modules()[room]
        if f"/{path}".endswith(f"/{module}" if module else "")
        for fault in faults((ROOT / path).read_text())
    ]


def shares(count: int, sizes: Mapping[str, int]) -> dict[str, int]:
    """How many of `count` faults each room gets: half of them in equal parts, half by its size.

    So a small room has enough for a share, and a large one counts for more.
    """
    count = min(count, sum(sizes.values()))
    total = sum(sizes.values()) or 1
    exact = {room: count / 2 / len(sizes) + count / 2 * size / total for room, size in sizes.items()}
    parts = {room: min(int(exact[room]), size) for room, size in sizes.items()}
    while sum(parts.values()) < count:
        room = max((r for r in sizes if parts[r] < sizes[r]), key=lambda r: exact[r] - parts[r])
        parts[room] += 1
    return parts


def sample(rooms: Sequence[str], count: int, seed: int, module: str = "") -> list[Place]:
    """`count` faults of these rooms, or all of them for 0; the same for the same seed and sources."""
    every = {room: places(room, module) for room in rooms}
    parts = shares(count, {room: len(found) for room, found in every.items()})
    drawn: list[Place] = []
    for room, found in every.items():
        chosen = random.Random(f"{seed} {room}").sample(found, parts[room]) if count else found
        drawn += sorted(chosen, key=lambda place: (place.path, place.fault.index))
    return drawn
