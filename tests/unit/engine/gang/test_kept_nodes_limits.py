"""What is kept for gangs has an end, whatever it is kept for, and nobody can make it longer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from scheduler_core.engine.gang.kept_nodes import EXAMINED_EVERY_SECONDS, limit
from scheduler_core.model.timestamps import format_time
from tests.support.builders import make_group, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, evicted, member, placed

PATIENCE: Final = 300.0
LIMIT: Final = 3600.0


def kept(made: GangScheduler) -> dict[str, str]:
    found = {uid: made.state.nominations.node_of(uid) for uid in made.state.pods}
    return {uid: node for uid, node in found.items() if node}


def starving() -> GangScheduler:
    """Two nodes of 4; one is taken for ever, and both are kept for gang g, which has waited long."""
    made = GangScheduler([4, 4], g=2)
    made.put(make_pod("f/r").uid("r").requests(cpu=2).priority(99).on("n0"))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    made.step()
    made.step(PATIENCE)
    assert set(kept(made)) == {"g0", "g1"}
    return made


def evicting() -> GangScheduler:
    """The same, but the pod there was evicted, and does not end."""
    made = GangScheduler([4, 4], g=2)
    made.put(make_pod("a/r").uid("r").requests(cpu=2).priority(-5).on("n0"))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    assert evicted(made.step()) == {"r"}
    return made


def beside_one_that_leaves() -> GangScheduler:
    """The same, but the pod there was asked to end by somebody else, and does not."""
    made = GangScheduler([4, 4], g=2)
    made.put(make_pod("f/r").uid("r").requests(cpu=2).on("n0").deleting(5.0))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    assert evicted(made.step()) == set()
    return made


CAUSES: Final[list[Callable[[], GangScheduler]]] = [starving, evicting, beside_one_that_leaves]


@pytest.mark.parametrize("made_by", CAUSES)
def test_the_limit_ends_it_and_the_namespace_rests_for_as_long(made_by: Callable[[], GangScheduler]) -> None:
    made = made_by()
    made.put(make_pod("b/p").uid("p").requests(cpu=4))
    assert placed(made.step(LIMIT - 1)) == {}
    assert set(kept(made)) == {"g0", "g1"}
    assert placed(made.step(1.0)) | placed(made.step(20.0)) == {"p": "n1"}
    assert kept(made) == {}
    made.scheduler.remove(made.state.pods["p"], made.now)
    for _ in range(11):
        made.step(PATIENCE)
        assert kept(made) == {}, "it rests"
    made.step(PATIENCE)
    made.step(PATIENCE)
    assert set(kept(made)) == {"g0", "g1"}, "not for ever"


def another_gang(made: GangScheduler) -> None:
    made.scheduler.put(make_group("a/h").uid("h").needs(2).created(9.0).obj(), made.now)
    made.put(member("h0", "h", cpu=3), member("h1", "h", cpu=3))


def a_new_member(made: GangScheduler) -> None:
    made.scheduler.remove(made.state.pods["g0"], made.now)
    made.step(20.0)
    made.put(member("g9", cpu=3))


def a_change(made: GangScheduler) -> None:
    made.put(member("g0", cpu=3).label("some", "thing"))


def the_group_anew(made: GangScheduler) -> None:
    made.scheduler.remove(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.step(20.0)
    made.scheduler.put(make_group("a/g").uid("g-again").needs(2).obj(), made.now)


TRICKS: Final = [another_gang, a_new_member, a_change, the_group_anew]


@pytest.mark.parametrize("trick", TRICKS)
@pytest.mark.parametrize("made_by", CAUSES)
def test_no_trick_makes_it_longer(
    made_by: Callable[[], GangScheduler], trick: Callable[[GangScheduler], None]
) -> None:
    """Tried every ten minutes, it gains nothing: of two hours one is kept, and the pauses that it made."""
    made = made_by()
    held, began = 0, made.now
    for minute in range(120):
        if minute % 10 == 9:
            trick(made)
        made.step(60.0)
        held += bool(kept(made))
        if minute % 10 == 9 and trick is a_new_member:
            made.scheduler.remove(made.state.pods["g9"], made.now)
            made.put(member("g0", cpu=3))
    assert made.now - began >= 7200.0
    assert held <= LIMIT / 60 + 5


def test_nodes_on_which_a_gang_starts_do_not_count_as_kept_in_vain() -> None:
    made = starving()
    made.step(LIMIT - 10)
    made.scheduler.remove(made.state.pods["r"], made.now)
    assert set(placed(made.step(5.0))) == {"g0", "g1"}
    made.step(1.0)
    for name in ("g0", "g1"):
        made.scheduler.remove(made.state.pods[name], made.now)
    made.put(make_pod("f/r").uid("r").requests(cpu=2).priority(99).on("n0"))
    another_gang(made)
    made.step(1.0)
    made.step(PATIENCE)
    assert set(kept(made)) == {"h0", "h1"}
    made.step(LIMIT - 1)
    assert set(kept(made)) == {"h0", "h1"}


def test_nothing_is_kept_for_a_start_that_is_beyond_the_limit() -> None:
    made = GangScheduler([4, 4], g=2)
    for name, seconds in (("n0", LIMIT + 2), ("n1", 60)):
        pod = make_pod(f"f/{name}").uid(name).requests(cpu=4).spec(activeDeadlineSeconds=int(seconds))
        made.put(pod.on(name).started(made.now))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    made.step()
    assert kept(made) == {}
    made.step(2.0)
    made.step(PATIENCE)
    assert set(kept(made)) == {"g0", "g1"}, "then it can start in time"


def test_a_gang_within_min_goes_on_reclaiming() -> None:
    """Its victims do not end, which is not its fault: it looks anew at once."""
    made = GangScheduler([4, 4, 4], g=2)
    for namespace, low in (("a", 6), ("c", 0), ("d", 6)):
        made.scheduler.put(make_quota(f"{namespace}/q").min(cpu=low).obj(), made.now)
    made.put(*(make_pod(f"c/r{n}").uid(f"r{n}").requests(cpu=2).on(f"n{n}") for n in range(2)))
    made.put(make_pod("f/full").uid("full").requests(cpu=4).on("n2"))
    made.put(member("g0", cpu=3), member("g1", cpu=3))
    assert evicted(made.step()) == {"r0", "r1"}
    made.step(LIMIT)
    made.step(20.0)
    assert set(kept(made)) == {"g0", "g1"}


def reclaiming() -> GangScheduler:
    """Namespace a rests, and its gang h evicts r0 and r1 of namespace c for its min."""
    made = starving()
    made.step(LIMIT)
    assert made.state.gangs.kept_nodes.rests("a") == made.now + LIMIT
    for uid in ("r", "g0", "g1"):
        made.scheduler.remove(made.state.pods[uid], made.now)
    for namespace, low in (("a", 6), ("c", 0), ("d", 6)):
        made.scheduler.put(make_quota(f"{namespace}/q").min(cpu=low).obj(), made.now)
    made.put(*(make_pod(f"c/r{n}").uid(f"r{n}").requests(cpu=2).on(f"n{n}") for n in range(2)))
    another_gang(made)
    assert evicted(made.step()) == {"r0", "r1"}
    return made


def test_nodes_that_a_gang_within_min_evicts_for_are_kept_while_its_namespace_rests() -> None:
    """Else those who borrow take the room of its victims, are evicted for it, and so on without end."""
    made = reclaiming()
    made.put(*(make_pod(f"c/b{n}").uid(f"b{n}").requests(cpu=2).priority(9) for n in range(2)))
    for _ in range(6):
        assert placed(made.step(EXAMINED_EVERY_SECONDS)) == {}
        assert set(kept(made)) == {"h0", "h1"}
    made.scheduler.remove(made.state.pods["r0"], made.now)
    made.scheduler.remove(made.state.pods["r1"], made.now)
    assert {"h0", "h1"} <= placed(made.step(1.0)).keys()


def test_it_has_an_end_then_too_and_what_was_of_use_makes_no_rest_longer() -> None:
    made = reclaiming()
    rests = made.state.gangs.kept_nodes.rests("a")
    (found,) = made.state.gangs.kept_nodes.kept.values()
    assert found.until == made.now + LIMIT
    made.scheduler.remove(made.state.pods["r0"], made.now)
    made.scheduler.remove(made.state.pods["r1"], made.now)
    assert set(placed(made.step(20.0))) == {"h0", "h1"}
    made.step(1.0)
    assert (made.state.gangs.kept_nodes.kept, made.state.gangs.kept_nodes.rests("a")) == ({}, rests)


def test_every_few_seconds_it_is_asked_whether_it_can_still_come_to_anything() -> None:
    made = starving()
    made.scheduler.put(make_quota("a/q").min(cpu=2).max(cpu=5).obj(), made.now)
    made.scheduler.queue.take(unit := made.scheduler.queue.units["a/g PodGroup"])
    made.scheduler.queue.failed(unit, unit.plugins, made.now)
    made.step(EXAMINED_EVERY_SECONDS)
    assert kept(made) == {}


def restarted(made: GangScheduler, *conditions: tuple[str, str, float]) -> GangScheduler:
    """A new process with the same objects; conditions of the PodGroup: status, reason and when that began."""
    again = GangScheduler([4, 4])
    again.now = made.now
    group = make_group("a/g").uid("g").needs(2)
    found = [
        {"type": "NodesKept", "status": status, "reason": reason, "lastTransitionTime": format_time(when)}
        for status, reason, when in conditions
    ]
    group.raw["status"] = {"conditions": found}
    again.scheduler.put(group.obj(), again.now)
    for uid, pod in sorted(made.state.pods.items()):
        node = made.state.nominations.node_of(uid)
        again.scheduler.put(
            member(uid, cpu=3).status(nominatedNodeName=node).obj() if node else pod, again.now
        )
    again.step()
    return again


def test_a_new_process_ends_it_at_the_same_time() -> None:
    made = starving()
    began = made.now
    made.step(3000.0)
    again = restarted(made, ("True", "NodesKept", began))
    again.step(599.0)
    assert set(kept(again)) == {"g0", "g1"}
    again.step(1.0)
    assert kept(again) == {}


def test_a_new_process_lets_those_rest_who_rested() -> None:
    made = starving()
    made.step(LIMIT)
    ended = made.now
    assert kept(made) == {}
    again = restarted(made, ("False", "LimitReached", ended))
    for _ in range(11):
        again.step(PATIENCE)
        assert kept(again) == {}
    again.step(PATIENCE)
    again.step(PATIENCE)
    assert set(kept(again)) == {"g0", "g1"}


def test_an_outdated_condition_does_not_end_the_rest() -> None:
    """Nobody has written yet that no node is nominated any more."""
    made = starving()
    made.now += LIMIT
    again = restarted(made, ("False", "LimitReached", made.now))
    again.step(1.0)
    assert kept(again) == {}


def test_a_condition_from_the_future_makes_nothing_longer() -> None:
    made = starving()
    again = restarted(made, ("True", "NodesKept", made.now + 1e6))
    again.step(LIMIT)
    assert kept(again) == {}


def test_the_limit_is_what_the_arguments_say() -> None:
    (profile,) = GangScheduler().scheduler.profiles.values()
    assert limit(profile) == LIMIT


def test_a_gang_that_rests_starts_where_there_is_room() -> None:
    made = starving()
    made.step(LIMIT)
    made.step(20.0)
    made.scheduler.put(make_node("n2").allocatable(cpu=4).obj(), made.now)
    assert set(placed(made.step(20.0))) == {"g0", "g1"}
