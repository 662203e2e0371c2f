"""Which waiting units wait as one: those that are like a usual one, and each way to be different."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from scheduler_core.engine.queue.equivalence import traits_of
from scheduler_core.engine.queue.unit import QueuedUnit, Traits
from scheduler_core.plugins.extenders import EXTENDERS
from tests.support.builders import PodBuilder, make_group, make_pod
from tests.support.gang_scheduler import GangScheduler, member

Change = Callable[[GangScheduler, QueuedUnit], None]


def pod(name: str) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=1)


def nominated(name: str) -> Change:
    def change(made: GangScheduler, unit: QueuedUnit) -> None:
        waits = unit.pods[name]
        made.state.nominations.put(waits, "n0", made.state.vector(waits))

    return change


def by_extenders(made: GangScheduler, unit: QueuedUnit) -> None:
    unit.plugins = frozenset({EXTENDERS})


def nothing(made: GangScheduler, unit: QueuedUnit) -> None:
    """As it is."""


PODS: list[tuple[str, PodBuilder, Change, bool]] = [
    ("another name", pod("p"), nothing, True),
    ("a label, which no filter reads", pod("p").labels(app="x"), nothing, True),
    ("another request", pod("p").requests(cpu=2), nothing, False),
    ("another priority", pod("p").priority(1), nothing, False),
    ("a pod that never preempts", pod("p").never(), nothing, False),
    ("a selector", pod("p").selector(disk="ssd"), nothing, False),
    ("another namespace", make_pod("b/p").uid("p").requests(cpu=1), nothing, False),
    ("a group that it names", pod("p").group("gone"), nothing, False),
    ("a pod that ends in time", pod("p").spec(activeDeadlineSeconds=60), nothing, False),
    ("a nominated node", pod("p"), nominated("p"), False),
    ("refused by extenders", pod("p"), by_extenders, False),
]


def unit_of(made: GangScheduler, key: str, *pods: PodBuilder, gang: bool = False) -> QueuedUnit:
    made.put(*pods)
    unit = QueuedUnit(key, 0.0, gang=gang)
    unit.pods = {one.meta["uid"]: made.state.pods[one.meta["uid"]] for one in pods}
    return unit


def traits(made: GangScheduler, unit: QueuedUnit) -> Traits:
    return traits_of(made.state, made.scheduler.profiles, unit)


@pytest.mark.parametrize(("other", "change", "equal"), [p[1:] for p in PODS], ids=[p[0] for p in PODS])
def test_pods_that_wait_as_one(other: PodBuilder, change: Change, equal: bool) -> None:
    made = GangScheduler([4])
    usual, unit = unit_of(made, "usual", pod("usual")), unit_of(made, "p", other)
    change(made, unit)
    assert (traits(made, usual).key == traits(made, unit).key) is equal


def two(*more: Callable[[PodBuilder], object]) -> list[PodBuilder]:
    members = [member("x", "h"), member("y", "h")]
    for one in more:
        one(members[1])
    return members


def beside(made: GangScheduler, unit: QueuedUnit) -> None:
    """A third member runs."""
    made.put(member("z", "h").on("n0"))


def needs_one(made: GangScheduler, unit: QueuedUnit) -> None:
    """One member alone may start."""
    made.scheduler.put(make_group("a/h").uid("h").needs(1).obj(), made.now)


GANGS: list[tuple[str, list[PodBuilder], Change, bool]] = [
    ("other names", two(), nothing, True),
    ("another number that starts", two(), needs_one, False),
    ("a larger member", two(lambda p: p.requests(cpu=2)), nothing, False),
    ("a more important member", two(lambda p: p.priority(1)), nothing, False),
    ("a member that never preempts", two(lambda p: p.never()), nothing, False),
    ("a gate", two(lambda p: p.gate("g")), nothing, False),
    ("a third member", [*two(), member("z", "h")], nothing, False),
    ("a third member that runs", two(), beside, False),
    ("a nominated member", two(), nominated("y"), False),
    ("refused by extenders", two(), by_extenders, False),
]


@pytest.mark.parametrize(("members", "change", "equal"), [g[1:] for g in GANGS], ids=[g[0] for g in GANGS])
def test_gangs_that_wait_as_one(members: list[PodBuilder], change: Change, equal: bool) -> None:
    made = GangScheduler([4], g=2, h=2)
    keys = [gang.key for gang in sorted(made.state.gangs.gangs.values(), key=lambda gang: gang.key)]
    usual = unit_of(made, keys[0], member("u", "g"), member("v", "g"), gang=True)
    unit = unit_of(made, keys[1], *members, gang=True)
    change(made, unit)
    found = traits(made, usual), traits(made, unit)
    assert (found[0].key == found[1].key) is equal
    assert found[0].group == "", "it shares a class"
    alone = found[1].key == unit.key
    assert found[1].group == (unit.key if alone else "")
