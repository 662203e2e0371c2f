"""Looking again at who waits: when, in which order, and what it must leave alone."""

from __future__ import annotations

import pytest

from scheduler_core.engine.decisions import Placed
from scheduler_core.engine.queue.reviews import REVIEW_AFTER_SECONDS
from scheduler_core.engine.queue.unit import Part
from scheduler_core.model.names import RECLAIM_MIN_RUNTIME_ANNOTATION
from tests.support.builders import make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, placed, rejected
from tests.unit.engine.gang.test_topology_cycle import add_members, group
from tests.unit.engine.gang.test_topology_cycle import scheduler as with_topology

LATER = REVIEW_AFTER_SECONDS


def busy(name: str = "big", cpu: int = 8) -> GangScheduler:
    """Two nodes of 4 CPUs, and a pod that wants more."""
    made = GangScheduler([4, 4])
    made.put(make_pod(f"a/{name}").uid(name).requests(cpu=cpu))
    assert rejected(made.step())[name].message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    return made


def look(made: GangScheduler, later: float = 0.0) -> dict[str, str]:
    made.now += later
    decisions = made.scheduler.reviews.review(made.now)
    assert made.state.check() == []
    return {name: item.message for name, item in rejected(decisions).items()}


def grow(made: GangScheduler, cpu: int = 4) -> None:
    """A node comes that helps nobody who wants more than it has."""
    name = f"n{len(made.state.nodes.names)}"
    made.scheduler.put(make_node(name).allocatable(cpu=cpu).obj(), made.now)


def test_a_message_follows_the_cluster_although_no_event_can_help() -> None:
    made = busy()
    grow(made)
    assert made.step() == []
    assert look(made, LATER)["big"].startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_no_unit_is_reviewed_again_on_an_unchanged_cluster() -> None:
    made = busy()
    assert (made.scheduler.reviews.due(), look(made, LATER)) == (None, {})
    grow(made)
    assert look(made)
    assert (made.scheduler.reviews.due(), look(made, LATER)) == (None, {})


def test_a_recent_message_stays_for_a_while() -> None:
    made = busy()
    grow(made)
    assert made.scheduler.reviews.due() == made.now + LATER
    assert look(made, LATER - 0.5) == {}
    assert look(made, 0.5)


def test_the_oldest_try_comes_first_and_each_comes_once() -> None:
    made = busy("p0")
    for name in ("p1", "p2"):
        made.put(make_pod(f"a/{name}").uid(name).requests(cpu=8))
        made.step(1.0)
    grow(made)
    made.now += LATER
    assert [*look(made), *look(made), *look(made)] == ["p0", "p1", "p2"]
    assert look(made, LATER) == {}


def test_a_pod_that_was_tried_again_or_is_gone_is_not_reviewed() -> None:
    made = busy("p0")
    made.put(make_pod("a/p1").uid("p1").requests(cpu=8))
    made.step()
    made.scheduler.remove(made.state.pods["p0"], made.now)
    grow(made, cpu=9)
    made.step(20.0)
    assert look(made, LATER) == {}


def test_the_backoff_stays_that_of_the_last_attempt() -> None:
    made = busy()
    (unit,) = made.scheduler.queue.units.values()
    before = (unit.attempts, unit.failed_at, unit.since)
    grow(made)
    assert look(made, LATER)
    assert (unit.attempts, unit.failed_at, unit.since) == before
    # Its backoff of a second is long over: an event that helps lets it start at once.
    grow(made, cpu=9)
    assert unit.part is Part.ACTIVE
    assert [item.pod.name for item in made.step() if isinstance(item, Placed)] == ["big"]


def test_looking_again_at_a_group_is_no_trial() -> None:
    made = with_topology(nodes=1, cpu="1")
    made.put(group(2), 0.0)
    add_members(made, 2)
    made.step(1.0)
    (run,) = made.state.topology.runs.values()
    tried = dict(run.trials)
    assert set(tried.values()) == {1}
    made.reviews.changed()
    assert len(made.reviews.review(1.0, after=0.0)) == 2
    assert dict(run.trials) == tried


def test_a_gang_is_looked_at_as_a_whole() -> None:
    made = GangScheduler([4], g=2)
    made.put(*(make_pod(f"a/m{i}").uid(f"m{i}").group("g").requests(cpu=4) for i in range(2)))
    assert {"m0", "m1"} <= set(rejected(made.step()))
    made.scheduler.reviews.changed()
    assert set(look(made, LATER)) == {"m0", "m1"}
    assert look(made, LATER) == {}


def test_a_nomination_changes_what_others_are_told() -> None:
    made = GangScheduler([4])
    made.put(make_pod("a/low").uid("low").requests(cpu=4))
    made.step()
    made.put(make_pod("a/mid").uid("mid").priority(1).requests(cpu=5))
    made.step()
    assert made.scheduler.reviews.due() is None
    made.put(make_pod("a/high").uid("high").priority(9).requests(cpu=2))
    made.step()
    assert made.scheduler.reviews.due() is not None


@pytest.mark.parametrize("calm", [True, False])
def test_a_pod_that_began_later_than_was_assumed_is_news_where_its_age_matters(calm: bool) -> None:
    """Until then a message may say from when the pod may be taken."""
    made = busy()
    quota = make_quota("b/quota")
    made.put(quota.annotation(RECLAIM_MIN_RUNTIME_ANNOTATION, "1m") if calm else quota)  # type: ignore[arg-type]
    runs = make_pod("a/runs").uid("runs").requests(cpu=1)
    made.put(runs)
    node = placed(made.step())["runs"]
    look(made, LATER)
    made.put(runs.on(node))
    made.step()
    assert made.scheduler.reviews.due() is None
    made.put(runs.started(made.now + 1.0))
    made.step()
    assert (made.scheduler.reviews.due() is not None) is calm


def test_a_node_that_is_nominated_anew_is_news_even_where_the_api_names_it_already() -> None:
    """What was kept for w was given up, big was tried, and w has the node again that its status names."""
    made = busy()
    waiting = make_pod("a/w").uid("w").requests(cpu=9).nominated("n0").obj()
    made.state.nominations.put(waiting, "n0", made.state.vector(waiting))
    assert made.scheduler.reviews.due() is None
    made.put(make_pod("a/other").uid("other").requests(cpu=9))
    made.step()
    assert made.scheduler.reviews.due() is not None, "nobody told of it but the nominations themselves"


def test_one_that_was_woken_and_put_back_untried_is_reviewed_as_before() -> None:
    made = busy()
    queue, reviews = made.scheduler.queue, made.scheduler.reviews
    (unit,) = queue.units.values()
    grow(made)
    entered = unit.entry
    queue.activate(unit, made.now + LATER)
    assert reviews.due() is None, "it is about to be tried"
    unit.part, unit.entry = Part.UNSCHEDULABLE, entered
    queue.pop(made.now)
    assert look(made, LATER)["big"].startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_units_that_were_put_back_are_reviewed_in_the_order_of_their_attempts() -> None:
    made = busy("first")
    queue, reviews = made.scheduler.queue, made.scheduler.reviews
    grow(made)
    made.put(make_pod("a/second").uid("second").requests(cpu=9))
    assert "second" in rejected(made.step())
    first, second = queue.units["a/first"], queue.units["a/second"]
    entered = {unit.key: unit.entry for unit in (first, second)}
    for unit in (first, second):
        queue.activate(unit, made.now + LATER)
    assert reviews.due() is None, "both are about to be tried"
    for unit in (second, first):
        unit.part, unit.entry = Part.UNSCHEDULABLE, entered[unit.key]
    queue.pop(made.now)
    assert list(look(made, LATER)) == ["first"], "the other one was tried on the present cluster"
    assert look(made, LATER) == {}


def test_entries_of_units_that_wait_no_more_do_not_pile_up() -> None:
    made = busy()
    for _ in range(500):
        grow(made, cpu=9)
        made.scheduler.remove(make_node(f"n{len(made.state.nodes.names) - 1}").obj(), made.now)
        made.step(20.0)
    assert len(made.scheduler.reviews) < 100


@pytest.mark.parametrize("helps", [True, False], ids=["a wake-up was missed", "nothing helps"])
def test_a_unit_that_can_start_is_started_without_an_event(helps: bool) -> None:
    made = busy()
    grow(made, cpu=9 if helps else 1)
    (unit,) = made.scheduler.queue.units.values()
    # As if the event had not been told.
    made.scheduler.queue.take(unit)
    unit.part = Part.ACTIVE
    made.scheduler.queue.failed(unit, {"NodeName"}, made.now)
    made.scheduler.reviews.tried(unit, made.now)
    made.scheduler.reviews.changed()
    made.now += LATER
    decisions = made.scheduler.reviews.review(made.now)
    assert [isinstance(item, Placed) for item in decisions] == [helps]
    assert bool(rejected(decisions)) is not helps
