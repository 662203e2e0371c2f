"""One attempt of a group on the tree: how many members start, what the others are told, what is held."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from scheduler_core.engine.binding import ReservedPod
from scheduler_core.engine.gang import topology_placement
from scheduler_core.engine.gang.members import in_index_order
from scheduler_core.engine.gang.outcome import Lack, MustWait, Outcome, Starts
from scheduler_core.engine.gang.topology_cycle import TopologyCycle
from scheduler_core.engine.gang.topology_placement import (
    PlacementFailure,
    TopologyPlacer,
    in_layers,
    place_singly,
    reserve_on,
)
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Diagnosis, Status, unschedulable
from scheduler_core.model.names import TOPOLOGY_CONSTRAINTS_ANNOTATION
from scheduler_core.topology.placer import Infeasible
from tests.support.builders import PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.every import every_seed
from tests.unit.engine.gang.outcomes import names, reserved, waiting
from tests.unit.engine.test_pod_cycle import Rig
from tests.unit.engine.topology_scheduler import TopologyScheduler, member, members, nodes, why

ONE_RACK = '{"rack": {"type": "pack", "hard": true}}'
ONE_EACH = '{"node": {"max": 1}}'
TOPOLOGY = "ClusterTopologyPlacementGroup"


def pod_group(made: TopologyScheduler, needs: int, constraints: str = ONE_RACK) -> None:
    group = make_group("a/g").uid("g").needs(needs).annotation(TOPOLOGY_CONSTRAINTS_ANNOTATION, constraints)
    made.put(group)


def grouped(number: int, cpu: int = 1, created: float = 0.0) -> PodBuilder:
    name = f"g-{number}"
    return make_pod(f"a/{name}").uid(name).requests(cpu=cpu).group("g").created(created or number)


def run(made: TopologyScheduler, dialect: str = "PodGroup") -> Outcome | None:
    """The group cycle alone, on the waiting members in the order in which they came."""
    pods = list(made.scheduler.queue.units[f"a/g {dialect}"].pods.values())
    members = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in pods]
    return made.scheduler.unit_cycle.topology_cycle.run(
        made.state.gangs.gangs.get(f"a/g {dialect}"), members, made.now
    )


def ran(made: TopologyScheduler, dialect: str = "PodGroup") -> Outcome:
    found = run(made, dialect)
    assert found is not None
    assert not (isinstance(found, Starts) and found.singly)
    return found


# A PodGroup starts with as many as its constraints allow, and at least minMembers


@every_seed(range(40))
def test_as_many_as_one_rack_holds_start_if_they_are_enough(seed: int) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(0, 3) for _ in range(6)]
    made = TopologyScheduler(*sizes)
    number = rng.randint(1, 6)
    need = rng.randint(1, number)
    pod_group(made, need)
    made.put(*(grouped(index) for index in range(number)))
    outcome = ran(made)
    most = max(sum(sizes[rack : rack + 2]) for rack in (0, 2, 4))
    started = min(most, number) if min(most, number) >= need else 0
    assert names(outcome) == [f"g-{index}" for index in range(started)], "the oldest"
    assert set(outcome.refused) == {f"g-{index}" for index in range(started, number)}
    assert len(made.state.placed) == started
    assert len({int(made.state.nodes.names[item.slot][1:]) // 2 for item in reserved(outcome)}) <= 1
    texts = set(outcome.refused.values())
    if started:
        text = "PodGroup a/g: no place that meets the constraints beside the members that are placed"
        assert texts <= {text}
        assert outcome.plugins == {TOPOLOGY}
    else:
        assert {TOPOLOGY} < outcome.plugins


def test_members_beyond_a_started_group_are_placed_one_by_one_and_evict_no_pod() -> None:
    made = TopologyScheduler(3, 1)
    pod_group(made, 1, ONE_EACH)
    made.group("low", 1, "{}", priority="0")
    made.put(*(pod.on("n1").priority(0) for pod in members("low", 1)))
    made.put(grouped(0).on("n0"), *(grouped(number).priority(9) for number in (1, 2)))
    outcome = ran(made)
    assert waiting(outcome).preemption is None
    made.put(make_node("n1").allocatable(cpu=2))
    assert names(ran(made)) == ["g-1"], "one more, as one node has none of them"


def test_where_rules_between_pods_leave_fewer_the_least_start() -> None:
    made = TopologyScheduler(9, 9, 9)
    pod_group(made, 2, "{}")
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.put(*(grouped(number).labels(app="x").spec(affinity=affinity) for number in range(5)))
    assert names(ran(made)) == ["g-0", "g-1", "g-2"], "one on each node, and the others wait"


def test_a_member_that_finds_no_place_ends_the_search_for_the_others() -> None:
    made = TopologyScheduler(2)
    pod_group(made, 1, "{}")
    made.put(grouped(0), grouped(1, 2), grouped(2))
    assert names(ran(made)) == ["g-0"], "what there is belongs to the older"


def test_a_trial_that_broke_while_members_joined_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(2, 1)
    pod_group(made, 1)
    made.put(*(grouped(number) for number in range(4)))
    original = TopologyPlacer.place
    asked: list[list[str]] = []

    def place(self: Any, gang: Any, members: Any, now: float) -> Any:
        asked.append([pod.name for _, pod in members])
        if len(asked) == 3:
            raise ZeroDivisionError("bug")
        return original(self, gang, members, now)

    monkeypatch.setattr(TopologyPlacer, "place", place)
    with pytest.raises(ZeroDivisionError):
        run(made)
    assert asked == [["g-0", "g-1", "g-2", "g-3"], ["g-0", "g-1", "g-2"], ["g-3"]]
    assert (made.state.placed, made.state.check()) == ({}, [])


# Groups of a size


def test_no_more_than_the_size_are_tried_those_of_lower_index_first() -> None:
    made = TopologyScheduler(9)
    made.group("g", 2, "{}")
    made.put(*(member("g", number).created(5.0) for number in (10, 2, 7, 1)))
    outcome = ran(made, "ConfigMap")
    assert names(outcome) == ["g-1", "g-2"]
    assert set(outcome.refused) == {"g-7", "g-10"}
    assert outcome.plugins == {TOPOLOGY}


def test_a_complete_group_is_no_matter_of_nodes() -> None:
    made = TopologyScheduler(9)
    made.group("g", 1, "{}")
    made.put(member("g", 0).on("n0"), member("g", 1))
    outcome = ran(made, "ConfigMap")
    assert (waiting(outcome).lack, outcome.plugins) == (Lack.ROOM, {TOPOLOGY})


@pytest.mark.parametrize(("number", "few"), [(1, True), (2, False), (3, False)])
def test_a_group_with_too_few_members_says_so(number: int, few: bool) -> None:
    made = TopologyScheduler(1)
    made.group("g", 2, "{}")
    made.put(*members("g", number))
    outcome = ran(made, "ConfigMap")
    assert waiting(outcome).lack is (Lack.PODS if few else Lack.ROOM)
    assert outcome.plugins == {TOPOLOGY} if few else {TOPOLOGY, "NodeResourcesFit"} <= outcome.plugins


def test_trials_are_counted_per_member_while_it_waits() -> None:
    made = TopologyScheduler(1)
    made.group("g", 2, "{}")
    made.put(*members("g", 2))
    record = made.state.topology.runs
    for number in (1, 2, 3):
        run(made, "ConfigMap")
        assert dict(record["a/g ConfigMap"].trials) == {"g-0": number, "g-1": number}
    made.put(member("g", 2))
    run(made, "ConfigMap")
    assert dict(record["a/g ConfigMap"].trials) == {"g-0": 4, "g-1": 4, "g-2": 1}
    made.scheduler.remove(made.state.pods["g-0"], made.now)
    run(made, "ConfigMap")
    assert dict(record["a/g ConfigMap"].trials) == {"g-1": 5, "g-2": 2}


# Which groups are a matter of topology


def profile_of(*enabled: str) -> Profile:
    return cast(Profile, SimpleNamespace(enabled=frozenset(enabled), name="x"))


@pytest.mark.parametrize(
    ("profiles", "pod", "taken"),
    [
        pytest.param([[TOPOLOGY]], member("g", 0), True, id="a group ConfigMap that is not there"),
        pytest.param([[TOPOLOGY]], grouped(0), True, id="a PodGroup that is not there"),
        pytest.param([[TOPOLOGY, "Coscheduling"]], grouped(0), False, id="that is left to Coscheduling"),
        pytest.param([[TOPOLOGY]], make_pod("a/p"), False, id="no group at all"),
        pytest.param([["Coscheduling"]], member("g", 0), True, id="a profile without topology"),
        pytest.param([[TOPOLOGY], []], member("g", 0), True, id="one of two profiles without topology"),
        pytest.param([], member("g", 0), False, id="nobody waits"),
    ],
)
def test_the_plugin_that_knows_the_group_reports_what_is_missing(
    profiles: list[list[str]], pod: PodBuilder, taken: bool
) -> None:
    made = TopologyScheduler(9)
    pairs = [(profile_of(*enabled), pod.obj()) for enabled in profiles]
    outcome = made.scheduler.unit_cycle.topology_cycle.run(None, pairs, made.now)
    assert (outcome is not None) is taken
    if outcome is not None:
        assert (type(outcome), outcome.plugins) == (MustWait, {TOPOLOGY})
        (text,) = outcome.refused.values()
        assert text.endswith("a/g does not exist; its pods wait until it is created")


@pytest.mark.parametrize(
    ("constraints", "runs"),
    [
        pytest.param('{"rack": {"type": "pack"}}', True, id="preferences: left to the cycle of gangs"),
        pytest.param('{"rack": {"type": "pack", "hard": true}}', False, id="one unit"),
        pytest.param('{"rack": {"factor": 2}}', False, id="a factor"),
        pytest.param('{"rack": {', False, id="a text that nobody can read"),
    ],
)
def test_a_member_without_topology_keeps_a_strict_group_waiting(constraints: str, runs: bool) -> None:
    made = TopologyScheduler(9)
    pod_group(made, 1, constraints)
    made.put(grouped(0), grouped(1).scheduler("other"))
    gang = made.state.gangs.gangs["a/g PodGroup"]
    ours = next(iter(made.scheduler.profiles.values()))
    pairs = [(ours, grouped(0).obj()), (profile_of("Coscheduling"), grouped(1).obj())]
    outcome = made.scheduler.unit_cycle.topology_cycle.run(gang, pairs, made.now)
    assert (outcome is None) is runs
    if outcome is not None:
        text = (
            "PodGroup a/g: not enforced: 1 of 2 members are with other, and no profile of that name has "
            "ClusterTopologyPlacementGroup; the group waits: enable the plugin there, or give the members a "
            "scheduler that has it"
        )
        assert set(outcome.refused.values()) == {text}
        assert reserved(outcome) == []


def test_a_pod_group_that_says_nothing_of_places_is_another_plugins() -> None:
    made = TopologyScheduler(9)
    made.put(make_group("a/g").uid("g").needs(1), grouped(0))
    assert run(made) is None


# Placing


def refusing(
    made: TopologyScheduler, monkeypatch: pytest.MonkeyPatch, answer: Callable[[str, int], object]
) -> list[tuple[str, int]]:
    """Let `answer(pod, members on its node)` refuse members their nodes; the tries: (node, members there)."""
    tries: list[tuple[str, int]] = []
    original = reserve_on

    def wrapped(cycle: Any, profile: Any, pod: Any, slot: int, now: float) -> Any:
        there = len(made.state.nodes.pods[slot])
        tries.append((made.state.nodes.names[slot], there))
        return answer(pod.name, there) or original(cycle, profile, pod, slot, now)

    monkeypatch.setattr(topology_placement, "reserve_on", wrapped)
    return tries


def refused(text: str) -> Diagnosis:
    return Diagnosis(0, unschedulable(text), plugins=frozenset({"Somebody"}))


@every_seed(range(30))
def test_a_group_goes_where_filters_let_it_whatever_they_refuse(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    sizes = [rng.randint(1, 4) for _ in range(4)]
    caps = {f"n{slot}": rng.randint(0, 4) for slot in range(4)}
    made = TopologyScheduler(*sizes)
    size = rng.randint(1, 8)
    made.group("g", size, rng.choice(("{}", '{"rack": {"type": "spread"}}')))
    made.put(*members("g", size))
    monkeypatch.setattr(topology_placement, "place_singly", lambda *args: None)
    tries = refusing(
        made, monkeypatch, lambda pod, there: refused("full") if there >= caps[tries[-1][0]] else None
    )
    outcome = ran(made, "ConfigMap")
    open_to = sum(min(cpu, caps[f"n{slot}"]) for slot, cpu in enumerate(sizes))
    assert (len(reserved(outcome)) == size) is (open_to >= size)
    assert len(made.state.placed) == (size if open_to >= size else 0)
    if open_to < size <= sum(sizes):
        (text,) = set(outcome.refused.values())
        assert f"{size} members need a slot" in text
        assert text.endswith(": full")
        assert "Somebody" in outcome.plugins


def test_a_refusal_of_every_node_ends_the_search_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(1, 1, 1, 1)
    made.group("g", 3, "{}")
    made.put(*members("g", 3))
    tries = refusing(
        made,
        monkeypatch,
        lambda pod, there: (
            Status(unschedulable("").code, "the quota is full", "Quota") if pod == "g-1" else None
        ),
    )
    outcome = ran(made, "ConfigMap")
    assert (len(tries), made.state.placed) == (2, {})
    (text,) = set(outcome.refused.values())
    assert text.endswith("its placements do not pass the filters: the quota is full")
    assert "Quota" in outcome.plugins


def test_one_by_one_is_the_last_resort_and_no_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(1, 1, 1, 1)
    made.group("g", 2, '{"rack": {"type": "pack"}}')
    made.put(*members("g", 2))
    refusing(made, monkeypatch, lambda pod, there: refused("never"))
    outcome = ran(made, "ConfigMap")
    assert len(reserved(outcome)) == 2
    assert not made.state.topology.runs["a/g ConfigMap"].optimal
    made = TopologyScheduler(1, 1, 1, 1)
    made.group("g", 2, "{}")
    made.put(*members("g", 2))
    monkeypatch.undo()
    ran(made, "ConfigMap")
    assert made.state.topology.runs["a/g ConfigMap"].optimal


def test_one_by_one_counts_only_if_the_strict_rules_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best node for a pod alone is the emptiest: another rack than that of the member that runs."""
    made = TopologyScheduler(4, 4, 90, 90)
    made.group("g", 2, ONE_RACK)
    made.put(member("g", 0).on("n0"), member("g", 1))
    refusing(made, monkeypatch, lambda pod, there: refused("never"))
    outcome = ran(made, "ConfigMap")
    assert (reserved(outcome), set(made.state.placed)) == ([], {"g-0"})
    made.put(make_node("n1").allocatable(cpu=900))
    assert len(reserved(ran(made, "ConfigMap"))) == 1


def test_a_node_outside_of_the_tree_is_no_place_and_is_said() -> None:
    made = TopologyScheduler(1)
    made.put(make_node("far").allocatable(cpu=50), make_node("off").allocatable(cpu=50))
    made.group("g", 2, "{}")
    made.put(*members("g", 2))
    (text,) = why(made.step())
    assert text.endswith("; 2 nodes of the cluster are not in the topology")


def test_one_by_one_no_member_is_placed_outside_of_the_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(4)
    made.put(make_node("far").allocatable(cpu=500))
    made.group("g", 1, "{}")
    made.put(*members("g", 1))
    refusing(made, monkeypatch, lambda pod, there: refused("never"))
    assert (reserved(ran(made, "ConfigMap")), made.state.placed) == ([], {})


def test_members_are_ranked_along_the_tree_with_their_writes() -> None:
    made = TopologyScheduler(1, 1, 1)
    made.group("g", 3, "{}")
    made.put(member("g", 1).on("n1"), member("g", 0), member("g", 2))
    found = reserved(ran(made, "ConfigMap"))
    labels = [item.pre_bind[-1].body["metadata"]["labels"] for item in found]  # type: ignore[union-attr]
    assert [int(label["sakkara.member.rank"]) for label in labels] == [0, 2]
    record = made.state.topology.runs["a/g ConfigMap"]
    assert record.ranks == {"g-0": 0, "g-1": 1, "g-2": 2}
    assert (record.end, record.reason, record.best_hops) == (made.now, "", None)
    assert record.idle is not None
    assert record.idle[1].tolist() == [1, 1, 1], "whatever is used now"


@every_seed(range(20))
def test_members_take_their_leaves_layer_by_layer(seed: int) -> None:
    rng = random.Random(seed)
    added = [rng.randint(0, 3) for _ in range(5)]
    pods = [cast(Any, (None, number)) for number in range(sum(added))]
    found = list(in_layers(pods, np.array(added, dtype=np.int64)))
    along = [leaf for leaf, number in enumerate(added) for _ in range(number)]
    assert sorted((member[1], leaf) for member, leaf in found) == list(enumerate(along))
    layers = [[leaf for leaf, number in enumerate(added) if number > layer] for layer in range(3)]
    assert [leaf for _, leaf in found] == [leaf for layer in layers for leaf in layer]


def test_slots_are_given_out_by_the_index_in_the_name() -> None:
    pods = [cast(Any, (None, member("g", number).obj())) for number in (10, 2, 1)]
    assert [pod.name for _, pod in in_index_order(pods)] == ["g-1", "g-2", "g-10"]


# One member on one node


def test_a_member_is_refused_its_node_by_filters_rules_and_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(1, 4, 4, quotas=True)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.put(make_pod("a/x").uid("x").labels(app="x").on("n1"))
    pod = make_pod("a/p").uid("p").requests(cpu=2).spec(affinity=affinity)
    profile = next(iter(made.scheduler.profiles.values()))
    cycle = made.scheduler.cycle
    for slot, node in ((0, "n0"), (1, "n1")):
        found = reserve_on(cycle, profile, pod.obj(), slot, made.now)
        assert isinstance(found, Diagnosis)
        assert found.status is not None
        assert found.status.reason == f"a/p does not pass the filters on node {node}"
        assert found.plugins == profile.enabled
    monkeypatch.setattr(type(cycle), "reserve", lambda *args: unschedulable("no").of("Somebody"))
    found = reserve_on(cycle, profile, pod.obj(), 2, made.now)
    assert isinstance(found, Diagnosis)
    assert (found.plugins, found.status) == ({"Somebody"}, unschedulable("no").of("Somebody"))
    monkeypatch.undo()
    found = reserve_on(cycle, profile, pod.obj(), 2, made.now)
    assert isinstance(found, ReservedPod)
    assert made.state.nodes.names[made.state.placed["p"].slot] == "n2"
    made.put(make_quota("a/q").min(cpu=2).max(cpu=2))
    assert isinstance(reserve_on(cycle, profile, make_pod("a/q").requests(cpu=1).obj(), 2, made.now), Status)


def test_a_node_of_no_merit_is_a_node() -> None:
    rig = Rig(4)
    found = reserve_on(rig.cycle, rig.profile, make_pod("a/p").uid("p").requests(cpu=1).obj(), 0, 7.0)
    assert isinstance(found, ReservedPod)


# Time


def test_a_search_is_timed_and_ends_with_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(4)
    now = [100.0]
    groups = TopologyCycle(made.scheduler.cycle, lambda: now[0])
    profile = next(iter(made.scheduler.profiles.values()))
    budget = made.state.topology.settings[profile.name].budget_seconds
    over = groups.placer.expired(profile)
    for seconds, expected in ((0.0, False), (budget - 0.5, False), (budget, True), (budget + 1, True)):
        now[0] = 100.0 + seconds
        assert over() is expected
    made.group("g", 1, "{}")
    made.put(*members("g", 1))
    asked: list[bool] = []

    def place(*args: Any, expired: Callable[[], bool], **more: Any) -> Infeasible:
        asked.append(expired())
        now[0] += 3.0
        return Infeasible("no")

    monkeypatch.setattr(topology_placement, "place", place)
    pods = [(profile, pod.obj()) for pod in members("g", 1)]
    for number in (1, 2):
        found = groups.placer.place(made.state.gangs.gangs["a/g ConfigMap"], pods, 5.0)
        assert isinstance(found, PlacementFailure)
        assert made.state.topology.runs["a/g ConfigMap"].solver_seconds == 3.0 * number
    assert asked == [False, False]


def test_the_message_is_only_the_fault_of_the_group() -> None:
    made = TopologyScheduler(4)
    made.group("g", 1, '{"rack": {"type": "heap"}}')
    made.put(*members("g", 1))
    gang = made.state.gangs.gangs["a/g ConfigMap"]
    profile = next(iter(made.scheduler.profiles.values()))
    found = made.scheduler.unit_cycle.topology_cycle.placer.place(
        gang, [(profile, member("g", 0).obj())], made.now
    )
    assert found == PlacementFailure(gang.problem, faulty=True)
    assert gang.problem
    assert nodes(made.step()) == {}


def test_one_by_one_a_leaf_without_a_node_is_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(1, 1)
    made.scheduler.remove(make_node("n0").allocatable(cpu=1).obj(), made.now)
    made.group("g", 1, "{}")
    made.put(*members("g", 1), make_pod("f/x").uid("x").requests(cpu=1).on("n1"))
    question: Any = SimpleNamespace(
        slots=SimpleNamespace(nodes=np.array([-1, made.state.nodes.slot("n1")], dtype=np.int64)),
        fixed=np.zeros(2, dtype=np.int64),
        members=[(next(iter(made.scheduler.profiles.values())), member("g", 0).obj())],
    )
    assert place_singly(made.scheduler.unit_cycle.topology_cycle.placer, question, made.now) is None
    assert set(made.state.placed) == {"x"}


def test_a_node_that_refused_one_member_is_not_tried_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    made = TopologyScheduler(3)
    made.group("g", 3, "{}")
    made.put(*members("g", 3))
    monkeypatch.setattr(topology_placement, "place_singly", lambda *args: None)
    tries = refusing(made, monkeypatch, lambda pod, there: refused("never"))
    assert reserved(ran(made, "ConfigMap")) == []
    assert tries == [("n0", 0)]
