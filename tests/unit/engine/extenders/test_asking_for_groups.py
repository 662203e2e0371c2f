"""Groups on a topology whose nodes HTTP extenders have a say in."""

from __future__ import annotations

import pytest

from scheduler_core.config.schema import Extender
from scheduler_core.engine.decisions import Asked, Decision
from scheduler_core.model.extending import NodeRefusal, NodesAnswer, NodesQuestion, VictimsAnswer
from scheduler_core.plugins.extenders import Extenders
from tests.unit.engine.topology_scheduler import TopologyScheduler, gone, member, members, nodes, why


def questions(decisions: list[Decision]) -> list[NodesQuestion]:
    found = [item.question for item in decisions if isinstance(item, Asked)]
    assert len(found) == len(decisions)
    return [item for item in found if isinstance(item, NodesQuestion)]


def answer(made: TopologyScheduler, question: NodesQuestion, *refused: str) -> None:
    reasons = {name: NodeRefusal("no") for name in refused}
    said = NodesAnswer(question.number, frozenset(question.nodes), reasons)
    made.scheduler.asking.answered(said, made.now)


def asking(*cpus: int, verb: str = "filter_verb") -> TopologyScheduler:
    extender = Extender(url_prefix="http://x", **{verb: "v"})
    return TopologyScheduler(*cpus, beside=Extenders((extender,)))


@pytest.mark.parametrize(
    ("refused", "rack"), [((), {"n0", "n1"}), (("n0",), {"n2", "n3"}), (("n3",), {"n0", "n1"})]
)
def test_a_packed_group_goes_where_all_its_nodes_are_let(refused: tuple[str, ...], rack: set[str]) -> None:
    made = asking(2, 2, 2, 2)
    made.group("g", 4)
    made.put(*members("g", 4))
    (question,) = questions(made.step())
    assert set(question.nodes) == {"n0", "n1", "n2", "n3"}
    answer(made, question, *refused)
    assert set(nodes(made.step()).values()) == rack


def test_a_group_without_a_place_that_is_let_waits() -> None:
    made = asking(2, 2, 2, 2)
    made.group("g", 4)
    made.put(*members("g", 4))
    (question,) = questions(made.step())
    answer(made, question, "n0", "n2", "n3")
    decisions = made.step()
    assert not nodes(decisions)
    assert len(why(decisions)) == 1
    assert not made.state.extending.nodes


@pytest.mark.parametrize("agrees", [True, False])
def test_a_group_evicts_only_what_the_extender_lets_go(agrees: bool) -> None:
    made = asking(2, verb="preempt_verb")
    made.group("low", 2)
    made.put(*(pod.priority(0) for pod in members("low", 2)))
    assert len(nodes(made.step())) == 2
    made.put(*(member("low", i).on("n0") for i in range(2)))
    made.group("high", 2)
    made.put(*(pod.priority(9) for pod in members("high", 2)))
    (asked,) = (item for item in made.step() if isinstance(item, Asked))
    uids = frozenset({"low-0", "low-1"}) if agrees else frozenset()
    made.scheduler.asking.answered(VictimsAnswer(asked.question.number, uids), made.now)
    assert gone(made.step()) == ({"low-0", "low-1"} if agrees else set())
