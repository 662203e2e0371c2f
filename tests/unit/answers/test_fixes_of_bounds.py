"""Which bounds of quotas a fix raises, and to what: small clusters in which amounts are easy to add up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from scheduler_core.answers.fixes.answer import answer_of
from scheduler_core.answers.fixes.quota import BoundSearch
from scheduler_core.answers.why.answer import why
from scheduler_core.answers.why.numbers import QuotaNumbers
from scheduler_core.answers.why.subject import subject_of
from scheduler_core.answers.worlds import CopiedWorld
from scheduler_core.quota.group_limits import Compared
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


def line(
    low: int, most: int | None, used: int, asked: int, in_use: int, all_: int | None, name: str = "cpu"
) -> QuotaNumbers:
    own = None if most is None else Compared(name, used, 0, asked, most, 0, 0)
    total = None if all_ is None else Compared(name, in_use, 0, asked, all_, 0, 0)
    return QuotaNumbers(name, asked, used, low, most, own, (), total)


# name, the numbers, the max, the min, and both (max, min) that are enough
WANTED: list[tuple[str, QuotaNumbers, int | None, int | None, tuple[int | None, int | None]]] = [
    ("all within the min", line(4, 8, 2, 2, 2, 8), None, None, (None, None)),
    ("borrowed", line(4, 8, 2, 4, 2, 8), None, 6, (None, None)),
    ("no max", line(4, None, 2, 4, 2, 8), None, 6, (None, None)),
    ("no sum", line(4, None, 2, 4, 2, None), None, 6, (None, None)),
    ("the max is just enough", line(4, 6, 2, 4, 2, 8), None, 6, (None, None)),
    ("the max is too small", line(4, 5, 2, 4, 2, 8), 6, 5, (6, 6)),
    ("the min is as large as the max", line(5, 5, 2, 4, 2, 8), 6, None, (6, 6)),
    ("the sum is just enough", line(4, 8, 2, 4, 4, 8), None, 6, (None, None)),
    ("the sum lacks more than the own min", line(4, 12, 2, 4, 7, 8), None, 7, (None, None)),
    ("the sum lacks more than the max allows", line(4, 6, 2, 4, 7, 8), None, 6, (None, None)),
    ("both, and the sum lacks more", line(4, 5, 2, 4, 7, 8), 6, 5, (7, 7)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("numbers", "most", "least", "both"), [case[1:] for case in WANTED], ids=[case[0] for case in WANTED]
)
def test_how_large_bounds_must_be(
    numbers: QuotaNumbers, most: int | None, least: int | None, both: tuple[int | None, int | None]
) -> None:
    search = BoundSearch(cast(Any, None), cast(Any, None), [numbers])
    assert search.max_wanted() == ({} if most is None else {("max", "cpu"): most})
    assert search.min_wanted() == ({} if least is None else {("min", "cpu"): least})
    wanted = zip(("max", "min"), both, strict=True)
    assert search.both_wanted() == {(bound, "cpu"): value for bound, value in wanted if value is not None}


def test_beside_a_max_that_is_too_small_others_keep_theirs() -> None:
    memory = line(4, 6, 2, 4, 7, 8, "memory")
    search = BoundSearch(cast(Any, None), cast(Any, None), [line(4, 5, 2, 4, 2, 8), memory])
    assert search.both_wanted() == {("max", "cpu"): 6, ("min", "cpu"): 6, ("min", "memory"): 6}
