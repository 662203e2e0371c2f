"""Random worlds: one integer names a world."""

from __future__ import annotations

import random
from typing import Final

from tests.beside.rig import storage
from tests.beside.rig.shapes import Shapes
from tests.beside.rig.world import Raw, World

# In one of so many worlds Muster's process runs, too: it takes longer to start than all else.
_PROCESSES: Final = 8
_ENDING: Final = "2026-01-01T00:00:30Z"


def world(seed: int) -> World:
    """The world of a seed: one to six nodes, pods that run or are ending, and four that come."""
    dice = random.Random(f"beside {seed}")
    shapes = Shapes(dice, dice.choice((0.0, 0.3, 0.6, 1.0)))
    nodes = [shapes.node(f"n{i}") for i in range(dice.choice((1, 2, 3, 3, 4, 6)))]
    claims = storage.Claims(shapes) if dice.random() < 0.3 else None
    running = [_running(shapes, number, nodes, claims) for number in range(dice.randint(0, 4 * len(nodes)))]
    budgets = [shapes.budget(f"b{i}") for i in range(dice.choice((0, 0, 1, 2)))]
    waiting = [shapes.pod(f"w{i}") for i in range(4)]
    stored: list[Raw] = []
    if claims is not None:
        for pod in waiting:
            if dice.random() < 0.7:
                claims.give(pod)
        stored = [*storage.classes(dice), *storage.drivers(dice, nodes), *storage.pools(dice), *claims.made]
    objects = (*nodes, *stored, *budgets, *running)
    return World(
        f"world {seed}", objects, tuple(waiting), process=seed % _PROCESSES == 0, patient=seed % 3 == 1
    )


def _running(shapes: Shapes, number: int, nodes: list[Raw], claims: storage.Claims | None) -> Raw:
    dice = shapes.dice
    pod = shapes.pod(f"r{number}", node=dice.choice(nodes)["metadata"]["name"])
    if claims is not None and dice.random() < 0.2:
        claims.give(pod)
    if dice.random() < 0.1:
        pod["metadata"]["deletionTimestamp"] = _ENDING
        pod["metadata"]["deletionGracePeriodSeconds"] = dice.choice((30, 600))
    return pod
