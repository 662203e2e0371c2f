"""Who waits because of charges that no pod confirms is tried again once they are believed no longer."""

from __future__ import annotations

from tests.support.admissions import charges
from tests.support.builders import make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, placed, rejected


def scheduler() -> GangScheduler:
    """Namespace a may use 4 CPUs, all of which somebody claims to have been admitted with."""
    made = GangScheduler([16], g=2)
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    made.scheduler.put(charges(("forged", 4)), made.now)
    return made


def test_pods_and_gangs_start_when_the_charge_lapses() -> None:
    made = scheduler()
    made.put(make_pod("a/p").uid("p").requests(cpu=2), member("m0"), member("m1"))
    assert set(rejected(made.step())) == {"p", "m0", "m1"}
    assert made.step(1.9) == []
    assert set(placed(made.step(0.1))) == {"p", "m0", "m1"}


def test_continued_forging_does_not_stop_them() -> None:
    made = scheduler()
    made.put(make_pod("a/p").uid("p").requests(cpu=2))
    started = None
    for number in range(40):
        made.scheduler.put(charges(*((f"x{number - back}", 4) for back in range(3))), made.now)
        if placed(made.step(0.25)):
            started = number
    assert started is not None
    assert started * 0.25 <= 4.0, "two seconds, and the backoff of its tries"


def test_an_idle_scheduler_tries_no_unit_in_vain() -> None:
    made = scheduler()
    made.put(make_pod("a/p").uid("p").requests(cpu=5))
    assert set(rejected(made.step())) == {"p"}
    assert set(rejected(made.step(2.0))) == {"p"}
    for _ in range(20):
        assert made.step(1.0) == []
