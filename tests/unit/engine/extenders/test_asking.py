"""Pods that HTTP extenders have a say in: when they are asked about, and what becomes of the answers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from scheduler_core.config.schema import Extender, ManagedResource
from scheduler_core.engine.decisions import Asked, Decision, Evicted, Placed, Rejected
from scheduler_core.engine.extenders import asking, parked
from scheduler_core.engine.queue.unit import Part
from scheduler_core.model.extending import NodesQuestion, VictimsQuestion
from scheduler_core.model.names import REASON_SCHEDULER_ERROR
from scheduler_core.model.writes import Bind
from tests.support.builders import PodBuilder, make_group, make_node, make_pod
from tests.support.extended import FILTER, Extended
from tests.support.gang_scheduler import evicted, member, placed, rejected

PREEMPT = Extender(url_prefix="http://x", preempt_verb="preempt")


def single(name: str, cpu: int = 1, priority: int = 0) -> PodBuilder:
    return make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority)


def why(decisions: list[Decision]) -> dict[str, str]:
    return {name: item.message for name, item in rejected(decisions).items()}


def part_of(made: Extended, key: str) -> Part:
    return made.scheduler.queue.units[key].part


def test_only_nodes_that_passed_all_filters_are_asked_about() -> None:
    made = Extended([1, 4, 4])
    made.put(single("p", 2))
    (question,) = made.asked()
    assert sorted(question.nodes) == ["n1", "n2"]
    assert part_of(made, "a/p") is Part.ASKED
    assert made.step(600.0) == [], "it waits for the answer, however long that takes"


def test_the_pod_goes_where_it_is_let() -> None:
    made = Extended([4, 4, 4])
    made.put(single("p"))
    (question,) = made.asked()
    made.answer(question, {"n0": "no", "n2": "no"})
    assert placed(made.step()) == {"p": "n1"}
    assert not made.state.extending.nodes, "an answer is used once"


def test_scores_of_extenders_are_added_to_the_others() -> None:
    made = Extended([4, 8])
    made.put(single("p"), single("q"))
    first, second = made.asked()
    made.answer(first, scores={"n0": 10**30})
    made.answer(second)
    assert placed(made.step()) == {"p": "n0", "q": "n1"}


def test_refusals_are_told_in_the_words_of_the_extender() -> None:
    made = Extended([4, 4, 4, 1])
    made.put(single("p", 2))
    (question,) = made.asked()
    made.answer(question, {"n0": "no shared GPU", "n1": "no shared GPU"}, never={"n2": "wrong rack"})
    (told,) = made.step()
    assert isinstance(told, Rejected)
    head = "0/4 nodes are available: 1 Insufficient cpu, 1 wrong rack, 2 no shared GPU."
    assert told.message.startswith(head)
    assert part_of(made, "a/p") is Part.UNSCHEDULABLE


@pytest.mark.parametrize("reasons", [1, 62, 63, 64, 200])
def test_any_number_of_reasons_is_counted(reasons: int) -> None:
    made = Extended([4] * reasons)
    made.put(single("p"))
    (question,) = made.asked()
    made.answer(question, {f"n{i}": f"reason {i}" for i in range(reasons)})
    (told,) = made.step()
    assert isinstance(told, Rejected)
    assert told.diagnosis is not None
    assert sum(item.nodes for item in told.diagnosis.rejections) == reasons


def test_any_event_lets_a_refused_pod_be_asked_about_again() -> None:
    made = Extended([4])
    made.put(single("p"))
    made.answer(made.asked()[0], {"n0": "no"})
    assert set(rejected(made.step())) == {"p"}
    assert made.step(60.0) == []
    made.scheduler.put(make_node("late").allocatable(cpu=4, pods=9).obj(), made.now)
    (question,) = made.asked()
    assert sorted(question.nodes) == ["late", "n0"]


def test_an_extender_that_fails_costs_the_pod_a_backoff() -> None:
    made = Extended([4])
    made.put(single("p"))
    made.answer(made.asked()[0], error="extender http://x: no answer")
    (told,) = made.step()
    assert isinstance(told, Rejected)
    assert (told.reason, told.message) == (REASON_SCHEDULER_ERROR, "extender http://x: no answer")
    assert part_of(made, "a/p") is Part.BACKOFF
    assert made.step(0.5) == []
    (question,) = made.asked(1.0)
    made.answer(question)
    assert placed(made.step()) == {"p": "n0"}


def test_the_answer_is_no_failure_and_costs_no_backoff() -> None:
    made = Extended([4])
    made.put(single("p"))
    for _ in range(3):
        (question,) = made.asked(20.0)
        made.answer(question, dict.fromkeys(question.nodes, "no"))
        made.step()
        made.scheduler.put(make_node("n9").allocatable(cpu=1).labels(x=f"{made.now}").obj(), made.now)
    assert made.scheduler.queue.units["a/p"].attempts == 3


def test_a_node_that_came_meanwhile_is_asked_about_before_the_pod_is_refused() -> None:
    made = Extended([4])
    made.put(single("p"))
    (question,) = made.asked()
    made.scheduler.put(make_node("late").allocatable(cpu=4, pods=9).obj(), made.now)
    made.answer(question, {"n0": "no"})
    (again,) = made.asked()
    assert again.nodes == ("late",)
    made.answer(again, {"late": "neither"})
    assert "1 neither, 1 no." in why(made.step())["p"]


def test_a_node_that_filled_up_meanwhile_is_not_used() -> None:
    made = Extended([2, 2])
    made.put(single("p", 2))
    (question,) = made.asked()
    made.put(single("other", 2).on("n1"))
    made.answer(question, {"n0": "no"})
    assert "1 Insufficient cpu, 1 no." in why(made.step())["p"]


def test_an_answer_about_an_older_form_of_the_pod_is_not_used() -> None:
    made = Extended([2, 4])
    made.put(single("p"))
    (old,) = made.asked()
    made.put(single("p", 3))
    (new,) = made.asked()
    made.answer(old)
    assert made.step() == []
    assert new.nodes == ("n1",)
    made.answer(new)
    assert placed(made.step()) == {"p": "n1"}


def test_the_answer_about_a_pod_that_is_gone_is_dropped() -> None:
    made = Extended([2])
    made.put(single("p"))
    (question,) = made.asked()
    made.scheduler.remove(single("p").obj(), made.now)
    made.answer(question)
    assert made.step() == []
    extending = made.state.extending
    assert [extending.nodes, extending.excluded_nodes, extending.agreed, extending.proposed] == [{}] * 4
    made.answer(question)


def test_pods_of_no_interest_are_decided_at_once() -> None:
    managing = structs.replace(FILTER, managed_resources=(ManagedResource(name="example.com/gpu"),))
    made = Extended([4], managing)
    made.scheduler.put(make_node("g").allocatable(cpu=4, pods=9, **{"example.com/gpu": 2}).obj(), made.now)
    made.put(single("plain"), make_pod("a/gpu").uid("gpu").requests(**{"example.com/gpu": 1}))
    decisions = made.step()
    assert set(placed(decisions)) == {"plain"}
    (asked,) = (item for item in decisions if isinstance(item, Asked))
    assert isinstance(asked.question, NodesQuestion)
    assert (asked.pod.name, asked.question.nodes) == ("gpu", ("g",))


def test_a_resource_that_the_extender_accounts_for_does_not_count_on_nodes() -> None:
    item = ManagedResource(name="example.com/gpu-memory", ignored_by_scheduler=True)
    made = Extended([4], structs.replace(FILTER, managed_resources=(item,)))
    made.put(make_pod("a/p").uid("p").requests(**{"example.com/gpu-memory": 7}))
    (question,) = made.asked()
    made.answer(question)
    assert placed(made.step()) == {"p": "n0"}


@pytest.mark.parametrize("reported", [0, 5], ids=["nodes do not report it", "nodes report less"])
def test_a_gang_may_ask_for_what_the_extender_accounts_for(reported: int) -> None:
    memory = "example.com/gpu-memory"
    item = ManagedResource(name=memory, ignored_by_scheduler=True)
    made = Extended([], structs.replace(FILTER, managed_resources=(item,)))
    for name in ("n0", "n1"):
        node = make_node(name).allocatable(cpu=4, pods=9, **({memory: reported} if reported else {}))
        made.scheduler.put(node.obj(), made.now)
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(*(make_pod(f"a/p{i}").uid(f"p{i}").group("g").requests(cpu=1, **{memory: 7}) for i in range(2)))
    (question,) = made.asked()
    made.answer(question, {"n0": "no"})
    assert placed(made.step()) == {"p0": "n1", "p1": "n1"}


def test_resources_ignored_by_the_scheduler_do_not_prevent_eviction() -> None:
    memory = "example.com/gpu-memory"
    item = ManagedResource(name=memory, ignored_by_scheduler=True)
    made = Extended([2], structs.replace(FILTER, managed_resources=(item,)))
    made.put(single("low", 2).on("n0"))
    made.put(make_pod("a/high").uid("high").requests(cpu=2, **{memory: 7}).priority(9))
    assert evicted(made.step()) == {"low"}
    made.scheduler.remove(single("low", 2).on("n0").obj(), made.now)
    made.answer(made.asked(5.0)[0])
    assert placed(made.step()) == {"high": "n0"}


def test_no_pod_is_evicted_for_a_node_that_the_extender_refused() -> None:
    made = Extended([4])
    made.put(single("low").on("n0"), single("high", priority=9))
    made.answer(made.asked()[0], {"n0": "busy"})
    (told,) = made.step()
    assert isinstance(told, Rejected)
    assert told.nominated == ""
    assert not made.state.nominations.uids


def test_questions_are_bounded_and_the_rest_waits_its_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 2)
    made = Extended([9])
    made.put(*(single(f"p{i}").created(i) for i in range(5)))
    under_way, done = made.asked(), set()
    assert len(under_way) == 2
    while under_way:
        made.answer(under_way.pop(0))
        decisions = made.step()
        done |= set(placed(decisions))
        under_way += [item.question for item in decisions if isinstance(item, Asked)]
        assert len(under_way) <= 2
    assert done == {f"p{i}" for i in range(5)}


def test_a_unit_that_leaves_the_line_or_does_not_ask_blocks_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 1)
    made = Extended([9, 2])
    made.put(*(single(f"p{i}", 1 if i in (0, 3) else 8).created(i) for i in range(4)))
    (question,) = made.asked()
    # The second is gone, the third fits nowhere any more.
    made.scheduler.remove(single("p1", 8).obj(), made.now)
    made.put(single("other", 9).on("n0"))
    made.answer(question)
    decisions = made.step()
    assert placed(decisions) == {"p0": "n1"}
    assert set(rejected(decisions)) == {"p2"}
    (question,) = (item.question for item in decisions if isinstance(item, Asked))
    assert question.pod.name == "p3"


def test_questions_about_older_forms_of_a_pod_count_until_they_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 3)
    made = Extended([99])
    asked = []
    for cpu in range(1, 9):
        made.put(single("p", cpu))
        asked += made.asked()
    assert len(asked) == 3, "a pod that changes over and over asks no more than others"
    made.answer(asked[0])
    (question,) = made.asked()
    assert question.pod.requests["cpu"] == 8000
    made.answer(question)
    assert placed(made.step()) == {"p": "n0"}


def test_a_member_that_comes_does_not_let_its_gang_ask_anew() -> None:
    made = Extended([9])
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(member("p0"), member("p1"))
    (question,) = made.asked()
    made.put(member("p2"))
    assert made.step() == []
    made.answer(question)
    (question,) = made.asked()
    assert question.pod.name == "p2"
    made.answer(question)
    assert set(placed(made.step())) == {"p0", "p1", "p2"}


def test_answers_about_deleted_pods_are_forgotten() -> None:
    made = Extended([9])
    for number in range(200):
        pod = single(f"p{number}")
        made.put(pod)
        made.answer(made.asked()[0])
        made.scheduler.remove(pod.obj(), made.now)
    made.put(single("last"))
    made.answer(made.asked()[0])
    made.step()
    assert len(made.state.extending.nodes) < 100
    assert len(made.scheduler.asking.parked.waits) < 100


def test_an_answer_is_not_used_for_a_form_of_the_pod_that_came_after_it() -> None:
    made = Extended([2, 4])
    made.put(single("p"))
    made.answer(made.asked()[0])
    made.put(single("p", 3))
    (question,) = made.asked()
    assert question.nodes == ("n1",)


def test_a_pod_with_an_answer_is_tried_however_many_wait_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 1)
    made = Extended([9])
    made.put(single("late").created(2))
    (question,) = made.asked()
    made.put(single("early").created(1))
    assert made.asked() == []
    made.answer(question)
    # The earlier one takes the place that is free before the later one is tried.
    decisions = made.step()
    assert placed(decisions) == {"late": "n0"}
    assert [item.pod.name for item in decisions if isinstance(item, Asked)] == ["early"]


def test_questions_about_victims_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parked, "MOST_QUESTIONS", 1)
    made = Extended([2, 2], PREEMPT)
    standing(made, 2, 2)
    made.put(single("high", 2, priority=9).created(1), single("higher", 2, priority=9).created(2))
    for _ in range(2):
        decisions = made.step()
        (asked,) = (item for item in decisions if isinstance(item, Asked))
        made.agree(asked.question, *(victim.uid for victim in asked.question.victims))
    assert len(evicted([*decisions, *made.step()])) == 2


def test_nodes_in_a_question_are_bounded_and_the_next_are_asked_about_after(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "MOST_NODES", 2)
    made = Extended([4] * 5)
    made.put(single("p"))
    seen: list[str] = []
    (question,) = made.asked()
    while len(seen) < 4:
        assert len(question.nodes) == 2
        seen += question.nodes
        made.answer(question, dict.fromkeys(question.nodes, "no"))
        (question,) = made.asked()
    assert len(question.nodes) == 1
    made.answer(question, dict.fromkeys(question.nodes, "no"))
    assert "5 no." in why(made.step())["p"]


def test_an_extender_that_binds_does_so_for_pods_of_its_interest() -> None:
    binder = Extender(
        url_prefix="http://b", bind_verb="bind", managed_resources=(ManagedResource(name="example.com/x"),)
    )
    made = Extended([4], binder)
    made.scheduler.put(make_node("g").allocatable(pods=9, cpu=1, **{"example.com/x": 1}).obj(), made.now)
    made.put(single("plain"), make_pod("a/x").uid("x").requests(**{"example.com/x": 1}))
    by = {item.pod.name: item.bind for item in made.step() if isinstance(item, Placed)}
    assert {name: bind.by for name, bind in by.items() if isinstance(bind, Bind)} == {
        "plain": "",
        "x": "http://b",
    }


# Victims


def full(made: Extended, *victims: PodBuilder) -> None:
    for number, victim in enumerate(victims):
        made.put(victim.on(f"n{number}"))


def test_no_pod_is_evicted_before_the_extender_agreed() -> None:
    made = Extended([2], PREEMPT)
    full(made, single("low", 2))
    made.put(single("high", 2, priority=9))
    (question,) = made.asked()
    assert isinstance(question, VictimsQuestion)
    assert (question.node, [victim.name for victim in question.victims]) == ("n0", ["low"])
    made.agree(question, "low")
    decisions = made.step()
    assert evicted(decisions) == {"low"}
    made.scheduler.remove(single("low", 2).on("n0").obj(), made.now)
    assert placed(made.step(5.0)) == {"high": "n0"}


def test_a_node_that_may_not_be_cleared_is_left_out_and_the_next_is_asked_about() -> None:
    made = Extended([2, 2], PREEMPT)
    full(made, single("low", 2), single("lower", 2, priority=-1))
    made.put(single("high", 2, priority=9))
    (question,) = made.asked()
    assert question.node == "n1"
    made.agree(question)
    (question,) = made.asked()
    assert question.node == "n0"
    made.agree(question)
    told = made.step()
    assert not evicted(told)
    assert set(rejected(told)) == {"high"}


def test_victims_that_the_extender_spares_stay() -> None:
    made = Extended([2], PREEMPT)
    made.put(single("one").on("n0"), single("two").on("n0"))
    made.put(single("high", 2, priority=9))
    (question,) = made.asked()
    made.agree(question, "two")
    assert evicted(made.step()) == {"two"}


def test_an_error_about_victims_costs_a_backoff() -> None:
    made = Extended([2], PREEMPT)
    full(made, single("low", 2))
    made.put(single("high", 2, priority=9))
    made.agree(made.asked()[0], error="broken")
    (told,) = made.step()
    assert isinstance(told, Rejected)
    assert (told.reason, told.message) == (REASON_SCHEDULER_ERROR, "broken")


def test_nodes_refused_for_good_are_not_cleared() -> None:
    made = Extended([2, 2])
    made.put(single("low").on("n0"), single("low2").on("n1"))
    made.put(single("high", 1, priority=9))
    made.answer(made.asked()[0], never={"n0": "never", "n1": "never"})
    told = made.step()
    assert not any(isinstance(item, Evicted) for item in told)
    assert "2 never." in why(told)["high"]


# Gangs


def test_a_gang_asks_once_for_members_that_are_alike_and_starts_with_the_answer() -> None:
    made = Extended([2, 2, 2])
    made.scheduler.put(make_group("a/g").uid("g").needs(4).obj(), made.now)
    made.put(*(member(f"p{i}") for i in range(3)))
    assert set(rejected(made.step())) == {"p0", "p1", "p2"}, "too few to ask for"
    made.put(member("p3"))
    (question,) = made.asked(5.0)
    assert sorted(question.nodes) == ["n0", "n1", "n2"]
    made.answer(question, {"n1": "no"})
    assert sorted(placed(made.step()).values()) == ["n0", "n0", "n2", "n2"]


def test_a_gang_whose_nodes_are_refused_waits_and_says_why() -> None:
    made = Extended([2, 2])
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(member("p0", cpu=2), member("p1", cpu=2))
    made.answer(made.asked()[0], {"n1": "not this one"})
    told = why(made.step())
    assert "not this one" in told["p0"]
    made.scheduler.put(make_node("late").allocatable(cpu=2, pods=9).obj(), made.now)
    made.answer(made.asked(10.0)[0], {"n1": "not this one"})
    assert sorted(placed(made.step()).values()) == ["late", "n0"]


def test_members_that_differ_are_asked_about_each() -> None:
    made = Extended([4])
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(member("p0", cpu=1), member("p1", cpu=2))
    first, second = made.asked()
    made.answer(first)
    assert made.step() == []
    made.answer(second)
    assert set(placed(made.step())) == {"p0", "p1"}


def test_a_gang_fails_with_the_extender() -> None:
    made = Extended([4])
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(member("p0"), member("p1"))
    made.answer(made.asked()[0], error="broken")
    assert why(made.step()) == {"p0": "broken", "p1": "broken"}


def standing(made: Extended, *cpus: int) -> None:
    """A pod of no importance on each node."""
    for number, cpu in enumerate(cpus):
        made.put(single(f"low{number}", cpu).on(f"n{number}"))


def gang_that_evicts() -> tuple[Extended, list[Any]]:
    """A gang of two that needs both nodes cleared, and the questions about their victims by node."""
    made = Extended([2, 2], PREEMPT)
    standing(made, 2, 2)
    made.scheduler.put(make_group("a/g").uid("g").needs(2).obj(), made.now)
    made.put(*(member(f"p{i}", cpu=2).priority(9) for i in range(2)))
    questions = made.asked()
    assert {item.node: [pod.name for pod in item.victims] for item in questions} == {
        "n0": ["low0"],
        "n1": ["low1"],
    }
    return made, questions


def test_a_gang_evicts_once_the_extender_agreed_on_every_node() -> None:
    made, questions = gang_that_evicts()
    for question in questions:
        assert made.step() == []
        made.agree(question, *(victim.uid for victim in question.victims))
    assert evicted(made.step()) == {"low0", "low1"}


def test_a_gang_evicts_no_pod_if_the_extender_objects_on_one_node() -> None:
    made, questions = gang_that_evicts()
    made.agree(questions[0], *(victim.uid for victim in questions[0].victims))
    made.agree(questions[1])
    told = made.step()
    assert not evicted(told)
    assert set(rejected(told)) == {"p0", "p1"}
    assert made.step(60.0) == [], "it waits for an event"
