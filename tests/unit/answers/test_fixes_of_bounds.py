"""Which bounds of quotas a fix raises, and to what: small clusters in which amounts are easy to add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_core.answers.fixes.answer import answer_of
from scheduler_core.answers.why.answer import why
from scheduler_core.answers.why.subject import subject_of
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.simulate import Simulation
from tests.support.builders import Builder, make_node, make_pod, make_quota

Raw = dict[str, Any]


def texts(*objects: Builder) -> list[str]:
    """The fixes of the pod a/new that raise bounds."""
    simulation = Simulation()
    for obj in (make_node("n").allocatable(gpu=8, cpu=8, pods=20), *objects):
        simulation.create(obj.dict())
    world = CopiedWorld(simulation)
    found = answer_of(world, why(world, subject_of(world.base, "Pod", "a", "new")))
    return [fix.text for fix in found.fixes if fix.text.startswith("raise m")]


def running(namespace: str, **requests: int) -> Builder:
    return make_pod(f"{namespace}/old").requests(**requests).on("n")


GPU = "nvidia.com/gpu"
CASES: Sequence[Any] = [
    pytest.param(
        [make_quota("a/quota").min(gpu=2).max(gpu=2), make_quota("b/quota").min(gpu=6), running("a", gpu=2)],
        {"gpu": 3},
        [f"raise max[{GPU}] from 2 to 5 of ElasticQuota a/quota"],
        id="the max, where others lend enough",
    ),
    pytest.param(
        [
            make_quota("a/quota").min(gpu=2).max(gpu=8),
            make_quota("b/quota").min(gpu=2),
            running("a", gpu=2),
            running("b", gpu=2),
        ],
        {"gpu": 3},
        [f"raise min[{GPU}] from 2 to 5 of ElasticQuota a/quota"],
        id="the min, where nobody lends",
    ),
    pytest.param(
        [
            make_quota("a/quota").min(gpu=2).max(gpu=8),
            make_quota("b/quota").min(gpu=3),
            running("a", gpu=2),
            running("b", gpu=2),
        ],
        {"gpu": 3},
        [f"raise min[{GPU}] from 2 to 4 of ElasticQuota a/quota"],
        id="as much min as others do not lend",
    ),
    pytest.param(
        [
            make_quota("a/quota").min(gpu=2).max(gpu=2),
            make_quota("b/quota").min(gpu=3),
            running("a", gpu=2),
            running("b", gpu=3),
        ],
        {"gpu": 2},
        [f"raise max[{GPU}] from 2 to 4 and min[{GPU}] from 2 to 4 of ElasticQuota a/quota"],
        id="both",
    ),
    pytest.param(
        [
            make_quota("a/quota").min(gpu=2, cpu=1).max(gpu=2, cpu=1),
            make_quota("b/quota").min(gpu=6, cpu=7),
            running("a", gpu=2, cpu=1),
        ],
        {"gpu": 1, "cpu": 2},
        [f"raise max[cpu] from 1 to 3 and max[{GPU}] from 2 to 3 of ElasticQuota a/quota"],
        id="the max of two resources",
    ),
    pytest.param(
        [make_quota("a/quota").min(gpu=8).max(gpu=8)], {"gpu": 9}, [], id="no bound makes a node larger"
    ),
]


@pytest.mark.parametrize(("objects", "asked", "wanted"), CASES)
def test_bounds_are_raised_as_little_as_is_enough(
    objects: list[Builder], asked: dict[str, int], wanted: list[str]
) -> None:
    assert texts(*objects, make_pod("a/new").requests(**asked)) == wanted
