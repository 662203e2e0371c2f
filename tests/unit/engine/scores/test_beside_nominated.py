"""Which node a pod takes while others are nominated, against a reading of every node."""

from __future__ import annotations

import random

import pytest

from scheduler_core.engine.scores.node_scores import INFEASIBLE
from scheduler_core.framework.status import unschedulable
from tests.support.builders import make_node, make_pod
from tests.support.every import every_seed
from tests.support.gang_scheduler import GangScheduler


@every_seed(range(60))
def test_a_pod_takes_its_own_node_or_the_best_one_that_is_not_nominated(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [(rng.randint(1, 5), rng.randint(1, 5)) for _ in range(rng.randint(1, 4))]
    made = GangScheduler()
    for slot, (cpu, memory) in enumerate(sizes):
        made.scheduler.put(make_node(f"n{slot}").allocatable(cpu=cpu, memory=memory).obj(), made.now)
    state, cycle = made.state, made.scheduler.cycle
    left = [list(size) for size in sizes]
    for number in range(rng.randint(0, 3)):
        slot, cpu = rng.randrange(len(sizes)), rng.randint(0, 1)
        left[slot][0] -= cpu
        made.put(make_pod(f"f/x{number}").uid(f"x{number}").requests(cpu=cpu).on(f"n{slot}"))
    asked = rng.randint(0, 2), rng.randint(0, 2)
    pod = make_pod("f/p").uid(f"p{seed}").requests(cpu=asked[0], memory=asked[1]).priority(5).obj()
    profile = made.scheduler.profiles[pod.scheduler_name]
    free = [
        all(left[slot][kind] >= asked[kind] for kind in (0, 1) if asked[kind]) for slot in range(len(sizes))
    ]
    total = cycle.feasible(profile, pod, made.now).tolist()
    assert [score != INFEASIBLE for score in total] == free
    own = rng.randrange(len(sizes)) if rng.random() < 0.5 else None
    for number in range(rng.randint(1, 3)):
        slot, size = rng.randrange(len(sizes)), (rng.randint(0, 2), rng.randint(0, 2))
        other = make_pod(f"f/w{number}").uid(f"w{number}").requests(cpu=size[0], memory=size[1])
        other.priority(rng.choice((4, 5, 9)))
        state.nominations.put(other.obj(), f"n{slot}", state.vector(other.obj()))
        # Of two that wait for one node and are as important the one named first goes first: p.
        if other.obj().priority >= (6 if slot == own else 5):
            left[slot][0] -= size[0]
            left[slot][1] -= size[1]
    if own is not None:
        state.nominations.put(pod, f"n{own}", state.vector(pod))
    open_to = [
        slot
        for slot in range(len(sizes))
        if free[slot] and all(left[slot][kind] >= asked[kind] for kind in (0, 1) if asked[kind])
    ]
    assert [
        slot for slot, score in enumerate(cycle.feasible(profile, pod, made.now)) if score >= 0
    ] == open_to
    found = cycle.attempt(profile, pod, made.now, post_filter=False).slot
    if own in open_to:
        assert found == own
    elif open_to:
        assert found in open_to
        assert total[found] == max(total[slot] for slot in open_to)
    else:
        assert found == -1


@pytest.mark.parametrize(("port", "takes"), [(80, "n1"), (81, "n0")])
def test_what_is_no_matter_of_room_is_looked_at_on_the_node_that_would_be_taken(
    port: int, takes: str
) -> None:
    """n0 is the better one, and somebody who goes first is nominated there for port 80."""
    made = GangScheduler([90, 4])
    ports = [{"containerPort": 1, "hostPort": 80}]
    waiting = make_pod("f/w").uid("w").requests(cpu=1).priority(9)
    waiting.raw["spec"]["containers"][0]["ports"] = ports
    made.state.nominations.put(waiting.obj(), "n0", made.state.vector(waiting.obj()))
    pod = make_pod("f/p").uid("p").requests(cpu=1)
    pod.raw["spec"]["containers"][0]["ports"] = [{"containerPort": 1, "hostPort": port}]
    profile = made.scheduler.profiles[pod.obj().scheduler_name]
    attempt = made.scheduler.cycle.attempt(profile, pod.obj(), made.now)
    assert made.state.nodes.names[attempt.slot] == takes


def test_a_pod_that_no_node_is_left_for_waits() -> None:
    made = GangScheduler([4])
    ports = [{"containerPort": 1, "hostPort": 80}]
    pods = {}
    for name, priority in (("w", 9), ("p", 0)):
        pods[name] = make_pod(f"f/{name}").uid(name).requests(cpu=1).priority(priority)
        pods[name].raw["spec"]["containers"][0]["ports"] = ports
    waiting = pods["w"].obj()
    made.state.nominations.put(waiting, "n0", made.state.vector(waiting))
    profile = made.scheduler.profiles[waiting.scheduler_name]
    attempt = made.scheduler.cycle.attempt(profile, pods["p"].obj(), made.now, post_filter=False)
    assert attempt.slot == -1
    assert attempt.diagnosis is not None
    assert "1 node(s) kept for nominated pods" in attempt.diagnosis.message


def test_a_kind_that_is_refused_before_the_nodes_fits_none(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([4])
    cycle = made.scheduler.cycle
    pod = make_pod("f/p").uid("p").requests(cpu=1).obj()
    profile = made.scheduler.profiles[pod.scheduler_name]
    assert cycle.feasible(profile, pod, made.now).tolist() != [INFEASIBLE]
    scores = cycle.scores_for(profile, cycle.new_cycle(profile, pod, made.now))
    monkeypatch.setattr(scores, "status", unschedulable("not this kind"))
    assert cycle.feasible(profile, pod, made.now).tolist() == [INFEASIBLE]
