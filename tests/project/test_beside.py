"""What `make beside` reads and compares, without the real ones: logs, messages, decisions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from scheduler_core.model.kinds import NATIVE_POD_GROUPS, NODES, PODS
from scheduler_core.model.pods.requests import ResizeRule
from scheduler_core.model.timestamps import parse_time
from scheduler_core.simulate import load_scenarios, run_scenario
from tests.beside.packages import claims, fair_claims
from tests.beside.packages.difference import Difference
from tests.beside.packages.meant import meant as meant_in_packages
from tests.beside.rig import ours, real
from tests.beside.rig.groups import GroupStep, group_scenario, group_world
from tests.beside.rig.meant import meant
from tests.beside.rig.outcome import Outcome, Undecided, counted, differences
from tests.beside.rig.play import Step, play
from tests.beside.rig.real import Real, Scheduling, State
from tests.beside.rig.scenario import objects_of, plain_objects, scenario_text
from tests.beside.rig.scheduler_log import told
from tests.beside.rig.world import World

AT = "I1130 06:40:16.1 7 schedule_one.go:984]"
LOG = [
    f'{AT} "Plugin scored node for pod" pod="t/p" plugin="NodeAffinity" node="a" score=20',
    f'{AT} "Plugin scored node for pod" pod="t/q" plugin="NodeAffinity" node="a" score=7',
    f'{AT} "Plugin scored node for pod" pod="t/p" plugin="NodeAffinity" node="b" score=-3',
    f'{AT} "Successfully bound pod to node" pod="t/p" node="a" evaluatedNodes=3 feasibleNodes=2',
    f'{AT} "Preemptor Pod preempted victim Pod" preemptor="t/r" victim="u/v" node="a"',
]


def test_the_log_tells_scores_bindings_and_victims_of_one_pod() -> None:
    found = told(LOG, "t/p")
    assert (found.scores, found.feasible) == ({"NodeAffinity": {"a": 20, "b": -3}}, 2)
    assert found.victims == set()
    assert told(LOG, "t/r").victims == {"u/v"}


MESSAGES: dict[str, tuple[str, dict[str, int]]] = {
    "counts of reasons, without the part on preemption": (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {a: b}. "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
        {"Insufficient cpu": 1, "node(s) had untolerated taint {a: b}": 2},
    ),
    "a reason for all nodes has no count": (
        '0/3 nodes are available: persistentvolumeclaim "c" not found. preemption: nobody',
        {'persistentvolumeclaim "c" not found': 0},
    ),
    "what is said of claims of devices is no reason": (
        "0/1 nodes are available: 1 Too many pods. no new claims to deallocate, preemption: x",
        {"Too many pods": 1},
    ),
    "victims are told elsewhere": (
        "0/1 nodes are available: 1 Too many pods. preempting 2 pods for node n: t/a, t/b",
        {"Too many pods": 1},
    ),
    "pods that end are told elsewhere": (
        "0/1 nodes are available: 1 Too many pods. waiting for pods to end on node n.",
        {"Too many pods": 1},
    ),
}


@pytest.mark.parametrize(("message", "reasons"), MESSAGES.values(), ids=MESSAGES)
def test_messages_are_read_as_counts(message: str, reasons: dict[str, int]) -> None:
    assert counted(message) == reasons


def runs(node: str = "a", feasible: str = "ab", **scores: dict[str, int]) -> Outcome:
    return Outcome(node=node, feasible=frozenset(feasible), scores=scores)


def waits(nominated: str = "", victims: str = "", **reasons: int) -> Outcome:
    return Outcome(nominated=nominated, victims=frozenset(victims), reasons=reasons)


COMPARED: dict[str, tuple[Outcome, Outcome, list[str]]] = {
    "equal decisions": (runs(x={"a": 2, "b": 1}), runs(x={"a": 2, "b": 1}), []),
    "one runs and one waits": (runs(), waits(), ["verdict"]),
    "other nodes pass": (runs(), runs(feasible="a"), ["feasible nodes"]),
    "another score": (runs(x={"a": 2, "b": 1}), runs(x={"a": 2, "b": 2}), ["scores of x"]),
    "a plugin that gives all the same beside one that skips": (
        runs(x={"a": 300, "b": 300}, y={"a": 2, "b": 1}),
        runs(y={"a": 2, "b": 1}),
        [],
    ),
    "a plugin that is missing where it makes a difference": (
        runs(x={"a": 300, "b": 200}),
        runs(),
        ["scores of x"],
    ),
    "another one of the best nodes": (runs("a", x={"a": 2, "b": 2}), runs("b", x={"a": 2, "b": 2}), []),
    "a node that is not the best": (
        runs("a", x={"a": 2, "b": 1}),
        runs("b", x={"a": 2, "b": 1}),
        ["node"],
    ),
    "other reasons": (waits(cpu=2), waits(cpu=1), ["reasons"]),
    "other victims": (waits("a", "v", cpu=1), waits("a", "w", cpu=1), ["victims"]),
    "another nominated node": (waits("a", cpu=1), waits("b", cpu=1), ["nominated node"]),
}


@pytest.mark.parametrize(("theirs", "ours", "kinds"), COMPARED.values(), ids=COMPARED)
def test_what_differs(theirs: Outcome, ours: Outcome, kinds: list[str]) -> None:
    assert [finding.kind for finding in differences(theirs, ours)] == kinds


def step(theirs: Outcome, ours: Outcome, **spec: Any) -> Step:
    pod = {"metadata": {"name": "p", "namespace": "t"}, "spec": spec}
    found = tuple(differences(theirs, ours))
    return Step("world", pod, msgspec.json.encode(pod), {}, theirs, ours, found)


TAINT, TAINTS = "node(s) had untolerated taint {a: b}", "node(s) had untolerated taint(s)"
CUT = "node(s) didn't satisfy plugin(s) [NodeAffinity]"
NAMED: dict[str, tuple[Step, str]] = {
    "a taint that is named": (
        step(Outcome(reasons={TAINTS: 2}), Outcome(reasons={TAINT: 2})),
        "taints-are-named",
    ),
    "another count beside a taint that is named": (
        step(Outcome(reasons={TAINTS: 2}), Outcome(reasons={TAINT: 1})),
        "",
    ),
    "nodes that are cut off": (
        step(Outcome(reasons={CUT: 2}), Outcome(reasons={TAINT: 1, "x": 1})),
        "cut-off-nodes-have-reasons",
    ),
    "a reason that is missing beside nodes that are cut off": (
        step(Outcome(reasons={CUT: 2, "y": 1}), Outcome(reasons={TAINT: 2, "x": 1})),
        "",
    ),
    "a score of another pod": (
        step(runs(NodeResourcesFit={"a": 1, "b": 2}), runs(NodeResourcesFit={"a": 1, "b": 3})),
        "",
    ),
}


@pytest.mark.parametrize(("found", "key"), NAMED.values(), ids=NAMED)
def test_which_differences_of_worlds_are_meant(found: Step, key: str) -> None:
    assert [meant(found, finding) for finding in found.findings] == [key]


PACKAGES: dict[str, tuple[Difference, str, str]] = {
    "a text without digits": (
        Difference("a quantity is taken", "Ki", "0", "refused"),
        "1.37",
        "quantities-have-digits",
    ),
    "a text with digits": (Difference("a quantity is taken", "1Kj", "0", "refused"), "1.37", ""),
    "an amount beyond all bounds": (
        Difference("the value of a quantity", "9999E", "5", "9223372036854775807"),
        "1.37",
        "quantities-are-bounded",
    ),
    "an amount within them": (Difference("the value of a quantity", "9k", "5", "9000"), "1.37", ""),
    "a ResourceQuota of a resize beside the version before": (
        Difference("quota of a pod as stored", {"status": {"containerStatuses": []}}, "1", "2"),
        "1.36",
        "resizes-count-the-largest-sum",
    ),
    "a ResourceQuota of a resize beside the newest version": (
        Difference("quota of a pod as stored", {"status": {"containerStatuses": []}}, "1", "2"),
        "1.37",
        "",
    ),
    "a ResourceQuota of a pod that is not resized": (
        Difference("quota of a pod as stored", {"status": {"phase": "Running"}}, "1", "2"),
        "1.36",
        "",
    ),
    "requests of a resize beside the version before": (
        Difference("requests of a pod as stored", {"status": {"containerStatuses": []}}, "1", "2"),
        "1.36",
        "",
    ),
    "quotas beside a pod that is resized, and the version before": (
        Difference(
            "what quotas refuse",
            {"existing": [], "object": {"status": {"containerStatuses": []}}, "old": None},
            "1",
            "2",
        ),
        "1.36",
        "resizes-count-the-largest-sum",
    ),
    "quotas beside a pod that is not resized": (
        Difference(
            "what quotas refuse",
            {"existing": [{"status": {}}], "object": {"status": {}}, "old": None},
            "1",
            "2",
        ),
        "1.36",
        "",
    ),
    "what reservations count": (
        Difference(
            "what reservations count", {"existing": [{"status": {"containerStatuses": []}}]}, "1", "2"
        ),
        "1.36",
        "",
    ),
    "other victims that are lawful": (
        Difference("the choice of victims", {}, "['w0']", "['w1']"),
        "1.37",
        "loans-are-taken-first",
    ),
    "victims that are lawful but dearer": (
        Difference("dearer victims", {}, "['w0']", "['w2']"),
        "1.37",
        "",
    ),
    "victims that are not": (Difference("unlawful victims", {}, "['w0']", "['w1']"), "1.37", ""),
    "two filters that have changed places": (
        Difference(
            "plugins at filter",
            "",
            "[('NodeName', 0), ('NodeUnschedulable', 0)]",
            "[('NodeUnschedulable', 0), ('NodeName', 0)]",
        ),
        "1.37",
        "two-filters-in-another-order",
    ),
    "a filter that is missing": (
        Difference("plugins at filter", "", "[('NodeName', 0)]", "[]"),
        "1.37",
        "",
    ),
}


def claim(victims: list[str], *, fits: bool = False) -> list[str]:
    """The kinds of differences for a claim of 2 in q0 beside others' answer; q1 has 2 and runs 1 + 2 + 1."""
    asked = {
        "queues": [{"name": f"q{i}", "nominal": {"cpu": 2}, "weight": "1"} for i in range(2)],
        "running": [
            {"name": f"w{i}", "queue": "q1", "priority": i, "requests": {"cpu": amount}, "age": 10 + i}
            for i, amount in enumerate((1, 2, 1))
        ],
        "incoming": {"name": "new", "queue": "q0", "priority": 0, "requests": {"cpu": 2}, "age": 0},
    }
    answer = {"fits": fits, "victims": victims, "shares": {"q0": 0.0, "q1": 500.0}}
    return [found.kind for found in claims.compare(asked, answer)]


def test_a_claim_is_compared_with_what_another_scheduler_evicts() -> None:
    assert claim(["w0", "w2"]) + claim(["w1"]) == ["the choice of victims"]
    assert claim([]) == ["a claim within min"]
    assert claim([], fits=True) == ["room for work"]


@pytest.mark.parametrize(
    ("evicted", "theirs", "kinds"),
    [
        pytest.param(["w0", "w2"], ["w1"], ["dearer victims"], id="one that matters more goes"),
        pytest.param(["w1"], ["w0", "w2"], ["the choice of victims"], id="theirs matters more"),
        pytest.param(["w1"], ["w0", "w1"], ["the choice of victims"], id="theirs falls below its quota"),
        pytest.param(["w0"], ["w1"], ["unlawful victims"], id="too few go"),
    ],
)
def test_a_choice_of_victims_is_meant_where_it_is_not_dearer(
    evicted: list[str], theirs: list[str], kinds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "outcome", lambda decided: (False, evicted))
    assert claim(theirs) == kinds


def fair_claim(amount: int, gpus: int, theirs: list[str], *, fits: bool = False) -> list[str]:
    """The kinds of differences for a claim of q0, which has 2 of 6 CPUs and runs nothing.

    q1 has 2 and runs six that use one each, and as many GPUs as `gpus`. q2 is idle and has all of these.
    """
    more = {claims.GPU: 6 * gpus} if gpus else {}
    nothing = dict.fromkeys(more, 0)
    asked = {
        "queues": [
            {"name": f"q{i}", "nominal": {"cpu": 2, **(more if i == 2 else nothing)}, "weight": "1"}
            for i in range(3)
        ],
        "running": [
            {
                "name": f"w{i}",
                "queue": "q1",
                "priority": i,
                "requests": {"cpu": 1, **({claims.GPU: gpus} if gpus else {})},
                "age": 1000 + i,
            }
            for i in range(6)
        ],
        "incoming": {"name": "new", "queue": "q0", "priority": 0, "requests": {"cpu": amount}, "age": 0},
    }
    answer = {"fits": fits, "victims": theirs, "shares": {}}
    return [found.kind for found in fair_claims.compare(asked, answer)]


FAIR: dict[str, tuple[int, int, list[str], list[str]]] = {
    "the same victims": (3, 0, ["w2", "w0", "w1"], []),
    "one that matters more": (3, 0, ["w0", "w1", "w3"], ["the choice of victims of a fair move"]),
    "no victims of theirs": (3, 0, [], ["a fair move where theirs finds none"]),
    "nobody takes what would leave the other one less": (4, 0, [], []),
    "theirs takes what leaves the other one less": (
        4,
        0,
        ["w0", "w1", "w2", "w3"],
        ["a fair move that is not fair"],
    ),
    "the same, of several resources": (
        4,
        1,
        ["w0", "w1", "w2", "w3"],
        ["no fair move, as theirs breaks a rule of ours"],
    ),
}


@pytest.mark.parametrize(("amount", "gpus", "theirs", "kinds"), FAIR.values(), ids=FAIR)
def test_a_fair_move_is_compared_with_what_another_scheduler_evicts(
    amount: int, gpus: int, theirs: list[str], kinds: list[str]
) -> None:
    assert fair_claim(amount, gpus, theirs) == kinds
    assert fair_claim(amount, gpus, [], fits=True) == ["room for work"]


WRONG: dict[str, tuple[list[str], list[str], int, str]] = {
    "nobody goes": ([], ["w0", "w1", "w2"], 0, "a fair move is missed"),
    "nobody goes, of several resources": (
        [],
        ["w0", "w1", "w2"],
        1,
        "a fair move of several resources that bounds refuse",
    ),
    "too few go": (["w0", "w1"], [], 0, "an unfair move"),
    "too many go": (["w0", "w1", "w2", "w3"], [], 0, "an unfair move"),
    "one that matters more goes": (["w0", "w1", "w5"], ["w0", "w1", "w2"], 0, "a dearer fair move"),
}


@pytest.mark.parametrize(("evicted", "theirs", "gpus", "kind"), WRONG.values(), ids=WRONG)
def test_a_fair_move_that_is_wrong_is_found(
    evicted: list[str], theirs: list[str], gpus: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "outcome", lambda decided: (False, evicted))
    assert fair_claim(3, gpus, theirs) == [kind]


@pytest.mark.parametrize(("found", "minor", "key"), PACKAGES.values(), ids=PACKAGES)
def test_which_differences_of_packages_are_meant(found: Difference, minor: str, key: str) -> None:
    assert meant_in_packages(found, minor) == key


def test_the_worlds_of_groups_are_of_all_kinds() -> None:
    """Gangs that miss members, gangs that are whole, basic groups, and groups of one domain."""
    worlds = [group_world(seed) for seed in range(60)]
    assert worlds == [group_world(seed) for seed in range(60)]
    minima = [(world.group["spec"]["schedulingPolicy"].get("gang"), len(world.members)) for world in worlds]
    assert {gang is None for gang, _ in minima} == {True, False}
    assert any(gang is not None and gang["minCount"] > count for gang, count in minima)
    assert {"schedulingConstraints" in world.group["spec"] for world in worlds} == {True, False}


def test_a_difference_of_a_group_is_written_as_a_scenario() -> None:
    """The one node has room for two of three members; a number that is not Muster's fails the scenario."""
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    group = {"metadata": {"name": "g", "namespace": "t"}, "spec": {"schedulingPolicy": {"basic": {}}}}
    members = [
        {
            "metadata": {"name": name, "namespace": "t"},
            "spec": {
                "schedulerName": "default-scheduler",
                "schedulingGroup": {"podGroupName": "g"},
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        for name in ("a", "b", "c")
    ]
    state = {
        kind: [msgspec.json.encode(obj) for obj in objects]
        for kind, objects in ((NODES, [node]), (PODS, members), (NATIVE_POD_GROUPS, [group]))
    }
    for count, right in ((2, True), (3, False)):
        (scenario,) = load_scenarios(group_scenario(GroupStep("world", state, count, ()), "1.37"))
        (told,) = run_scenario(scenario)["steps"]
        assert (not told["mismatches"]) == right


def a_node(name: str, cpu: str) -> dict[str, Any]:
    amounts = {"cpu": cpu, "pods": "9"}
    labels = {"kubernetes.io/hostname": name}
    return {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}


def a_pod(name: str, node: str = "", priority: int = 0, nominated: str = "", **spec: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "t", "uid": name, "labels": {"app": name}}
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": "default-scheduler", "priority": priority, "containers": [container], **spec}
    status = {"phase": "Running" if node else "Pending"}
    if node:
        spec["nodeName"] = node
    if nominated:
        status["nominatedNodeName"] = nominated
    return {"metadata": meta, "spec": spec, "status": status}


def state_of(nodes: list[dict[str, Any]], *pods: dict[str, Any]) -> State:
    return {NODES: list(map(msgspec.json.encode, nodes)), PODS: list(map(msgspec.json.encode, pods))}


def test_a_node_that_is_kept_for_a_nominated_pod_is_not_feasible() -> None:
    state = state_of([a_node("n", "1"), a_node("m", "1")], a_pod("first", priority=9, nominated="n"))
    decided = ours.decide(state, msgspec.json.encode(a_pod("p")), 0.0)
    assert (decided.node, decided.feasible) == ("m", {"m"})


NEAR: dict[str, tuple[str, str, str]] = {
    "a neighbour that stays beside a victim": (
        "db",
        "node(s) didn't match pod affinity rules",
        "neighbours-stay",
    ),
    "a neighbour that is not among those who could go": (
        "other",
        "node(s) didn't match pod affinity rules",
        "",
    ),
    "nobody evicted for another reason": ("db", "Insufficient cpu", ""),
}


@pytest.mark.parametrize(("needed", "said", "key"), NEAR.values(), ids=NEAR)
def test_neighbours_that_stay_are_meant_where_affinity_needs_them(needed: str, said: str, key: str) -> None:
    """`db` and `job` run on the node, both less important; `other` is more important."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": needed}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    running = (a_pod("db", "n"), a_pod("job", "n"), a_pod("other", "n", priority=50))
    state = state_of([a_node("n", "3")], *running)
    stored = msgspec.json.encode(a_pod("p", priority=9, affinity=near))
    decided = ours.decide(state, stored, 0.0)
    assert decided.victims
    theirs = Outcome(message=f"0/1 nodes are available: preemption: 1 {said}", reasons=decided.reasons)
    (finding,) = differences(theirs, decided)
    assert meant(Step("world", {}, stored, state, theirs, decided, (finding,)), finding) == key


def test_a_neighbour_that_stays_while_a_pod_ends_is_meant() -> None:
    """`db` stays, and `job` is ending already: theirs waits for nobody on the node."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "db"}}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    ends = a_pod("job", "n")
    ends["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:30Z", "deletionGracePeriodSeconds": 30}
    state = state_of([a_node("n", "2")], a_pod("db", "n"), ends)
    stored = msgspec.json.encode(a_pod("p", priority=9, affinity=near))
    decided = ours.decide(state, stored, parse_time("2026-01-01T00:00:10Z"))
    assert (decided.nominated, decided.victims) == ("n", frozenset())
    said = "0/1 nodes are available: preemption: 1 node(s) didn't match pod affinity rules"
    theirs = Outcome(message=said, reasons=decided.reasons)
    (finding,) = differences(theirs, decided)
    assert finding.kind == "nominated node"
    assert meant(Step("world", {}, stored, state, theirs, decided, (finding,)), finding) == "neighbours-stay"


def test_objects_of_a_step_can_be_created_again() -> None:
    """A server has put matchLabelKeys into selectors; it would refuse them a second time."""
    selector = {
        "matchLabels": {"app": "a"},
        "matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}],
    }
    term = {"topologyKey": "zone", "labelSelector": selector, "matchLabelKeys": ["v"]}
    spread = {"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["v"]}
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    pod = a_pod(
        "p",
        nominated="n",
        affinity={"podAntiAffinity": rules},
        topologySpreadConstraints=[spread],
    )
    pod["metadata"] |= {"resourceVersion": "7", "ownerReferences": [{"kind": "ReplicaSet", "name": "r"}]}
    (plain,) = plain_objects(state_of([], pod))
    (found,) = plain["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert found == {"topologyKey": "zone", "labelSelector": selector}
    assert plain["spec"]["topologySpreadConstraints"] == [spread]
    assert plain["status"]["nominatedNodeName"] == "n"
    assert "resourceVersion" not in plain["metadata"]
    assert "ownerReferences" in plain["metadata"]


LEVEL: dict[str, tuple[dict[str, Any], int, str]] = {
    "requests of its own": ({"resources": {"requests": {"cpu": "2"}}}, 0, "pod-level-requests-are-scored"),
    "requests of its own, and another score than without": ({"resources": {"requests": {"cpu": "2"}}}, 1, ""),
    "no requests of its own": ({}, 1, ""),
}


@pytest.mark.parametrize(("spec", "more", "key"), LEVEL.values(), ids=LEVEL)
def test_scores_are_meant_where_theirs_are_those_without_requests_of_the_pod_level(
    spec: dict[str, Any], more: int, key: str
) -> None:
    state = state_of([a_node("n", "4"), a_node("m", "8")])
    stored = msgspec.json.encode(a_pod("p", **spec))
    theirs = ours.decide(state, msgspec.json.encode(a_pod("p")), 0.0)
    fit = {node: score + more for node, score in theirs.scores["NodeResourcesFit"].items()}
    theirs = replace(theirs, scores={**theirs.scores, "NodeResourcesFit": fit})
    decided = ours.decide(state, stored, 0.0)
    (finding,) = (one for one in differences(theirs, decided) if one.kind == "scores of NodeResourcesFit")
    assert meant(Step("world", {}, stored, state, theirs, decided, (finding,)), finding) == key


REPORTED: dict[str, tuple[dict[str, Any], str]] = {
    "a pod with overhead": ({"overhead": {"cpu": "1"}}, "overhead-counts-once"),
    "a pod without": ({}, ""),
}


@pytest.mark.parametrize(("spec", "key"), REPORTED.values(), ids=REPORTED)
def test_a_pod_that_waits_is_meant_where_theirs_adds_the_overhead_again(
    spec: dict[str, Any], key: str
) -> None:
    """Two of four CPUs are taken; theirs counts three, so that the next two have no room."""
    runs = a_pod("r", "n", resources={"requests": {"cpu": "1"}}, **spec)
    runs["status"] |= {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
    state = state_of([a_node("n", "4")], runs)
    stored = msgspec.json.encode(a_pod("p", resources={"requests": {"cpu": "2"}}))
    decided = ours.decide(state, stored, 0.0)
    assert decided.node == "n"
    theirs = Outcome(reasons={"Insufficient cpu": 1}, message="0/1 nodes are available: 1 Insufficient cpu.")
    (finding,) = differences(theirs, decided)
    assert meant(Step("world", {}, stored, state, theirs, decided, (finding,)), finding) == key


def test_both_are_meant_in_one_score() -> None:
    """World 617: theirs forgets the requests of the new pod, beside a pod whose overhead it adds again."""
    nodes, own = [a_node("n", "8"), a_node("m", "8")], {"requests": {"cpu": "1"}}
    runs = a_pod("r", "n", resources=own, overhead={"cpu": "1"})
    runs["status"] |= {"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "2"}}}
    state = state_of(nodes, runs)
    stored = msgspec.json.encode(a_pod("p", resources={"requests": {"cpu": "2"}}))
    twice = state_of(nodes, a_pod("r", "n", resources={"requests": {"cpu": "3"}}))
    theirs = ours.decide(twice, msgspec.json.encode(a_pod("p")), 0.0)
    decided = ours.decide(state, stored, 0.0)
    (finding,) = (one for one in differences(theirs, decided) if one.kind == "scores of NodeResourcesFit")
    step = Step("world", {}, stored, state, theirs, decided, (finding,))
    assert meant(step, finding) == "pod-level-requests-are-scored"


class Hanging:
    """A control plane with one node, whose kube-scheduler decides nothing about the pod `hangs`."""

    rule = ResizeRule.LARGEST_SUM

    def __init__(self) -> None:
        self.removed: list[str] = []

    def clear(self) -> None:
        """It has nothing."""

    def state(self) -> State:
        return state_of([a_node("n", "4")])

    def offer(self, pod: dict[str, Any]) -> bytes:
        return msgspec.json.encode(pod)

    def remove(self, pod: dict[str, Any]) -> None:
        self.removed.append(pod["metadata"]["name"])

    def patch_status(self, pod: dict[str, Any], status: dict[str, Any]) -> None:
        """Nobody looks."""

    @contextmanager
    def scheduling(self) -> Iterator[Hanging]:
        yield self

    def decision(self, key: str) -> Outcome:
        if key == "t/hangs":
            raise Undecided("nothing is decided about t/hangs within 60 s")
        return ours.decide(self.state(), msgspec.json.encode(a_pod(key)), 0.0)


def test_a_scheduler_that_decides_nothing_is_a_finding_of_its_step_and_the_next_pod_comes() -> None:
    plane = Hanging()
    played = play(
        cast(Real, plane),
        World("world", (), tuple({"kind": "Pod", **a_pod(name)} for name in ("hangs", "next"))),
    )
    assert [[str(finding) for finding in step.findings] for step in played.steps] == [
        ["undecided: nothing is decided about t/hangs within 60 s beside runs on n"],
        [],
    ]
    assert plane.removed == ["hangs"]
    hung = played.steps[0]
    (scenario,) = load_scenarios(scenario_text(objects_of(hung), hung.pod, None, "undecided", "1.37"))
    assert scenario.steps[0].expect == {}


def test_a_scheduler_has_a_time_for_each_decision(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(real, "DECISION_SECONDS", 0.0)

    class Waiting:
        def pod(self, key: str) -> dict[str, Any]:
            return {"spec": {}, "status": {}}

    log = tmp_path / "log"
    log.write_text("last words")
    scheduling = Scheduling(cast(Real, Waiting()), log, lambda: None)
    with pytest.raises(Undecided, match="nothing is decided about t/p within 0 s"):
        scheduling.decision("t/p")
    with pytest.raises(Undecided, match="kube-scheduler ended with 2: last words"):
        Scheduling(cast(Real, Waiting()), log, lambda: 2).decision("t/p")
