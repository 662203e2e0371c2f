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
MAX, MIN = f"raise max[{GPU}] from", f"raise min[{GPU}] from"
# GPUs: the max of a quota a, whose min of 2 is used; the min of a quota b and its use; what the pod asks for.
AMOUNTS: Sequence[Any] = [
    pytest.param(2, 6, 0, 3, f"{MAX} 2 to 5", id="the max, where others lend enough"),
    pytest.param(8, 2, 2, 3, f"{MIN} 2 to 5", id="the min, where nobody lends"),
    pytest.param(8, 3, 2, 3, f"{MIN} 2 to 4", id="as much min as others do not lend"),
    pytest.param(2, 3, 3, 2, f"{MAX} 2 to 4 and min[{GPU}] from 2 to 4", id="both"),
]


@pytest.mark.parametrize(("most", "others", "used", "asked", "wanted"), AMOUNTS)
def test_a_bound_is_raised_as_little_as_is_enough(
    most: int, others: int, used: int, asked: int, wanted: str
) -> None:
    quotas = make_quota("a/quota").min(gpu=2).max(gpu=most), make_quota("b/quota").min(gpu=others)
    pods = running("a", gpu=2), running("b", gpu=used), make_pod("a/new").requests(gpu=asked)
    assert texts(*quotas, *pods) == [f"{wanted} of ElasticQuota a/quota"]


def test_the_max_of_two_resources() -> None:
    found = texts(
        make_quota("a/quota").min(gpu=2, cpu=1).max(gpu=2, cpu=1),
        make_quota("b/quota").min(gpu=6, cpu=7),
        running("a", gpu=2, cpu=1),
        make_pod("a/new").requests(gpu=1, cpu=2),
    )
    assert found == [f"raise max[cpu] from 1 to 3 and max[{GPU}] from 2 to 3 of ElasticQuota a/quota"]


def test_no_bound_makes_a_node_larger() -> None:
    assert texts(make_quota("a/quota").min(gpu=8).max(gpu=8), make_pod("a/new").requests(gpu=9)) == []
