"""The domain of a native group: what each holds, which is best, and where the group belongs already."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.decisions import Evicted, Placed, Rejected
from scheduler_core.engine.gang.topology_domains import best_domains, domain_numbers, home_of, kinds_in
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.groups.native import parse_native_gang
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import Domain
from tests.support.builders import PodBuilder, make_node, make_pod
from tests.support.every import every_seed

KEY = "rack"


def cluster(*cpus: tuple[str, int], priority: int = 0) -> Scheduler:
    """Nodes n0, n1, ... as (rack, CPUs); an empty rack is no label. The group a/g has minCount 2."""
    made = Scheduler(ClusterState(), build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS))
    for number, (rack, cpu) in enumerate(cpus):
        node = make_node(f"n{number}").allocatable(cpu=cpu)
        made.put((node.label(KEY, rack) if rack else node).obj(), 0.0)
    policy = {"gang": {"minCount": 2}}
    constraints = {"topology": [{"key": KEY}]}
    spec = {"schedulingPolicy": policy, "schedulingConstraints": constraints, "priority": priority}
    meta = {"name": "g", "namespace": "a", "uid": "g"}
    made.put(parse_native_gang({"metadata": meta, "spec": spec}), 0.0)
    return made


def member(number: int, cpu: int = 1) -> PodBuilder:
    pod = make_pod(f"a/p{number}").uid(f"p{number}").requests(cpu=cpu).created(number)
    return pod.spec(schedulingGroup={"podGroupName": "g"})


@every_seed(range(60))
def test_a_group_takes_the_domain_that_an_exhaustive_look_finds_best(seed: int) -> None:
    rng = random.Random(seed)
    nodes = [(rng.choice(["r0", "r1", "r2", ""]), rng.randint(0, 3)) for _ in range(7)]
    number = rng.randint(1, 5)
    made = cluster(*nodes)
    for index in range(number):
        made.put(member(index).obj(), 0.0)
    placed = {item.pod.name: item.node for item in made.step(1.0) if isinstance(item, Placed)}
    room = {rack: sum(cpu for there, cpu in nodes if there == rack) for rack, _ in nodes if rack}
    fits = {rack: min(cpus, number) for rack, cpus in room.items() if min(cpus, number) >= 2}
    racks = {nodes[int(node[1:])][0] for node in placed.values()}
    if number < 2 or not fits:
        assert placed == {}
        return
    most = max(fits.values())
    points = {
        rack: held * 100 // most + held * 1000 * 100 // (room[rack] * 1000) for rack, held in fits.items()
    }
    best = min(fits, key=lambda rack: (-points[rack], rack))
    assert (racks, len(placed)) == ({best}, fits[best])


def test_members_that_leave_do_not_hold_the_group_back() -> None:
    made = cluster(("r0", 2), ("r1", 2))
    made.put(member(0).on("n0").obj(), 0.0)
    gang = made.state.gangs.gangs["a/g native-PodGroup"]
    numbers = domain_numbers(made.state, KEY)
    assert home_of(made.state, gang, numbers) == Domain(KEY, "r0", int(numbers[0]))
    made.state.mark_leaving("p0")
    assert home_of(made.state, gang, numbers) is None


def test_members_on_nodes_that_are_gone_do_not_hold_the_group_back() -> None:
    made = cluster(("r0", 2), ("r1", 2))
    for number in range(2):
        made.put(member(number).on(f"n{number}").obj(), 0.0)
    made.remove(make_node("n1").obj(), 1.0)
    gang = made.state.gangs.gangs["a/g native-PodGroup"]
    found = home_of(made.state, gang, domain_numbers(made.state, KEY))
    assert isinstance(found, Domain)
    assert found.value == "r0"


@pytest.mark.parametrize(
    ("second", "text"),
    [
        pytest.param("r1", "1 in rack=r1, 1 in rack=r0", id="two racks"),
        pytest.param("", "1 in rack=r0, 1 on nodes without rack", id="a node without the label"),
    ],
)
def test_a_group_that_runs_in_two_domains_is_told_in_one_line(second: str, text: str) -> None:
    made = cluster(("r0", 1), (second, 1), ("r0", 9))
    for number in range(2):
        made.put(member(number).on(f"n{number}").obj(), 0.0)
    made.put(member(2).obj(), 0.0)
    (told,) = {item.message for item in made.step(1.0) if isinstance(item, Rejected)}
    assert told == (
        "PodGroup a/g: spec.schedulingConstraints.topology[0].key: rack: its running members are not in one "
        f"domain ({text}), so no other member can join them; restart the group, or correct the labels of "
        "the nodes"
    )


def test_a_key_that_no_node_has_is_told_with_the_field_and_the_rule() -> None:
    made = cluster(("", 9), ("", 9))
    for number in range(2):
        made.put(member(number).obj(), 0.0)
    (told,) = {item.message for item in made.step(1.0) if isinstance(item, Rejected)}
    assert told == (
        "PodGroup a/g: spec.schedulingConstraints.topology[0].key: rack: no node has this label, and "
        "a domain is one value of it; label the nodes, or make the group anew with a key that they have"
    )
    assert made.state.placed == {}


def test_a_domain_that_is_too_small_is_told_with_its_numbers() -> None:
    made = cluster(("r0", 1), ("r1", 1), ("", 9))
    for number in range(2):
        made.put(member(number).obj(), 0.0)
    (told,) = {item.message for item in made.step(1.0) if isinstance(item, Rejected)}
    assert told == (
        "PodGroup a/g: no value of rack has room for the 2 pods that must start together on its nodes; "
        "r0 has most, for 1"
    )


def test_pods_that_are_gone_make_room_in_their_domain_only() -> None:
    made = cluster(("r0", 2), ("r1", 1))
    made.put(make_pod("b/x").uid("x").requests(cpu=2).on("n0").obj(), 0.0)
    (profile,) = made.profiles.values()
    members = [(profile, member(number).obj()) for number in range(2)]
    kinds = kinds_in(made.cycle, members, 1.0)
    assert isinstance(kinds, list)
    gone = np.zeros(made.state.table.size, dtype=np.bool_)

    def found(least: int, without: bool) -> list[tuple[str, int]]:
        gone[made.state.placed["x"].row] = without
        return [(room.domain.value, room.fits) for room in best_domains(made.state, KEY, kinds, least, gone)]

    assert found(1, without=False) == [("r1", 1)]
    assert found(2, without=False) == []
    assert found(2, without=True) == [("r0", 2)]


def near(label: str) -> dict[str, list[dict[str, object]]]:
    term = {"labelSelector": {"matchLabels": {"app": label}}, "topologyKey": "kubernetes.io/hostname"}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def placed_by(made: Scheduler) -> dict[str, str]:
    return {item.pod.name: item.node for item in made.step(1.0) if isinstance(item, Placed)}


def test_a_member_that_must_be_near_a_sibling_finds_the_domain_of_both() -> None:
    made = cluster(("r0", 1), ("r1", 2))
    made.put(member(0).spec(affinity={"podAffinity": near("leader")}).obj(), 0.0)
    made.put(member(1).label("app", "leader").obj(), 0.0)
    assert placed_by(made) == {"p0": "n1", "p1": "n1"}


def test_a_member_that_must_be_near_a_stranger_waits_for_one() -> None:
    made = cluster(("r0", 2))
    made.put(member(0).spec(affinity={"podAffinity": near("leader")}).obj(), 0.0)
    made.put(member(1).obj(), 0.0)
    assert placed_by(made) == {}


def test_a_domain_whose_pods_the_members_refuse_is_taken_by_evicting_them() -> None:
    made = cluster(("r0", 9), priority=5)
    victim = make_pod("a/x").uid("x").label("app", "rival").requests(cpu=1).on("n0")
    made.put(victim.obj(), 0.0)
    for number in range(2):
        made.put(member(number).priority(5).spec(affinity={"podAntiAffinity": near("rival")}).obj(), 0.0)
    assert [item.pod.name for item in made.step(1.0) if isinstance(item, Evicted)] == ["x"]


@pytest.mark.parametrize("annotated", [False, True], ids=["only a key", "constraints too"])
@pytest.mark.parametrize("cpus", [(1, 1), (2, 1)], ids=["equal members", "unequal members"])
def test_only_groups_that_ask_for_more_than_their_key_cost_a_request_per_member(
    cpus: tuple[int, int], annotated: bool
) -> None:
    made = cluster(("r0", 3))
    if annotated:
        gang = made.state.gangs.gangs["a/g native-PodGroup"]
        made.put(msgspec.structs.replace(gang, constraints='{"node": {"type": "pack"}}'), 0.0)
        cpus = (1, 1)
    for number, cpu in enumerate(cpus):
        made.put(member(number, cpu).obj(), 0.0)
    placed = [item for item in made.step(1.0) if isinstance(item, Placed)]
    assert len(placed) == 2
    assert [bool(item.pre_bind) for item in placed] == [annotated] * 2
    assert sorted(made.state.topology.runs["a/g native-PodGroup"].ranks.values()) == [0, 1]
