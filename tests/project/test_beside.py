"""What `make beside` reads and compares, without the real ones: logs, messages, decisions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.beside.packages.difference import Difference
from tests.beside.packages.meant import meant as meant_in_packages
from tests.beside.rig.meant import meant
from tests.beside.rig.outcome import Outcome, counted, differences
from tests.beside.rig.play import Step
from tests.beside.rig.scheduler_log import told

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
    "a score of a pod with requests of its own": (
        step(
            runs(NodeResourcesFit={"a": 1, "b": 2}),
            runs(NodeResourcesFit={"a": 1, "b": 3}),
            resources={"requests": {"cpu": "1"}},
        ),
        "pod-level-requests-are-scored",
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


@pytest.mark.parametrize(("found", "minor", "key"), PACKAGES.values(), ids=PACKAGES)
def test_which_differences_of_packages_are_meant(found: Difference, minor: str, key: str) -> None:
    assert meant_in_packages(found, minor) == key
