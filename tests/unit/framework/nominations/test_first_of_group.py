"""The first pod that required affinity selects, beside nominated pods that start first or pods that leave."""

from __future__ import annotations

import pytest

from scheduler_core.framework.nominations.first_of_group import FirstOfGroup
from scheduler_core.framework.preemption.eligibility import awaited
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_node, make_pod

# Node, zone.
NODES = (("m", "east"), ("n", "east"), ("o", "west"))


def zones() -> ClusterState:
    state = ClusterState()
    for name, zone in NODES:
        state.put_node(make_node(name).allocatable(cpu=9).label("zone", zone).obj())
    return state


def pod(key: str, app: str = "red", near: str = "") -> PodBuilder:
    """A pod; `near` is the app that its zone must have."""
    made = make_pod(key).uid(key).labels(app=app).requests(cpu=1).priority(5)
    term = {"labelSelector": {"matchLabels": {"app": near}}, "topologyKey": "zone"}
    rules = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return made.spec(affinity=rules) if near else made


def nominate(state: ClusterState, item: PodBuilder, node: str) -> None:
    state.put_pod(item.obj())
    waiting = state.pods[item.meta["uid"]]
    state.nominations.put(waiting, node, state.vector(waiting))


def allowed(state: ClusterState, item: PodBuilder) -> str:
    first = FirstOfGroup(state, item.obj())
    return "".join(name for slot, (name, _) in enumerate(NODES) if first.allows(slot))


CASES: list[tuple[str, PodBuilder, str, PodBuilder, str]] = [
    ("one of its group comes", pod("a/w"), "m", pod("a/x", "red", "red"), "mn"),
    ("another pod comes", pod("a/w", "blue"), "m", pod("a/x", "red", "red"), "mno"),
    ("it is not of the group itself", pod("a/w", "blue"), "m", pod("a/x", "red", "blue"), "mno"),
    ("it needs nobody", pod("a/w"), "m", pod("a/x"), "mno"),
    ("less important", pod("a/w").priority(4), "m", pod("a/x", "red", "red"), "mno"),
    ("for a node that is gone", pod("a/w"), "gone", pod("a/x", "red", "red"), "mno"),
]


@pytest.mark.parametrize(
    ("nominee", "node", "item", "nodes"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_first_of_a_group_goes_where_a_nominated_one_will_be(
    nominee: PodBuilder, node: str, item: PodBuilder, nodes: str
) -> None:
    state = zones()
    nominate(state, nominee, node)
    assert allowed(state, item) == nodes


def test_where_the_group_is_there_already_its_filter_decides() -> None:
    state = zones()
    nominate(state, pod("a/w"), "m")
    state.put_pod(pod("a/1").on("o").obj())
    assert allowed(state, pod("a/x", "red", "red")) == "mno"


LEAVING: list[tuple[str, list[PodBuilder], PodBuilder, set[str]]] = [
    ("the last of its group leaves", [pod("a/1").on("o").deleting(1)], pod("a/w", "red", "red"), {"a/1"}),
    ("one stays", [pod("a/1").on("o").deleting(1), pod("a/2").on("o")], pod("a/w", "red", "red"), set()),
    ("one is near", [pod("a/1").on("o").deleting(1), pod("a/2").on("n")], pod("a/w", "red", "red"), set()),
    ("it cannot be the first", [pod("a/1", "blue").on("o").deleting(1)], pod("a/w", "red", "blue"), set()),
    ("it needs nobody", [pod("a/1").on("o").deleting(1)], pod("a/w"), set()),
    ("nobody leaves", [pod("a/1").on("o")], pod("a/w", "red", "red"), set()),
]  # fmt: skip


@pytest.mark.parametrize(
    ("placed", "item", "waits"), [case[1:] for case in LEAVING], ids=[case[0] for case in LEAVING]
)
def test_a_nominated_pod_waits_to_be_the_first_of_its_group(
    placed: list[PodBuilder], item: PodBuilder, waits: set[str]
) -> None:
    state = zones()
    for other in placed:
        state.put_pod(other.obj())
    nominate(state, item, "m")
    assert awaited(state, state.pods["a/w"]) == waits
    state.nominations.remove("a/w")
    nominate(state, item, "gone")
    assert awaited(state, state.pods["a/w"]) == set()
