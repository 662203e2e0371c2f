"""Extenders that agree to everything change nothing: the same pods start on the same nodes, the same go."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler_core.config.schema import Extender
from scheduler_core.engine.decisions import Asked, Decision, Evicted, Placed
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.model.extending import NodesAnswer, NodesQuestion, VictimsAnswer
from tests.support.builders import PodBuilder, make_group, make_node, make_pod
from tests.support.extended import Extended
from tests.support.gang_scheduler import GangScheduler
from tests.support.searches import cases

AGREES = Extender(url_prefix="http://x", filter_verb="f", prioritize_verb="p", weight=1, preempt_verb="e")

pods = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 2), st.sampled_from(["", "", "", "g", "h"])), max_size=10
)


def answered(scheduler: Scheduler, question: Any, now: float) -> None:
    if isinstance(question, NodesQuestion):
        scheduler.asking.answered(NodesAnswer(question.number, frozenset(question.nodes)), now)
    else:
        uids = frozenset(victim.uid for victim in question.victims)
        scheduler.asking.answered(VictimsAnswer(question.number, uids), now)


def pod_of(number: int, cpu: int, priority: int, gang: str) -> PodBuilder:
    pod = make_pod(f"a/p{number}").uid(f"p{number}").requests(cpu=cpu).priority(priority).created(number)
    return pod.group(gang) if gang else pod


def played(scheduler: Scheduler, nodes: list[int], given_pods: list[tuple[int, int, str]]) -> list[str]:
    """What is decided, one pod after the other; victims go at once."""
    now, told = 1000.0, []
    known: dict[str, Any] = {}
    for number, cpu in enumerate(nodes):
        scheduler.put(make_node(f"n{number}").allocatable(cpu=cpu, pods=9).obj(), now)
    for name in "gh":
        scheduler.put(make_group(f"a/{name}").uid(name).needs(2).created(1).obj(), now)
    for number, (cpu, priority, gang) in enumerate(given_pods):
        known[f"p{number}"] = pod_of(number, cpu, priority, gang)
        scheduler.put(known[f"p{number}"].obj(), now)
        for _ in range(60):
            now += 1.0
            decisions: list[Decision] = scheduler.step(now, 1)
            for item in decisions:
                if isinstance(item, Asked):
                    answered(scheduler, item.question, now)
                elif isinstance(item, Placed):
                    told.append(f"{item.pod.name} on {item.node}")
                    known[item.pod.name] = known[item.pod.name].on(item.node)
                    scheduler.put(known[item.pod.name].obj(), now)
                elif isinstance(item, Evicted):
                    told.append(f"{item.pod.name} for {item.preemptor.name}")
                    scheduler.remove(known[item.pod.name].obj(), now)
    assert scheduler.state.check() == []
    return told


@settings(deadline=None, max_examples=cases(60))
@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), pods)
def test_the_same_is_decided_as_without_extenders(
    nodes: list[int], given_pods: list[tuple[int, int, str]]
) -> None:
    without = played(GangScheduler().scheduler, nodes, given_pods)
    extended = Extended([], AGREES)
    assert played(extended.scheduler, nodes, given_pods) == without
    extending = extended.state.extending
    assert [extending.nodes, extending.forms, extending.excluded_nodes, extending.agreed] == [{}] * 4
