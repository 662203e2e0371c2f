"""Random worlds live for many steps, and after each a fresh scheduler would change nothing.

With it: no binding breaks an invariant, no eviction is unlawful or in vain, nobody waits although there is a
place, and what is written is true (tests/support/worlds). A world that fails is written as a scenario file,
in `build/worlds` if its seed is one of the day. `MUSTER_WORLDS` says how many of these are played.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from scheduler_core.engine import scheduling_failure
from scheduler_core.engine.decisions import Decision, Evicted, Placed, Rejected
from scheduler_core.engine.scheduler import Scheduler
from scheduler_core.framework.cycle import Cycle
from scheduler_core.framework.status import SUCCESS, Bits
from scheduler_core.framework.view import NodeView
from scheduler_core.model.pods.pod import Pod, parse_pod
from scheduler_core.model.timestamps import parse_time
from scheduler_core.model.writes import Bind
from scheduler_core.plugins.capacity_scheduling import CapacityScheduling
from scheduler_core.plugins.node_ports import NodePorts
from scheduler_core.simulate.objects import merge_patch
from scheduler_core.simulate.run import run_scenario
from scheduler_core.simulate.scenario import load_scenarios
from tests.support.day_seeds import NIGHT, DaySeeds, portion_names
from tests.support.searches import cases
from tests.support.worlds import objects as make
from tests.support.worlds import rest
from tests.support.worlds.checks import Fault, Preemption, binding_faults, gang_faults, preemption_faults
from tests.support.worlds.fairness import unfair
from tests.support.worlds.files import scenario_text, world_of
from tests.support.worlds.generate import live
from tests.support.worlds.objects import GPU, HOSTNAME, ZONE, Raw
from tests.support.worlds.player import Player, World, play
from tests.support.worlds.reading import View, nominated
from tests.support.worlds.shrink import failing_checks, shrunk

WORLDS = cases(300)
NEW_WORLDS: Final = DaySeeds(80, "MUSTER_WORLDS")
BLOCK = 25
OUT: Final = Path(__file__).parents[2] / "build" / "worlds"


@pytest.mark.parametrize("block", range(0, WORLDS, BLOCK), ids="seeds from {}".format)
def test_a_fresh_scheduler_would_change_nothing(block: int, tmp_path: Path) -> None:
    told = []
    for seed in range(block, min(block + BLOCK, WORLDS)):
        world, player = live(seed)
        if player.findings:
            told.append(written(shrunk(world, player.findings[0].check), player, tmp_path))
    assert not told, "\n".join(told)


@pytest.mark.parametrize("seeds", NEW_WORLDS.portions(BLOCK), ids=portion_names())
def test_nor_would_it_in_worlds_of_the_day(seeds: range, request: pytest.FixtureRequest) -> None:
    told = []
    for world, player in map(live, seeds):
        if player.findings:
            # To make a world small takes minutes, which only the night has.
            small = shrunk(world, player.findings[0].check) if NIGHT else world
            told.append(written(small, player, OUT))
    NEW_WORLDS.judge(told, request)


def test_it_holds_whatever_the_sentences_of_evictions_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling_failure, "eviction_message", lambda *told, **more: "had to go")
    evicted = 0
    for seed in range(30):
        world, player = live(seed)
        assert not player.findings, (world["name"], player.findings[0])
        evicted += sum(item.message == "had to go" for item in player.evicted)
    assert evicted > 10


def written(world: World, player: Player, folder: Path) -> str:
    """Write a failing world, whole or made small, and say what was found and where it is."""
    first = player.findings[0]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{first.check}-{world['seed']}.yaml"
    path.write_text(scenario_text(world, f"{first.check}: {first.text}"))
    return f"{world['name']}, step {first.step}, {first.check}: {first.text} (written: {path})"


# The tools themselves: a world is the same each time, a small one shows the same, a file can be simulated


def test_a_seed_names_one_world() -> None:
    first, second = live(7), live(7)
    assert first[0] == second[0]
    assert first[1].objects.all("Pod") == second[1].objects.all("Pod")


@pytest.mark.long
def test_recorded_steps_replay_the_world() -> None:
    for seed in range(12):
        world, player = live(seed)
        again = play(copy.deepcopy(world))
        assert again.objects.all("Pod") == player.objects.all("Pod"), seed


@pytest.mark.long
def test_a_written_scenario_tells_the_same_story() -> None:
    worlds = (live(seed) for seed in range(20))
    for world, player in [item for item in worlds if not item[0]["grace"]]:
        text = scenario_text(world, "nothing")
        steps = run_scenario(load_scenarios(text)[0])["steps"]
        bound = {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": pod["spec"]["nodeName"]
            for pod in player.objects.all("Pod")
            if pod["spec"].get("nodeName")
        }
        assert not steps or steps[-1]["bound"] == bound, world["name"]


@pytest.mark.long
def test_a_written_world_can_be_played_again(tmp_path: Path) -> None:
    for seed in range(8):
        world, player = live(seed)
        path = tmp_path / f"{seed}.yaml"
        path.write_text(scenario_text(world, "nothing"))
        again = play(world_of(path))
        where = [(pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in again.objects.all("Pod")]
        right = [(pod["metadata"]["name"], pod["spec"].get("nodeName")) for pod in player.objects.all("Pod")]
        assert where == right, world["name"]


SHAPES = """
ElasticQuota 'max' PodDisruptionBudget schedulingGates preemptionPolicy hostPort podAffinity podAntiAffinity
topologySpreadConstraints persistentVolumeClaim deletionTimestamp Succeeded Failed unschedulable taints
tolerations nodeSelector sakkara.group.name podGroupName scheduling.x-k8s.io/pod-group initContainers overhead
scheduling.k8s.io/group-name muster.dev/topology-constraints schedulingConstraints StorageClass nodeName
disruptionsAllowed
"""


@pytest.mark.long
def test_worlds_have_every_shape() -> None:
    """What worlds are made of does not silently go away."""
    missing = SHAPES.split()
    for seed in range(60):
        text = str(live(seed)[0])
        missing = [word for word in missing if word not in text]
        if not missing:
            return
    pytest.fail(f"none of sixty worlds has {', '.join(missing)}")


# Every check can fail: a cluster, what is done in it, and the faults that must be told


def node(name: str = "n1", cpu: str = "4", **more: Any) -> Raw:
    return make.node(name, {"cpu": cpu, "pods": "110", "memory": "4Gi", **more.pop("amounts", {})}, **more)


def pod(
    name: str, cpu: str = "1", ns: str = "a", on: str = "", prio: int = 0, app: str = "", **spec: Any
) -> Raw:
    made = make.pod(ns, name, {"cpu": cpu}, **spec)
    made["spec"]["priority"] = prio
    made["metadata"]["uid"] = f"Pod/{ns}/{name}"
    if app:
        made["metadata"]["labels"] = {"app": app}
    if on:
        made["spec"]["nodeName"] = on
        made["status"] = {"phase": "Running", "startTime": "2026-01-01T00:00:00Z"}
    return made


def member(made: Raw, name: str = "g", dialect: str = "incubator") -> Raw:
    joined: Raw = merge_patch(made, make.join(dialect, name))
    return joined


def port(made: Raw) -> Raw:
    made["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 80}]
    return made


def phased(made: Raw, phase: str = "Succeeded") -> Raw:
    return {**made, "status": {"phase": phase}}


ENDS: Final = "2026-01-01T00:00:00Z"


def leaving(made: Raw) -> Raw:
    left: Raw = merge_patch(made, {"metadata": {"deletionTimestamp": ENDS}})
    return left


def view_of(objects: Iterable[Raw]) -> View:
    """The objects at the moment at which `leaving` pods end."""
    return View(objects, parse_time(ENDS))


def checks(faults: Iterable[Fault]) -> set[str]:
    return {fault.check for fault in faults}


APART = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [make.near("red", HOSTNAME)]}}
CLOSE = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [make.near("red", HOSTNAME)]}}
EVEN = [make.spread("red", ZONE)]
CLAIMED = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]

BINDINGS: list[tuple[str, list[Raw], Raw, set[str]]] = [
    ("a free node", [node()], pod("p"), set()),
    ("exactly full", [node(), pod("o", "3", on="n1")], pod("p"), set()),
    ("one too many", [node(), pod("o", "4", on="n1")], pod("p"), {"bind-room"}),
    ("too many pods", [node(amounts={"pods": "1"}), pod("o", on="n1")], pod("p"), {"bind-room"}),
    ("no gpu there", [node()], make.pod("a", "p", {GPU: "1"}), {"bind-room"}),
    ("a finished pod takes no room", [node(), phased(pod("o", "4", on="n1"))], pod("p"), set()),
    ("a port twice", [node(), port(pod("o", on="n1"))], port(pod("p")), {"bind-ports"}),
    ("another label", [node()], pod("p", nodeSelector={ZONE: "z1"}), {"bind-selector"}),
    ("a taint", [node(taints=[make.taint("broken")])], pod("p"), {"bind-taint"}),
    ("a cordon", [node(unschedulable=True)], pod("p"), {"bind-taint"}),
    ("no claim", [node()], pod("p", volumes=CLAIMED), {"bind-volume"}),
    (
        "a volume elsewhere",
        [node(), make.volume("v", ZONE, "z1", ("a", "c")), make.claim("a", "c", "v")],
        pod("p", volumes=CLAIMED),
        {"bind-volume"},
    ),
    (
        "its own anti-affinity",
        [node(), pod("o", on="n1", app="red")],
        pod("p", affinity=APART),
        {"bind-anti-affinity"},
    ),
    (
        "the other's anti-affinity",
        [node(), pod("o", on="n1", affinity=APART)],
        pod("p", app="red"),
        {"bind-anti-affinity of others"},
    ),
    ("nobody near", [node()], pod("p", affinity=CLOSE), {"bind-affinity"}),
    (
        "uneven",
        [
            node(labels={ZONE: "z1"}),
            node("n2", labels={ZONE: "z2"}),
            pod("o", on="n1", app="red"),
        ],
        pod("p", app="red", topologySpreadConstraints=EVEN),
        {"bind-spread"},
    ),
    ("beyond max", [node(), make.quota("a", {"cpu": "2"}, {"cpu": "2"})], pod("p", "3"), {"bind-quota"}),
    (
        "beyond the sum of min",
        [
            node(),
            make.quota("a", {"cpu": "1"}, {}),
            make.quota("b", {"cpu": "1"}, {}),
            pod("o", "2", "b", "n1"),
        ],
        pod("p"),
        {"bind-quota"},
    ),
    (
        "as much as the sum of min",
        [
            node(),
            make.quota("a", {"cpu": "1"}, {}),
            make.quota("b", {"cpu": "1"}, {}),
            pod("o", "1", "b", "n1"),
        ],
        pod("p"),
        set(),
    ),
]


@pytest.mark.parametrize(
    ("objects", "bound", "expected"), [c[1:] for c in BINDINGS], ids=[c[0] for c in BINDINGS]
)
def test_bindings_are_judged(objects: list[Raw], bound: Raw, expected: set[str]) -> None:
    assert checks(binding_faults(view_of([*objects, bound]), bound, "n1")) == expected


GROUP = make.group("incubator", "a", "g", 2)
GANGS: list[tuple[str, list[Raw], set[str]]] = [
    ("whole", [GROUP, member(pod("p", on="n1")), member(pod("q", on="n1"))], set()),
    ("half of it", [GROUP, member(pod("p", on="n1")), member(pod("q"))], {"gang-torn"}),
    ("one is done", [GROUP, member(pod("p", on="n1")), phased(member(pod("q", on="n1")))], set()),
    ("one is leaving", [GROUP, member(pod("p", on="n1")), leaving(member(pod("q", on="n1")))], {"gang-torn"}),
    ("no group", [member(pod("p", on="n1"))], {"gang-unknown"}),
]


@pytest.mark.parametrize(("objects", "expected"), [c[1:] for c in GANGS], ids=[c[0] for c in GANGS])
def test_starts_of_gangs_are_judged(objects: list[Raw], expected: set[str]) -> None:
    assert checks(gang_faults(view_of([node(), *objects]), "a/g incubator")) == expected


def test_a_group_of_exact_size_is_not_exceeded() -> None:
    group = make.group("config", "a", "g", 1)
    members = [member(pod(name, on="n1"), dialect="config") for name in "pq"]
    assert checks(gang_faults(view_of([node(), group, *members]), "a/g config")) == {"gang-size"}


LOW = make.quota("a", {"cpu": "2"}, {})
LENT = [make.quota("a", {"cpu": "4"}, {}), make.quota("b", {"cpu": "0"}, {})]
# v is protected, and all its quota uses is borrowed; w of another quota is not protected.
PROTECTED = [
    make.quota("a", {"cpu": "4", "pods": "4"}, {}),
    make.quota("b", {"cpu": "0"}, {}),
    make.budget("b", "b", "red", 0),
    pod("v", "2", "b", on="n1", app="red"),
    pod("w", "2", "c", on="n1", app="red"),
    pod("p", "2"),
]
# Gang g asks for 2, of which 1 is guaranteed, and b lends 1 of its 3.
GANGS_QUOTAS = [
    GROUP,
    make.quota("a", {"cpu": "1"}, {}),
    make.quota("b", {"cpu": "2"}, {}),
    make.quota("c", {"cpu": "1"}, {}),
    member(pod("p", "1")),
    member(pod("q", "1")),
]
PREEMPTIONS: list[tuple[str, list[Raw], list[str], list[str], set[str]]] = [
    ("lower priority goes", [pod("v", "4", on="n1"), pod("p", prio=5)], ["p"], ["v"], set()),
    ("an equal goes", [pod("v", "4", on="n1"), pod("p")], ["p"], ["v"], {"evict-priority"}),
    (
        "one that must not preempt",
        [pod("v", "4", on="n1"), pod("p", prio=5, preemptionPolicy="Never")],
        ["p"],
        ["v"],
        {"evict-never"},
    ),
    (
        "one that leaves anyway",
        [leaving(pod("v", "4", on="n1")), pod("p", prio=5)],
        ["p"],
        ["v"],
        {"evict-twice", "evict-spare"},
    ),
    (
        "two where one is enough",
        [pod("v", "2", on="n1"), pod("w", "2", on="n1"), pod("p", "2", prio=5)],
        ["p"],
        ["v", "w"],
        {"evict-spare"},
    ),
    (
        "too little",
        [pod("v", "1", on="n1"), pod("w", "3", on="n1"), pod("p", "4", prio=5)],
        ["p"],
        ["v"],
        {"evict-useless"},
    ),
    (
        "a protected one, where another would do",
        [
            make.budget("a", "b", "red", 0),
            pod("v", "2", on="n1", app="red"),
            pod("w", "2", on="n1", app="blue"),
            pod("p", "2", prio=5),
        ],
        ["p"],
        ["v"],
        {"evict-budget"},
    ),
    (
        "a protected one of two that borrow",
        [*PROTECTED, make.quota("c", {"cpu": "0", "pods": "0"}, {})],
        ["p"],
        ["b/v"],
        {"evict-budget"},
    ),
    (
        "a protected one that borrows, where the other is within its min but for the number of pods",
        [*PROTECTED, make.quota("c", {"cpu": "2", "pods": "0"}, {})],
        ["p"],
        ["b/v"],
        set(),
    ),
    (
        "one under a quota, by one under none",
        [LOW, pod("v", "4", on="n1"), pod("p", ns="c", prio=5)],
        ["c/p"],
        ["v"],
        {"evict-quota"},
    ),
    (
        "another namespace's, above min",
        [LOW, make.quota("b", {"cpu": "2"}, {}), pod("v", "4", "b", "n1"), pod("p", "3", prio=5)],
        ["p"],
        ["b/v"],
        {"evict-foreign"},
    ),
    ("a loan is reclaimed", [*LENT, pod("v", "4", "b", "n1", prio=9), pod("p")], ["p"], ["b/v"], set()),
    (
        "one within its min is reclaimed",
        [
            LOW,
            make.quota("b", {"cpu": "2"}, {}),
            pod("v", "2", "b", "n1"),
            pod("o", "2", "c", "n1"),
            pod("p", "2"),
        ],
        ["p"],
        ["b/v"],
        {"evict-reclaim"},
    ),
    (
        "a member of its own gang",
        [GROUP, member(pod("v", "4", on="n1")), member(pod("p", "4", prio=5))],
        ["p"],
        ["v"],
        {"evict-own-gang"},
    ),
    (
        "a gang that would borrow, by one that is over its min",
        [*GANGS_QUOTAS, pod("v", "2", "b", on="n1"), pod("o", "1", "b", on="n1")],
        ["p", "q"],
        ["b/v"],
        {"evict-guaranteed"},
    ),
    (
        "a gang that would borrow what is lent",
        [*GANGS_QUOTAS, pod("v", "1", "b", on="n1"), pod("o", "2", "b", on="n1")],
        ["p", "q"],
        ["b/v"],
        set(),
    ),
    (
        "one too many for a gang",
        [
            GROUP,
            pod("v", "2", on="n1"),
            pod("w", "2", on="n1"),
            member(pod("p", prio=5)),
            member(pod("q", prio=5)),
        ],
        ["p", "q"],
        ["v", "w"],
        {"evict-spare"},
    ),
    (
        "all for the one member that may, where one that may not asks for less",
        [
            make.group("incubator", "a", "g", 1),
            pod("v", "2", on="n1"),
            pod("w", "2", on="n1"),
            member(pod("p", "4", prio=5)),
            member(pod("q", "2")),
        ],
        ["p"],
        ["v", "w"],
        set(),
    ),
    (
        "too little for a gang",
        [
            GROUP,
            pod("v", "3", on="n1"),
            pod("w", "1", on="n1"),
            member(pod("p", "2", prio=5)),
            member(pod("q", "2", prio=5)),
        ],
        ["p", "q"],
        ["v"],
        {"evict-useless"},
    ),
]


@pytest.mark.parametrize(
    ("objects", "pods", "victims", "expected"), [c[1:] for c in PREEMPTIONS], ids=[c[0] for c in PREEMPTIONS]
)
def test_preemptions_are_judged(
    objects: list[Raw], pods: Sequence[str], victims: Sequence[str], expected: set[str]
) -> None:
    view = view_of([node(), *objects])

    def named(names: Sequence[str]) -> tuple[Raw, ...]:
        keys = [name if "/" in name else f"a/{name}" for name in names]
        return tuple(found for name in keys if (found := view.get(name)) is not None)

    going, gone = named(pods), named(victims)
    nodes = {f"{item['metadata']['namespace']}/{item['metadata']['name']}": "n1" for item in going}
    assert checks(preemption_faults(view, Preemption(going, gone, nodes))) == expected


def test_of_a_group_those_that_start_decide_what_is_short() -> None:
    """Its smallest members would lack nothing, and other nodes than theirs may be free."""
    quotas = [make.quota("a", {"cpu": "2"}, {}), make.quota("b", {}, {}), make.quota("c", {"cpu": "2"}, {})]
    members = [member(pod("p", "2")), member(pod("q", "1")), member(pod("r", "1"))]
    others = [pod("v", "1", "b", on="n1"), pod("o", "1", "b", on="n1")]
    view = view_of([node(), GROUP, *quotas, *members, *others])
    assert list(unfair(view, members[0], others[:1], members[:2])) == []
    assert "no resource is short" in list(unfair(view, members[0], others[:1], members[1:]))
    assert "no resource is short" in list(unfair(view, members[0], others[:1]))


def kept(made: Raw, name: str) -> Raw:
    return {**made, "status": {"nominatedNodeName": name}}


WAITERS: list[tuple[str, list[Raw], set[str]]] = [
    ("nobody waits", [pod("o", on="n1")], set()),
    ("a full node", [pod("o", "4", on="n1"), pod("p")], set()),
    ("a free node", [pod("p")], {"waits"}),
    ("a gated pod", [pod("p", schedulingGates=[{"name": "x"}])], set()),
    ("a pod of another scheduler", [pod("p", schedulerName="other")], set()),
    (
        "room that is kept for another",
        [pod("p"), kept(pod("q", "4", prio=5), "n1"), pod("o", on="n1")],
        set(),
    ),
    ("a gang that fits", [GROUP, member(pod("p")), member(pod("q"))], {"gang-waits"}),
    ("a gang that lacks a pod", [GROUP, member(pod("p"))], set()),
    (
        "a member beyond the minimum",
        [GROUP, *(member(pod(n, on="n1")) for n in "pq"), member(pod("r"))],
        {"waits"},
    ),
    ("somebody less important", [pod("o", "4", on="n1"), pod("p", prio=5)], {"missed"}),
    ("a loan", [*LENT, pod("o", "4", "b", "n1"), pod("p")], {"missed"}),
    (
        "loans on two nodes",
        [
            node("n2", "2"),
            make.quota("a", {"cpu": "4"}, {}),
            make.quota("b", {"cpu": "2"}, {}),
            pod("o", "4", "b", "n1"),
            pod("r", "2", "b", "n2"),
            pod("p", "4", nodeSelector={HOSTNAME: "n1"}),
        ],
        {"missed"},
    ),
    (
        "less important ones on two nodes",
        [
            node("n1", labels={ZONE: "z1"}),
            node("n2", labels={ZONE: "z1"}),
            pod("o", on="n1", app="red"),
            pod("r", on="n2", app="red"),
            pod(
                "p",
                prio=5,
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [make.near("red", ZONE)]
                    }
                },
            ),
        ],
        {"missed-across"},
    ),
    ("a node that is gone", [pod("o", "4", on="n1"), kept(pod("p"), "n9")], {"nominated-nowhere"}),
]


@pytest.mark.parametrize(("objects", "expected"), [c[1:] for c in WAITERS], ids=[c[0] for c in WAITERS])
def test_those_who_wait_are_judged(objects: list[Raw], expected: set[str]) -> None:
    nodes = [] if any(item["metadata"]["name"] == "n1" for item in objects) else [node()]
    view = view_of([*nodes, *objects])
    told = {pod["metadata"]["uid"]: nominated(pod) for pod in view.pods}
    nominations = rest.nomination_faults(view, told.__getitem__)
    assert checks([*rest.waiting_faults(view), *rest.missed_faults(view), *nominations]) == expected


def native(made: Raw) -> Raw:
    return member(made, dialect="native")


JOINED = merge_patch(make.group("native", "a", "g", 1), {"spec": {"priority": 5}})
RESTING: list[tuple[str, list[Raw], set[str]]] = [
    (
        "a member of a native group",
        [JOINED, native(pod("m", on="n1", prio=5)), native(pod("p", prio=5))],
        set(),
    ),
    ("a pod of no group", [pod("m", on="n1", prio=5), pod("p", prio=5)], {"missed"}),
    (
        "a member of a native group within its min",
        [
            JOINED,
            *LENT,
            native(pod("m", on="n1", prio=5)),
            native(pod("p", prio=5)),
        ],
        {"missed"},
    ),
]


@pytest.mark.parametrize(("objects", "expected"), [c[1:] for c in RESTING], ids=[c[0] for c in RESTING])
def test_native_groups_may_wait_while_their_namespace_rests(objects: list[Raw], expected: set[str]) -> None:
    view = view_of([node("n1", "3"), pod("o", on="n1"), pod("r", "1", "b", "n1"), *objects])
    assert checks(rest.missed_faults(view, {"b"})) == {"missed"}
    assert checks(rest.missed_faults(view, {"a"})) == expected


ZONE_1 = {ZONE: "z1"}
CLOSED: list[tuple[str, Raw, bool]] = [
    ("an open node", node(labels=ZONE_1), True),
    ("a node with a taint", node(labels=ZONE_1, taints=[make.taint("x")]), False),
    ("a cordoned node", node(labels=ZONE_1, unschedulable=True), False),
    ("a node that lost its label", node(), False),
    ("a node that is gone", node("n2", labels=ZONE_1), False),
]


@pytest.mark.parametrize(("there", "counts"), [c[1:] for c in CLOSED], ids=[c[0] for c in CLOSED])
def test_nominations_count_while_pods_can_use_their_nodes(there: Raw, counts: bool) -> None:
    waits = kept(pod("q", nodeSelector={ZONE: "z1"}), "n1")
    view = view_of([there, make.quota("a", {"cpu": "1"}, {}), pod("p"), waits])
    (asks,) = (item for item in view.waiting if not nominated(item))
    assert view.own_nominated(asks) == ({"cpu": 1000, "pods": 1} if counts else {})
    assert bool(view.nominees(asks)) is counts


def test_a_node_that_is_kept_in_secret_is_told() -> None:
    view = view_of([node(), pod("p", "5")])
    assert checks(rest.nomination_faults(view, lambda uid: "n1")) == {"nominated-hidden"}
    view = view_of([node(), kept(pod("p", "5"), "n1")])
    assert checks(rest.nomination_faults(view, lambda uid: "")) == {"nominated-hidden"}


def test_counts_are_judged() -> None:
    quota = {**LOW, "status": {"used": {"cpu": "1"}}}
    group = {**GROUP, "status": {"admitted": 1, "running": 1}}
    right = [node(), quota, group, member(pod("p", on="n1"))]
    assert checks(rest.count_faults(view_of(right))) == set()
    more = [*right, member(pod("q", on="n1"))]
    assert checks(rest.count_faults(view_of(more))) == {"status-quota", "status-group"}


# The player, with a scheduler that does what it is told


class Scripted(Player):
    """Decisions are given, one list for each round."""

    def __init__(self, objects: list[Raw], *, grace: bool = False) -> None:
        world: World = {"name": "scripted", "seed": 0, "grace": grace, "topology": False}
        super().__init__({**world, "objects": objects, "steps": []})
        self.script: list[list[Decision]] = []
        self.scheduler.step = lambda now, limit=None: self.script.pop(0) if self.script else []  # type: ignore[method-assign]
        self.begin()
        self.findings.clear()

    def does(self, *rounds: list[Decision]) -> set[str]:
        self.script = [*rounds]
        self.play_step({})
        return {item.check for item in self.findings}


def parsed(made: Raw) -> Pod:
    return parse_pod(made)


def evicts(preemptor: Raw, *victims: Raw) -> list[Decision]:
    one = parsed(preemptor)
    gone: list[Decision] = [Evicted(parsed(victim), one, "s", "m") for victim in victims]
    return [*gone, Rejected(one, "s", "Unschedulable", "m", None, "n1")]


def binds(made: Raw, where: str = "n1") -> list[Decision]:
    one = parsed(made)
    return [Placed(one, where, "s", Bind(one.namespace, one.name, one.uid, where), (), ())]


OLD, OTHER, NEW = pod("v", "4", on="n1"), pod("w", "4", on="n2"), pod("p", "4", prio=5)
TWO = [node(), node("n2"), OLD, OTHER, NEW]


def test_a_preemptor_without_a_node_is_told() -> None:
    assert Scripted([node(), OLD, NEW]).does(evicts(NEW, OLD)) >= {"evict-vain"}
    assert "evict-vain" not in Scripted([node(), OLD, NEW]).does(evicts(NEW, OLD), binds(NEW))


def test_a_preemptor_waits_until_its_victims_are_gone() -> None:
    player = Scripted([node(), OLD, NEW], grace=True)
    assert "evict-vain" not in player.does(evicts(NEW, OLD))
    player.play_step({"delete": [make.reference(OLD)]})
    assert "evict-vain" in {item.check for item in player.findings}


def test_a_second_eviction_for_the_same_is_told() -> None:
    assert "evict-again" in Scripted(TWO).does(evicts(NEW, OLD), evicts(NEW, OTHER))


def test_a_pod_that_was_overtaken_may_evict_again() -> None:
    better = pod("r", "4", prio=9)
    script = (evicts(NEW, OLD), binds(better), evicts(NEW, OTHER), binds(NEW, "n2"))
    assert not Scripted([*TWO, better]).does(*script) & {"evict-again", "evict-vain"}


def test_decisions_of_a_fresh_scheduler_are_reported() -> None:
    assert "restart-starts" in Scripted([node(), pod("p")]).does([])
    assert "restart-evicts" in Scripted([node(), OLD, NEW]).does([])


def test_words_that_are_not_true_any_more_are_told() -> None:
    player = Scripted([node(), pod("p", "5")])
    player.scheduler.reviews.review = lambda now, after=0.0: []  # type: ignore[method-assign]
    player.end()
    assert {item.check for item in player.findings} == {"message"}


def test_nodes_of_a_fresh_scheduler_stand_in_the_order_of_another_one() -> None:
    player = Scripted([pod("o", on="n9"), node("n1"), node("n2"), node("n3"), node("n4")])
    for step in ({"delete": [node("n2"), node("n3")]}, {"create": [node("n5")]}, {"delete": [node("n1")]}):
        player.play_step(step)
    known = player.state.nodes
    fresh = rest.fresh_scheduler(player.known, player.now, False, 0, like=player.state).state.nodes
    assert fresh.size == known.size
    assert [fresh.slot(name) for name in ("n4", "n5")] == [known.slot(name) for name in ("n4", "n5")]
    assert fresh.alive[: fresh.size].tolist() == known.alive[: known.size].tolist()


def test_a_second_look_that_changes_something_is_told() -> None:
    player = Scripted([node(), NEW])
    looks = iter([binds(NEW)])
    player.scheduler.reviews.review = lambda now, after=0.0: next(looks, [])  # type: ignore[method-assign]
    player.end()
    assert "review-changes" in {item.check for item in player.findings}


def test_decisions_without_an_end_are_told() -> None:
    player = Scripted([node(), OLD])
    player.scheduler.step = lambda now, limit=None: [Rejected(parsed(NEW), "s", "r", "m")]  # type: ignore[method-assign]
    player.play_step({})
    assert "endless" in {item.check for item in player.findings}


# The whole, with a fault in the engine


def blind(self: NodePorts, cycle: Cycle, view: NodeView) -> Bits:
    """A filter that refuses no node."""
    return np.zeros(len(view), dtype=np.uint64)


# With the first seed to try: no world before it shows the fault.
FAULTS: list[tuple[type, str, Callable[..., Any], str, int]] = [
    (CapacityScheduling, "pre_filter", lambda self, cycle: SUCCESS, "bind-quota", 0),
    (NodePorts, "filter", blind, "bind-ports", 9),
    (Scheduler, "tell", lambda self, events, now: None, "waits", 0),
]


@pytest.mark.parametrize(
    ("owner", "name", "broken", "check", "first"), FAULTS, ids=[fault[3] for fault in FAULTS]
)
def test_faults_of_the_engine_are_found(
    monkeypatch: pytest.MonkeyPatch,
    owner: type,
    name: str,
    broken: Callable[..., Any],
    check: str,
    first: int,
) -> None:
    monkeypatch.setattr(owner, name, broken)
    worlds = (live(seed)[1] for seed in range(first, 60))
    assert any(item.check == check for player in worlds for item in player.findings)


@pytest.mark.long
def test_a_failing_world_is_made_small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(NodePorts, "filter", blind)
    worlds = (live(seed) for seed in range(200))
    world, player = next((w, p) for w, p in worlds if any(f.check == "bind-ports" for f in p.findings))
    small = shrunk(world, "bind-ports")
    assert "bind-ports" in failing_checks(small)
    assert len(small["objects"]) + len(small["steps"]) <= 5
    assert "description: 'bind-ports" in scenario_text(small, "bind-ports: as it was")
    assert "written: " in written(small, player, tmp_path)
