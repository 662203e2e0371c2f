"""The condition NodesKept: the nodes kept for a gang, since when and until when, and its end."""

from __future__ import annotations

from typing import Any

from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.model.timestamps import format_time
from scheduler_core.model.writes import Patch
from tests.support.builders import make_group, make_pod
from tests.support.gang_scheduler import GangScheduler, member, placed


class Told(GangScheduler):
    """n0 and n1 of 4 CPUs, one taken for ever; its PodGroup says what is written of it."""

    def __init__(self) -> None:
        super().__init__([4, 4], g=2)
        self.controller = GangStatusController()
        self.writes = 0
        self.put(make_pod("f/r").uid("r").requests(cpu=2).priority(99).on("n0"))
        self.put(member("g0", cpu=3), member("g1", cpu=3))
        self.step()

    def condition(self) -> dict[str, Any] | None:
        """What is written now, and comes back by the watch."""
        for write in self.controller.reconcile(self.state, self.now):
            assert isinstance(write, Patch)
            self.writes += 1
            group = make_group("a/g").uid("g").needs(2)
            group.raw["status"] = write.body["status"]
            self.scheduler.put(group.obj(), self.now)
        found = self.state.gangs.gangs["a/g PodGroup"].status.conditions or ()
        kept = [item for item in found if item.type == "NodesKept"]
        if not kept:
            return None
        moment = kept[0].last_transition_time
        assert moment is not None
        return {
            "status": kept[0].status,
            "reason": kept[0].reason,
            "message": kept[0].message,
            "since": format_time(moment.timestamp()),
        }


def test_a_group_for_which_nothing_was_kept_says_nothing_of_it() -> None:
    assert Told().condition() is None


def test_who_keeps_what_since_when_and_until_when() -> None:
    made = Told()
    made.step(300.0)
    since = made.now
    until = format_time(since + 3600)
    told = {
        "status": "True",
        "reason": "WaitsForRoom",
        "message": f"2 nodes for 2 of its pods (cpu=6): n0, n1; until {until} at the latest",
        "since": format_time(since),
    }
    assert made.condition() == told
    made.step(600.0)
    assert made.condition() == told
    made.condition()
    assert made.writes <= 3, "what does not change is not written again"


def test_the_end_of_it_is_told_and_when_it_may_begin_anew() -> None:
    made = Told()
    made.step(300.0)
    made.condition()
    made.step(3600.0)
    assert made.condition() == {
        "status": "False",
        "reason": "LimitReached",
        "message": (
            "the limit was reached: no nodes are kept for groups of this namespace "
            f"until {format_time(made.now + 3600)}"
        ),
        "since": format_time(made.now),
    }


def test_a_gang_that_starts_is_kept_nothing_any_more() -> None:
    made = Told()
    made.step(300.0)
    made.condition()
    made.scheduler.remove(made.state.pods["r"], made.now)
    for name, node in placed(made.step(20.0)).items():
        made.put(member(name, cpu=3).on(node))
    made.step(20.0)
    found = made.condition()
    assert found is not None
    assert (found["status"], found["reason"]) == ("False", "NothingKept")


def test_the_limit_reported_by_an_earlier_process_stays() -> None:
    made = Told()
    group = make_group("a/g").uid("g").needs(2)
    text = {"type": "NodesKept", "status": "False", "reason": "LimitReached", "message": "until then"}
    group.raw["status"] = {"conditions": [{**text, "lastTransitionTime": format_time(made.now - 60)}]}
    made.scheduler.put(group.obj(), made.now)
    found = made.condition()
    assert found is not None
    assert (found["reason"], found["message"], found["since"]) == (
        "LimitReached",
        "until then",
        format_time(made.now - 60),
    )


def test_many_nodes_are_counted_and_some_named() -> None:
    made = GangScheduler([2] * 7, g=7)
    made.put(*(make_pod(f"a/r{n}").uid(f"r{n}").requests(cpu=1).priority(-5).on(f"n{n}") for n in range(7)))
    made.put(*(member(f"g{n}", cpu=2) for n in range(7)))
    made.step()
    (patch,) = GangStatusController().reconcile(made.state, made.now)
    assert isinstance(patch, Patch)
    (kept,) = (item for item in patch.body["status"]["conditions"] if item["type"] == "NodesKept")
    assert kept["reason"] == "EvictionsUnderWay"
    assert kept["message"].startswith(
        "7 nodes for 7 of its pods (cpu=14): n0, n1, n2, n3, n4 and 2 more; until"
    )
