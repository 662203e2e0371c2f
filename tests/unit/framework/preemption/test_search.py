"""Searches for victims as a whole, by priority alone: on one node, and where a domain must be cleared."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.config.load import muster_config
from scheduler_core.config.plugins import KNOWN_PLUGINS
from scheduler_core.engine.evaluation import Reevaluation
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.interface import PostFilterResult
from scheduler_core.framework.preemption.demand import ordinary_demand
from scheduler_core.framework.preemption.search import VictimSearch
from scheduler_core.framework.registry import build_profiles
from scheduler_core.model.names import LABEL_ZONE, MUSTER_SCHEDULER
from scheduler_core.model.pods.pod import Pod
from scheduler_core.plugins.registry import FACTORIES
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import NodeBuilder, PodBuilder, make_group, make_node, make_pod


def node(name: str, zone: str, cpu: int = 4) -> NodeBuilder:
    return make_node(name).label(LABEL_ZONE, zone).allocatable(cpu=cpu)


def pod(name: str, where: str = "", priority: int = 0, cpu: int = 1, app: str = "web") -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name).requests(cpu=cpu).priority(priority).labels(app=app)
    return made.on(where).started(len(name)) if where else made


def away_from(made: PodBuilder, app: str) -> PodBuilder:
    term = {"topologyKey": LABEL_ZONE, "labelSelector": {"matchLabels": {"app": app}}}
    return made.spec(affinity={"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})


def holds_port(made: PodBuilder) -> PodBuilder:
    ports = [{"containerPort": 80, "hostPort": 80}]
    asked = {"requests": {"cpu": "1"}}
    return made.containers({"name": "main", "image": "i", "ports": ports, "resources": asked})


def spread(made: PodBuilder, skew: int = 1) -> PodBuilder:
    constraint = {
        "maxSkew": skew,
        "topologyKey": LABEL_ZONE,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    return made.spec(topologySpreadConstraints=[constraint])


def search(asking: Pod, *objects: Any, across: bool = True) -> tuple[str, list[str]]:
    """(node, names of the victims), of a search by priority alone."""
    result = answer(asking, *objects, across=across)
    return result.nominated, sorted(victim.name for victim in result.victims)


def answer(asking: Pod, *objects: Any, across: bool = True) -> PostFilterResult:
    """What a search by priority alone says."""
    made = Scheduler(ClusterState(), build_profiles(muster_config(), FACTORIES, KNOWN_PLUGINS))
    for item in objects:
        made.put(item.obj(), 0.0)
    profile = made.profiles[MUSTER_SCHEDULER]
    cycle = made.cycle.new_cycle(profile, asking, 1.0)
    demand = ordinary_demand(made.state, asking, spare_quotas=True)
    result = VictimSearch(cycle, Reevaluation(made.cycle, profile, cycle), demand).run(across_nodes=across)
    assert made.state.check() == []
    return result


ONE_ZONE = (node("n1", "z1"), node("n2", "z1"))
CASES: dict[str, tuple[Pod, tuple[Any, ...], tuple[str, list[str]]]] = {
    "all that the pod avoids leave the zone, and nobody else": (
        away_from(pod("p", priority=9, app="db"), "web").obj(),
        (*ONE_ZONE, pod("w1", "n1"), pod("w2", "n2"), pod("job", "n2", app="job")),
        ("n1", ["w1", "w2"]),
    ),
    "all that avoid the pod leave the zone, and nobody else": (
        pod("p", priority=9).obj(),
        (*ONE_ZONE, away_from(pod("d1", "n1", app="db"), "web"), away_from(pod("d2", "n2", app="db"), "web")),
        ("n1", ["d1", "d2"]),
    ),
    "the zone with fewer of them is cleared": (
        away_from(pod("p", priority=9, app="db"), "web").obj(),
        (
            *ONE_ZONE,
            node("n3", "z2"),
            node("n4", "z2"),
            *(pod(f"w{i}", "n1") for i in range(3)),
            pod("w3", "n2"),
            pod("v1", "n3"),
            pod("v2", "n4"),
        ),
        ("n3", ["v1", "v2"]),
    ),
    "a zone in which a more important one stays is not cleared": (
        away_from(pod("p", priority=9, app="db"), "web").obj(),
        (*ONE_ZONE, pod("w1", "n1"), pod("w2", "n2", priority=9)),
        ("", []),
    ),
    "as many go as the skew demands, the least important": (
        spread(pod("p", priority=9)).obj(),
        (
            node("n1", "z1", cpu=2),
            node("n2", "z1", cpu=2),
            node("n3", "z2", cpu=1),
            pod("w1", "n1", 1),
            pod("w2", "n2", 2),
            node("n4", "z1", cpu=1),
            pod("w3", "n4", 3),
            pod("full", "n3", 9),
        ),
        ("n1", ["w1", "w2"]),
    ),
    "where the node lacks room, too, its own pods make it": (
        away_from(pod("p", priority=9, cpu=4, app="db"), "web").obj(),
        (
            *ONE_ZONE,
            pod("w1", "n1"),
            pod("w2", "n2"),
            pod("j1", "n1", app="job"),
            pod("j2", "n2", 5, app="job"),
        ),
        ("n1", ["j1", "w1", "w2"]),
    ),
}


@pytest.mark.parametrize(("asking", "objects", "expected"), CASES.values(), ids=CASES)
def test_domains_are_cleared(asking: Pod, objects: tuple[Any, ...], expected: tuple[str, list[str]]) -> None:
    assert search(asking, *objects) == expected
    assert search(asking, *objects, across=False) == ("", [])


def test_a_leaving_pod_is_no_reason_for_more_victims() -> None:
    asking = away_from(pod("p", priority=9, app="db"), "web").obj()
    leaving = pod("w2", "n2").deleting(0.5)
    assert search(asking, *ONE_ZONE, pod("w1", "n1"), leaving) == ("n1", ["w1"])


def test_a_node_that_a_port_closed_at_first_spares_those_who_hold_another_one() -> None:
    """Who avoids the pod closes the whole zone; n2 has its port taken, too."""
    asking = holds_port(pod("p", priority=9)).obj()
    running = (away_from(holds_port(pod("d1", "n1", app="db")), "web"), holds_port(pod("d2", "n1", app="db")))
    assert search(asking, *ONE_ZONE, *running) == ("n2", ["d1"])


def test_no_pod_is_evicted_for_a_pod_whose_required_neighbour_leaves() -> None:
    """p must be near the database, of which the only pod is about to leave n2."""
    term = {"topologyKey": LABEL_ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asking = pod("p", priority=9).spec(affinity=near).obj()
    full = (node("n1", "z1", cpu=1), node("n2", "z1", cpu=1), pod("job", "n1", app="job"))
    assert search(asking, *full, pod("base", "n2", priority=9, app="db")) == ("n1", ["job"])
    assert search(asking, *full, pod("base", "n2", priority=9, app="db").deleting(0.5)) == ("", [])


def test_a_less_important_pod_that_the_required_affinity_selects_stays_while_another_goes() -> None:
    """kube-scheduler takes both away first, finds no database then, and evicts nobody."""
    term = {"topologyKey": LABEL_ZONE, "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    asking = pod("p", priority=9).spec(affinity=near).obj()
    running = (pod("base", "n1", app="db"), pod("job", "n1", priority=1, app="job"))
    assert search(asking, node("n1", "z1", cpu=2), *running) == ("n1", ["job"])


def test_a_protected_gang_is_no_victim() -> None:
    gang = (make_group("a/g").needs(2), pod("g0", "n1").group("g"), pod("g1", "n1", priority=9).group("g"))
    filled = (node("n1", "z1", cpu=3), *gang, pod("solo", "n1", priority=5))
    assert search(pod("p", priority=8).obj(), *filled) == ("n1", ["solo"])


def test_of_a_torn_gang_the_quorum_stays_if_the_others_are_enough() -> None:
    gang = (make_group("a/g").needs(1), *(pod(f"g{i}", "n1", i).group("g") for i in range(3)))
    filled = (node("n1", "z1", cpu=3), *gang)
    assert search(pod("p", priority=8, cpu=2).obj(), *filled) == ("n1", ["g0", "g1"])


def full(*pods: PodBuilder, cpu: int = 2) -> tuple[Any, ...]:
    return (node("n1", "z1", cpu=cpu), *pods)


SAID: dict[str, tuple[tuple[Any, ...], int, str]] = {
    "nobody is less important": (
        full(pod("high", "n1", 9, 2)),
        1,
        "preemption: No preemption victims found for incoming pod.",
    ),
    "all together are not enough": (
        full(pod("high", "n1", 9), pod("low", "n1")),
        2,
        "preemption: No set of victims makes room for the pod.",
    ),
    "no node is one for the pod": (
        (node("n1", "z1").taint("closed"), pod("low", "n1", cpu=4)),
        1,
        "preemption: No set of victims makes room for the pod.",
    ),
    "somebody leaves anyhow": (
        full(pod("low", "n1"), pod("gone", "n1", 9).deleting(0.5)),
        1,
        "waiting for pods to end on node n1.",
    ),
    "five go": (
        full(*(pod(f"v{i}", "n1", i) for i in range(5)), cpu=5),
        5,
        "preempting 5 pods for node n1: a/v4, a/v3, a/v2, a/v1, a/v0",
    ),
    "six go": (
        full(*(pod(f"v{i}", "n1", i) for i in range(6)), cpu=6),
        6,
        "preempting 6 pods for node n1: a/v5, a/v4, a/v3, a/v2, a/v1, ...",
    ),
}


@pytest.mark.parametrize(("objects", "cpu", "said"), SAID.values(), ids=SAID)
def test_what_is_said_of_a_search(objects: tuple[Any, ...], cpu: int, said: str) -> None:
    result = answer(pod("p", priority=9, cpu=cpu).obj(), *objects)
    assert result.message == said
    assert result.status.ok is bool(result.nominated)


@pytest.mark.parametrize(
    ("cpu", "waits_on"),
    [
        pytest.param(1, "n2", id="a node that no other filter refuses is waited for first"),
        pytest.param(
            3, "n1", id="a node that those who leave keep closed is waited for where it has the room"
        ),
    ],
)
def test_a_leaving_pod_makes_room_on_any_node(cpu: int, waits_on: str) -> None:
    """web leaves n3; as long as it is there all of zone z1 is closed. n2 is in z2 and too small, or full."""
    asking = away_from(pod("p", priority=9, cpu=cpu, app="db"), "web").obj()
    leaving = (pod("web", "n3").deleting(0.5), pod("job", "n2", 9, app="job").deleting(0.5))
    nodes = (node("n1", "z1"), node("n2", "z2", cpu=1), node("n3", "z1"))
    busy = (pod("j1", "n3", 9, 2, app="job"), pod("j2", "n1", 9, 1, app="job"))
    assert search(asking, *nodes, *leaving, *busy) == (waits_on, [])


def test_only_so_many_of_those_who_leave_are_taken_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    leaving = [pod(f"w{i}", "n2").deleting(0.5) for i in range(3)]
    asking = away_from(pod("p", priority=9, cpu=4, app="db"), "web").obj()
    for most, waits_on in ((3, "n1"), (2, "")):
        monkeypatch.setattr("scheduler_core.framework.preemption.search.MAX_LEAVING", most)
        assert search(asking, node("n1", "z1"), node("n2", "z1", cpu=3), *leaving) == (waits_on, [])


def test_a_pod_without_a_request_for_it_may_use_a_node_that_overuses_it() -> None:
    """The node shrank to less memory than its pods have."""
    small = make_node("n1").allocatable(cpu=2, memory=1)
    big = make_pod("a/big").uid("big").requests(cpu=1, memory=4).priority(9).on("n1").started(1)
    assert search(pod("p", priority=9).obj(), small, big, pod("low", "n1")) == ("n1", ["low"])


def test_of_several_protected_gangs_none_is_evicted() -> None:
    """Each search without one of them finds the next."""
    gangs = [make_group(f"a/g{i}").needs(2) for i in range(3)]
    members = [
        pod(f"g{i}-{n}", "n1", priority=9 * n + i, cpu=1).group(f"g{i}") for i in range(3) for n in range(2)
    ]
    members.append(pod("waits", priority=1).group("g0"))
    single = pod("single", "n1", priority=7)
    assert search(pod("p", priority=8).obj(), node("n1", "z1", cpu=7), *gangs, *members, single) == (
        "n1",
        ["single"],
    )
    assert search(pod("p", priority=8).obj(), node("n1", "z1", cpu=6), *gangs, *members) == ("", [])


def test_no_attempt_is_lost_on_nodes_that_evictions_do_not_open(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cheapest victim is on n1, which is closed to the pod or has a pod that it avoids and that stays."""
    monkeypatch.setattr("scheduler_core.framework.preemption.search.MAX_TRIALS", 1)
    cheap, dear = pod("cheap", "n1", 0, 4, "job"), pod("dear", "n2", 5, 4, "job")
    assert search(
        pod("p", priority=9).obj(), node("n1", "z1").taint("closed"), node("n2", "z2"), cheap, dear
    ) == (
        "n2",
        ["dear"],
    )
    asking = away_from(pod("p", priority=9, app="db"), "web").obj()
    stays = pod("stays", "n1", 9, cpu=1)
    assert search(asking, node("n1", "z1", cpu=5), node("n2", "z2"), cheap, dear, stays) == ("n2", ["dear"])


def test_the_cheapest_victims_go_whichever_filter_refuses_their_node() -> None:
    asking = away_from(pod("p", priority=9, app="db"), "web").obj()
    nodes = node("n1", "z1"), node("n2", "z2")
    refuses, dear = pod("refuses", "n1", 0, 1), pod("dear", "n2", 5, 4, "job")
    assert search(asking, *nodes, refuses, dear) == ("n1", ["refuses"])
    assert search(asking, *nodes, pod("refuses", "n1", 7, 1), dear) == ("n2", ["dear"])
    assert search(asking, *nodes, refuses, pod("other", "n1", 8, 4, "job"), dear) == ("n2", ["dear"])
    assert search(asking, node("n1", "z1"), refuses) == ("n1", ["refuses"])


def test_few_nodes_are_tried_for_cheaper_victims_than_those_that_resources_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first of them has the cheaper victim only at first sight: it must stay for its priority."""
    asking = away_from(pod("p", priority=9, app="db"), "web").obj()
    world = (
        *(node(f"n{number}", f"z{number}") for number in (1, 2, 3)),
        pod("harmless", "n1", 0, 1, "job"),
        pod("stays", "n1", 9, 1),
        pod("refuses", "n2", 1, 1),
        pod("dear", "n3", 5, 4, "job"),
    )
    assert search(asking, *world) == ("n2", ["refuses"])
    monkeypatch.setattr("scheduler_core.framework.preemption.search.MAX_TRIALS", 1)
    assert search(asking, *world) == ("n3", ["dear"])
