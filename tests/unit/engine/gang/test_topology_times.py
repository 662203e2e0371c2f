"""Times of a group: from its first pod to its placement, whatever happens to it or the scheduler later."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.controllers.topology_results import results_of
from scheduler_core.engine.decisions import Placed
from scheduler_core.model.timestamps import format_time
from scheduler_core.state.topology import GroupRun
from tests.support.builders import make_node
from tests.unit.engine.topology_scheduler import TopologyScheduler, member, nodes

KEY = "a/g ConfigMap"


class Story(TopologyScheduler):
    """Four nodes of one CPU; a group `g` of two pods. Moments are seconds after 1000."""

    def at(self, second: float) -> Story:
        self.now = 1000.0 + second
        return self

    def pods(self, *numbers: int, created: float, node: str = "", started: float | None = None) -> None:
        for number in numbers:
            pod = member("g", number).created(1000.0 + created)
            if node:
                pod = pod.on(node)
            if started is not None:
                pod.raw["status"]["startTime"] = format_time(1000.0 + started)
            self.put(pod)

    def confirm(self, decisions: list[Any]) -> None:
        """The API has the bindings."""
        for item in decisions:
            if isinstance(item, Placed):
                created = item.pod.created
                self.put(member("g", int(item.pod.name[2:])).created(created).on(item.node))

    def gone(self, *numbers: int) -> None:
        for number in numbers:
            self.scheduler.remove(member("g", number).obj(), self.now)

    @property
    def run(self) -> GroupRun:
        return self.state.topology.runs[KEY]

    @property
    def times(self) -> tuple[float | None, float | None]:
        """Begin and end, in seconds after 1000."""
        begin, end = self.run.begin, self.run.end
        return (None if begin is None else begin - 1000, None if end is None else end - 1000)

    def results(self) -> dict[str, str]:
        return results_of(self.state, self.state.gangs.gangs[KEY])


def placed() -> Story:
    """A group that came at 1.25, was placed at 2.5 and runs."""
    made = Story(1, 1, 1, 1)
    made.at(1.25).group("g", 2)
    made.pods(0, 1, created=1)
    decisions = made.at(2.5).step()
    assert set(nodes(decisions)) == {"g-0", "g-1"}
    made.confirm(decisions)
    assert made.times == (1.25, 2.5)
    return made


def test_waiting_for_the_group_counts() -> None:
    made = Story(1, 1)
    made.at(1.25).pods(0, 1, created=1)
    assert not nodes(made.step())
    made.at(137.0).group("g", 2)
    assert len(nodes(made.step())) == 2
    assert made.times == (1.25, 137.0)
    assert made.results()["schedTotalTimeMilli"] == "135750"


def test_waiting_for_the_last_member_and_trials_in_vain_count() -> None:
    made = Story(1)
    made.at(1.0).group("g", 2)
    made.pods(0, created=1)
    made.step()
    made.at(5.0).pods(1, created=5)
    assert not nodes(made.step())
    assert made.results()["schedBeginTime"] == "1970-01-01T00:16:41.000000Z"
    made.at(9.0).plant({"r0": {"n0": {}, "late": {}}})
    made.put(make_node("late").allocatable(cpu=1))
    assert len(nodes(made.step(later=20.0))) == 2
    assert made.times == (1.0, 29.0)


def test_a_pod_that_is_seen_late_waits_since_its_creation() -> None:
    made = Story(1, 1)
    made.at(60.0).group("g", 2)
    made.pods(0, created=10)
    made.pods(1, created=40)
    made.step()
    assert made.times == (10.0, 60.0)


def test_a_clock_behind_that_of_the_api_makes_no_time_negative() -> None:
    made = Story(1, 1)
    made.at(60.0).group("g", 2)
    made.pods(0, 1, created=70)
    made.step(later=1.0)
    assert made.times == (60.0, 61.0)


def test_a_replaced_member_changes_no_time() -> None:
    made = placed()
    before, solver = made.results(), made.run.solver_seconds
    made.at(100.0).gone(1)
    made.pods(2, created=100)
    made.confirm(made.step(later=1.0))
    after = made.results()
    assert made.times == (1.25, 2.5)
    assert made.run.solver_seconds == solver
    assert after["status"] == "Bound"
    assert {name for name in after if after[name] != before.get(name)} <= {"placement", "rank", "hopCost"}


def test_a_replacement_whose_binding_fails_is_still_one() -> None:
    made = placed()
    made.at(100.0).gone(1)
    made.pods(2, created=100)
    (decision,) = made.step()
    assert isinstance(decision, Placed)
    made.scheduler.bind_failed(decision.pod, made.now)
    made.confirm(made.step(later=20.0))
    assert made.times == (1.25, 2.5)


def test_a_binding_that_fails_makes_the_placement_last_longer() -> None:
    made = Story(1, 1, 1, 1)
    made.at(1.25).group("g", 2)
    made.pods(0, 1, created=1)
    first, second = made.at(2.5).step()
    assert isinstance(first, Placed)
    assert isinstance(second, Placed)
    made.confirm([first])
    made.scheduler.bind_failed(second.pod, made.now)
    made.confirm(made.step(later=30.0))
    assert made.times == (1.25, 32.5)


@pytest.mark.parametrize("between", [True, False], ids=["gone", "on their way out"])
def test_an_evicted_group_says_nothing_of_its_placement_and_begins_anew(between: bool) -> None:
    made = placed()
    assert made.results()["hopCost"]
    made.at(100.0)
    if between:
        made.gone(0, 1)
        empty = made.results()
        assert {name for name, value in empty.items() if value} == {"status", "reason"}
        assert empty["status"] == "Pending"
        assert "it has no pods" in empty["reason"]
    else:
        for uid in ("g-0", "g-1"):
            made.state.mark_leaving(uid)
        assert {name for name, value in made.results().items() if value} == {"status", "reason"}
    made.at(200.0).pods(2, 3, created=200)
    waits = made.results()
    assert not waits["schedEndTime"]
    made.confirm(made.step(later=5.0))
    assert made.times == (200.0, 205.0)
    assert made.results()["schedTotalTimeMilli"] == "5000"


def test_pods_that_gave_up_waiting_do_not_count() -> None:
    made = Story(1, 1)
    made.at(1.0).group("g", 2)
    made.pods(0, created=1)
    made.step()
    made.at(50.0).gone(0)
    assert made.results()["schedBeginTime"] == ""
    made.at(90.0).pods(2, 3, created=90)
    made.step(later=1.0)
    assert made.times == (90.0, 91.0)


# After a restart only objects tell what was


def test_a_replacement_after_a_restart_says_nothing_of_times() -> None:
    made = Story(1, 1, 1, 1)
    made.at(500.0).group("g", 2)
    made.pods(0, created=1, node="n0", started=3)
    made.pods(1, created=490)
    made.confirm(made.step())
    results = made.results()
    assert not {"schedBeginTime", "schedEndTime", "schedSolverTimeMilli", "schedTotalTimeMilli"} & set(
        results
    )
    assert results["hopCost"] == "4"
    made.at(600.0).gone(1)
    made.pods(2, created=600)
    made.confirm(made.step())
    assert "schedEndTime" not in made.results()


def test_a_placement_that_another_process_began_goes_on() -> None:
    made = Story(1, 1, 1, 1)
    made.at(500.0).group("g", 2)
    made.pods(0, created=1, node="n0", started=3)
    made.pods(1, created=2)
    made.confirm(made.step())
    assert made.times == (1.0, 500.0)


def test_of_a_group_that_runs_a_new_process_changes_nothing() -> None:
    made = Story(1, 1, 1, 1)
    made.at(500.0).group("g", 2)
    for number in range(2):
        made.pods(number, created=1, node=f"n{number}", started=3)
    results = made.results()
    assert set(results) == {"status", "reason", "placement", "rank"}
    assert results["status"] == "Bound"
