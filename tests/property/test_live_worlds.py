"""A cluster that is read as lists at once is the cluster that is read object by object.

Random worlds live for some steps; what is stored then is read both ways, and both schedulers decide alike.
"""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler_core.answers.run_result import run
from scheduler_core.model.kinds import PODS, PRIORITY_CLASSES, Resource
from scheduler_core.model.watched import WATCHED
from scheduler_core.simulate.kinds import full_name
from scheduler_core.simulate.objects import key_of
from scheduler_core.simulate.world import Simulation
from tests.support.every import every_seed
from tests.support.searches import cases
from tests.support.worlds.generate import live

KINDS = (*(resource for resource, _ in WATCHED[:-1]), PRIORITY_CLASSES, PODS)
WORLDS = cases(20)


def stored(seed: int) -> tuple[dict[Resource, list[bytes]], float]:
    """The objects of a world that has lived, by kind, pods with a node before the others."""
    _, player = live(seed)
    found: dict[Resource, list[bytes]] = {}
    for resource in KINDS:
        kind = full_name(resource.kind, resource.api_version)
        objects: list[Any] = player.objects.all(resource.kind)
        objects = [obj for obj in objects if key_of(obj)[0] == kind]
        if resource == PODS:
            objects.sort(key=lambda pod: not holds_a_node(pod))
        found[resource] = [msgspec.json.encode(obj) for obj in objects]
    return found, player.now


def holds_a_node(pod: Any) -> bool:
    """Whether a pod is simply bound: it has not finished, and is not being deleted."""
    ended = pod["status"].get("phase") in ("Succeeded", "Failed")
    return bool(pod["spec"].get("nodeName")) and not ended and "deletionTimestamp" not in pod["metadata"]


@every_seed(range(WORLDS), each=5)
def test_lists_read_at_once_give_the_same_decisions(seed: int) -> None:
    lists, now = stored(seed)
    together, alone = Simulation(now=now), Simulation(now=now)
    for resource, raws in lists.items():
        assert together.load_list(resource, raws) == []
        for raw in raws:
            alone.load(resource, raw)
    assert together.state.check() == []
    assert rows(together) == rows(alone)
    assert together.state.quota_dirty == alone.state.quota_dirty
    assert run(together) == run(alone)
    assert together.state.check() == []
    assert run(together.copy()) == run(alone.copy())


def rows(simulation: Simulation) -> list[str]:
    """The placed pods in the order of their rows, which breaks ties among victims."""
    return [pod.key if pod is not None else "" for pod in simulation.state.table.pods]
