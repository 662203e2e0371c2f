"""What is kept of pods that HTTP extenders are asked about, and how much is asked."""

from __future__ import annotations

import pytest

from scheduler_core.config.schema import Extender
from scheduler_core.engine.decisions import Asked
from scheduler_core.engine.events import QueueingHints
from scheduler_core.engine.extenders import asking, parked
from scheduler_core.engine.extenders.parked import FEW
from scheduler_core.engine.queue.requeue import Wake
from scheduler_core.engine.queue.unit import QueuedUnit
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent
from tests.support.builders import PodBuilder, make_group, make_pod
from tests.support.extended import Extended
from tests.support.gang_scheduler import member, placed, rejected

PREEMPT = Extender(url_prefix="http://x", preempt_verb="preempt")


def single(name: str, cpu: int = 1, priority: int = 0) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority)


def test_a_namespace_with_many_questions_leaves_room_for_those_of_others() -> None:
    """Its own pods are older, more important, and more than may ask at once."""
    made = Extended([999])
    for number in range(2 * parked.MOST_QUESTIONS):
        made.put(single(f"p{number}", priority=9))
    first = made.asked()
    assert len(first) == parked.MOST_OF_A_NAMESPACE
    made.put(make_pod("b/other").uid("other").requests(cpu=1))
    (question,) = made.asked()
    assert question.pod.name == "other"
    made.answer(first[0])
    decisions = made.step()
    assert set(placed(decisions)) == {first[0].pod.name}
    (asked,) = (item for item in decisions if isinstance(item, Asked))
    assert asked.question.pod.namespace == "a", "its next pod has the place that is free"


def test_who_waits_to_ask_does_so_in_the_order_of_the_queue_over_all_namespaces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 2)
    monkeypatch.setattr(parked, "MOST_OF_A_NAMESPACE", 2)
    made = Extended([999])
    made.put(single("p0"), single("p1"))
    under_way = made.asked()
    for number, space in enumerate("baab"):
        made.put(make_pod(f"{space}/w{number}").uid(f"w{number}").requests(cpu=1).priority(number))
    assert made.asked() == []
    names = []
    while under_way:
        made.answer(under_way.pop(0))
        under_way += [item.question for item in made.step() if isinstance(item, Asked)]
        names = [*names, *(item.pod.name for item in under_way if item.pod.name not in names)]
    assert names[1:] == ["w3", "w2", "w1", "w0"]


def test_leave_to_evict_for_pods_that_went_is_forgotten() -> None:
    made = Extended([2], PREEMPT)
    made.put(single("low", 2).on("n0"))
    for number in range(2 * FEW + 20):
        pod = single(f"p{number}", 2, 9)
        made.put(pod)
        made.agree(made.asked()[0], "low")
        made.scheduler.remove(pod.obj(), made.now)
    made.put(single("last", 2, 9))
    made.agree(made.asked()[0], "low")
    made.step()
    assert len(made.state.extending.agreed) <= FEW + 2


def test_a_pod_of_the_same_name_does_not_inherit_the_trouble_of_one_that_is_gone() -> None:
    made = Extended([4])
    made.put(single("p"))
    made.answer(made.asked()[0], error="broken")
    made.scheduler.remove(single("p").obj(), made.now)
    made.put(single("p").uid("another"))
    (question,) = made.asked()
    assert question.pod.uid == "another"


def test_nor_the_questions_that_were_spent_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_NODES", 1)
    monkeypatch.setattr(asking, "MOST_ROUNDS", 3)
    made = Extended([4] * 3)
    for name in ("first", "second"):
        pod = single("p").uid(name)
        made.put(pod)
        (question,) = made.asked()
        for _ in range(2):
            made.answer(question, dict.fromkeys(question.nodes, "no"))
            (question,) = made.asked()
        made.scheduler.remove(pod.obj(), made.now)


def test_the_most_important_go_first_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 1)
    made = Extended([99])
    made.put(*(single(f"low{i}").created(i) for i in range(3)))
    (question,) = made.asked()
    made.put(single("high", priority=9).created(9))
    assert made.step() == []
    made.answer(question)
    (asked,) = (item for item in made.step() if isinstance(item, Asked))
    assert asked.pod.name == "high"


def test_a_pod_that_is_queued_again_is_in_the_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 1)
    made = Extended([99])
    made.put(single("first", priority=9))
    (question,) = made.asked()
    for number in range(4 * FEW):
        made.put(single("p").labels(form=f"{number}"))
        assert made.step() == []
    (line,) = made.scheduler.asking.parked.lines.values()
    assert len(line) <= FEW + 4
    made.answer(question)
    (asked,) = (item for item in made.step() if isinstance(item, Asked))
    assert asked.pod.labels == {"form": f"{4 * FEW - 1}"}


def test_as_many_of_a_line_are_called_as_may_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 4)
    made = Extended([99])
    made.put(*(single(f"p{i}").created(i) for i in range(40)))
    questions = made.asked()
    for question in questions:
        made.answer(question)
    told = made.step()
    assert set(placed(told)) == {"p0", "p1", "p2", "p3"}
    assert [item.pod.name for item in told if isinstance(item, Asked)] == ["p4", "p5", "p6", "p7"]
    assert made.scheduler.queue.incoming["asked", "Asked"] == 40 + 4, "nobody is called in vain"


def test_who_is_to_be_tried_in_any_case_is_not_looked_at_for_every_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[QueuedUnit] = []
    wake = QueueingHints.wake

    def counted(
        hints: QueueingHints,
        state: ClusterState,
        unit: QueuedUnit,
        event: ClusterEvent,
        plugins: frozenset[str] | None = None,
    ) -> Wake:
        looked.append(unit)
        return wake(hints, state, unit, event, plugins)

    monkeypatch.setattr(QueueingHints, "wake", counted)
    made = Extended([9])
    made.put(single("p"))
    made.answer(made.asked()[0], {"n0": "no"})
    made.step()
    looked.clear()
    for number in range(5):
        made.put(single(f"other{number}").on("n0"))
    assert len(looked) == 1
    assert len(made.asked(5.0)) == 1


# Gangs


def test_a_gang_is_asked_about_all_nodes_however_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "MOST_NODES", 2)
    made = Extended([2] * 5)
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(*(member(f"p{i}", cpu=2) for i in range(2)))
    questions = made.asked()
    assert sorted(name for question in questions for name in question.nodes) == [f"n{i}" for i in range(5)]
    assert max(len(question.nodes) for question in questions) == 2
    for question in questions:
        made.answer(question, {name: "no" for name in question.nodes if name in ("n0", "n1", "n2")})
    assert sorted(placed(made.step()).values()) == ["n3", "n4"]


@pytest.mark.parametrize("changed", ["p0", "p1"])
def test_an_answer_for_a_member_that_changed_meanwhile_is_not_used(changed: str) -> None:
    made = Extended([9])
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(member("p0"), member("p1"))
    (first,) = made.asked()
    made.put(member(changed, cpu=3))
    asked = made.step()
    made.answer(first)
    asked += made.step()
    again = [item.question for item in asked if isinstance(item, Asked)]
    assert changed in [question.pod.name for question in again]
    for question in again:
        made.answer(question)
    assert set(placed(made.step())) == {"p0", "p1"}


ONE, TWO, BOTH = frozenset({"n0"}), frozenset({"n1"}), frozenset({"n0", "n1"})


@pytest.mark.parametrize("first", [ONE, TWO, BOTH])
@pytest.mark.parametrize("second", [ONE, TWO, BOTH])
def test_members_that_are_let_onto_different_nodes_find_a_way_if_there_is_one(
    first: frozenset[str], second: frozenset[str]
) -> None:
    made = Extended([2, 2])
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(*(member(f"p{i}", cpu=2).labels(index=f"{i}") for i in range(2)))
    let = {"p0": first, "p1": second}
    for question in made.asked():
        made.answer(question, dict.fromkeys(BOTH - let[question.pod.name], "no"))
    nodes = placed(made.step())
    assert all(node in let[name] for name, node in nodes.items())
    assert len(nodes) == (2 if len(first | second) == 2 else 0)


def test_a_gang_that_is_too_few_again_says_so_and_its_answer_is_of_no_use() -> None:
    made = Extended([9])
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(member("p0"), member("p1"))
    (first,) = made.asked()
    made.scheduler.remove(member("p1").obj(), made.now)
    made.put(member("p0", cpu=2))
    told = made.step()
    assert set(rejected(told)) == {"p0"}
    made.answer(first)
    assert made.step() == []
    assert not made.state.extending.nodes
