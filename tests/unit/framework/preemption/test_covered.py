"""Pods that the min of their quota covers: which these are, who spares them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

from scheduler_core.framework.preemption.covered import covered
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, placed

# Seconds: longer than the pause after a first refusal, shorter than the one after which all are tried again.
RETRY: Final = 30.0

ROOM: list[tuple[str, list[list[int]], list[int], list[int]]] = [
    ("all that fit", [[1, 1]], [2], [0, 1]),
    ("the first ones", [[1, 1, 1]], [2], [0, 1]),
    ("a smaller one after one that is too large", [[1, 3, 1]], [2], [0, 2]),
    ("nobody with a resource that is not guaranteed", [[1, 1], [1, 0]], [2, 0], [1]),
    ("who does not fit takes no room from others", [[2, 2, 1], [0, 1, 0]], [3, 0], [0, 2]),
    ("each resource has its own last one", [[2, 1, 1, 0], [0, 1, 1, 1]], [3, 1], [0, 1]),
    ("who asks for nothing", [[0, 5, 0]], [0], [0, 2]),
    ("amounts that no sum may hold", [[2**62, 2**62, 2**62, 1]], [1], [3]),
    ("nobody at all", [[]], [1], []),
]


@pytest.mark.parametrize(("requests", "room", "found"), [r[1:] for r in ROOM], ids=[r[0] for r in ROOM])
def test_who_is_covered(requests: list[list[int]], room: list[int], found: list[int]) -> None:
    bits = covered(np.array(requests, dtype=np.int64), np.array(room, dtype=np.int64))
    assert np.flatnonzero(bits).tolist() == found


def test_a_greedy_reading_finds_the_same_pods() -> None:
    dice = np.random.default_rng(7)
    for _ in range(300):
        requests = dice.integers(0, 4, (int(dice.integers(1, 4)), int(dice.integers(0, 9))))
        room = dice.integers(0, 7, len(requests))
        left, found = room.copy(), []
        for asked in requests.T:
            found.append(bool(((asked <= left) | (asked == 0)).all()))
            left -= asked * found[-1]
        assert covered(requests, room).tolist() == found


def runs(
    name: str, cpu: int, priority: int, *, node: str = "n0", start: int = 100, **more: Any
) -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).requests(cpu=cpu, **more).priority(priority)
    return made.started(start).on(node)


def asks(cpu: int, priority: int = 5, **more: Any) -> PodBuilder:
    return make_pod("a/p").uid("p").requests(cpu=cpu, **more).priority(priority)


def contest(size: int, *running: PodBuilder, low: int, others: bool = True) -> GangScheduler:
    """One node; a has this min of CPUs; another quota has so much that no sum of min refuses anybody."""
    made = GangScheduler([size])
    made.scheduler.put(make_node("n0").allocatable(cpu=size, gpu=8).obj(), made.now)
    made.scheduler.put(make_quota("a/q").min(cpu=low).obj(), made.now)
    if others:
        made.scheduler.put(make_quota("b/q").min(cpu=20, gpu=8).obj(), made.now)
    made.put(*running)
    return made


SPARED: list[tuple[str, int, list[PodBuilder], PodBuilder, str]] = [
    ("who is too large for the min spares who is within it", 2, [runs("low", 2, 0)], asks(3), ""),
    ("who borrows another resource does, too", 2, [runs("low", 3, 0, start=1)], asks(1, gpu=1), "low"),
    ("who borrows another resource spares the covered one", 3, [runs("low", 3, 0)], asks(1, gpu=1), ""),
    ("who fits the min takes the place of a less important one", 3, [runs("low", 3, 0)], asks(1), "low"),
    (
        "the part of the min that more important ones use is not for it",
        3,
        [runs("top", 2, 9), runs("low", 1, 0)],
        asks(2),
        "",
    ),
    (
        "a borrower takes the place of a borrower",
        1,
        [runs("old", 1, 0, start=1), runs("new", 2, 0, start=2)],
        asks(2),
        "new",
    ),
    (
        "also where the covered one is less important",
        1,
        [runs("old", 1, 0, start=1), runs("new", 2, 3, start=2)],
        asks(2),
        "new",
    ),
]


@pytest.mark.parametrize(
    ("low", "running", "asking", "victims"), [s[1:] for s in SPARED], ids=[s[0] for s in SPARED]
)
def test_who_is_spared(low: int, running: list[PodBuilder], asking: PodBuilder, victims: str) -> None:
    made = contest(3, *running, low=low)
    made.put(asking)
    assert " ".join(sorted(evicted(made.step()))) == victims


def test_where_nobody_else_has_a_quota_priority_alone_decides() -> None:
    made = contest(3, runs("low", 2, 0), low=2, others=False)
    made.put(asks(2, gpu=1))
    assert evicted(made.step()) == {"low"}


def test_a_gang_is_judged_as_a_whole() -> None:
    """The min has room for each of its members, and not for both."""
    made = contest(4, runs("low", 2, 0), low=2)
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(
        *(make_pod(f"a/{name}").uid(name).requests(cpu=2).priority(5).group("g") for name in ("m0", "m1"))
    )
    assert evicted(made.step()) == set()


def test_who_spared_others_is_tried_again_once_the_min_covers_them_no_more() -> None:
    """It needs the GPU of n0, where low is; a more important pod then takes the part of the min of low."""
    made = contest(2, runs("low", 2, 0), low=2)
    made.scheduler.put(make_node("n1").allocatable(cpu=2).obj(), made.now)
    made.put(asks(1, 5, gpu=1))
    assert evicted(made.step()) == set()
    made.put(make_pod("a/top").uid("top").requests(cpu=2).priority(9))
    decisions = made.step()
    assert placed(decisions) == {"top": "n1"}
    assert evicted(made.step(RETRY)) == {"low"}


def test_who_spared_others_is_tried_again_once_the_min_has_room_for_it() -> None:
    """top uses the min on another node, which has no GPU for it."""
    made = contest(2, runs("low", 1, 0), runs("more", 1, 0, start=1), low=3)
    made.scheduler.put(make_node("n1").allocatable(cpu=2).obj(), made.now)
    made.scheduler.put(make_quota("a/q").min(cpu=3, gpu=1).obj(), made.now)
    made.put(runs("top", 2, 9, node="n1"))
    made.put(asks(2, gpu=1))
    assert evicted(made.step()) == set()
    made.scheduler.remove(made.state.placed["top"].pod, made.now)
    assert evicted(made.step(RETRY)) == {"low", "more"}
