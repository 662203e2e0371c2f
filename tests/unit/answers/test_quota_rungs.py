"""What the checks of quota and preemption say, case by case: small clusters with easy amounts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from scheduler_core.answers.why.node_rungs import Refusals, node_rung
from scheduler_core.answers.why.numbers import RoomNumbers, quota_answer, shown
from scheduler_core.answers.why.quota_rungs import asks_text, preemption_rung, quota_rungs
from scheduler_core.answers.why.rung import BLOCKED, OK, Rung
from scheduler_core.model.names import LOAD_AWARE_SCHEDULING
from scheduler_core.simulate import Simulation
from tests.support.builders import Builder, make_node, make_pod, make_quota


def world(*objects: Builder | dict[str, Any]) -> Simulation:
    simulation = Simulation()
    for obj in (make_node("n").allocatable(gpu=8, cpu=8, pods=20), *objects):
        simulation.create(obj if isinstance(obj, dict) else obj.dict())
    return simulation


def checks(simulation: Simulation, *, all_known: bool = True) -> list[Rung]:
    """The checks of quota of all pods whose names begin with `new`."""
    pods = [pod for pod in simulation.state.pods.values() if pod.name.startswith("new")]
    answer = quota_answer(simulation, pods, len(pods), all_known=all_known)
    return quota_rungs(simulation, pods, len(pods), answer, all_known=all_known)


def running(key: str, **requests: int) -> Builder:
    return make_pod(key).requests(**requests).on("n")


def new(name: str = "new", **requests: int) -> Builder:
    return make_pod(f"a/{name}").requests(**requests)


def team(name: str, most: int | None) -> dict[str, Any]:
    spec = {"max": {"cpu": "64"} if most is None else {"nvidia.com/gpu": str(most)}}
    return {"kind": "QuotaGroup", "metadata": {"name": name}, "spec": spec}


def joins(quota: Builder, group: str) -> Builder:
    return quota.label("muster.dev/quota-group", group)


LOW, HIGH = make_quota("a/quota").min(gpu=2).max(gpu=4), make_quota("a/quota").min(gpu=2).max(gpu=8)
TWO, THREE = make_quota("b/quota").min(gpu=2), make_quota("b/quota").min(gpu=3)
GPU, SHARED = "nvidia.com/gpu", "cpu limits all because of the min of b"

# name, objects, per check: whether it blocks, and what it says with and without sums over all quotas
CHECKS: list[tuple[str, list[Builder | dict[str, Any]], list[tuple[bool, str, str]]]] = [
    ("no quota", [new(gpu=1)], [(False, "namespace a has no ElasticQuota: nothing is limited", "")]),
    (
        "a quota of nothing that is asked for",
        [make_quota("a/quota").min(gpu=1).max(gpu=1), new(cpu=1)],
        [(False, "ElasticQuota a/quota limits nothing that is asked for", "")],
    ),
    (
        "all of the min",
        [LOW, new(gpu=2)],
        [
            (
                False,
                f"asks 2 {GPU}; its quota uses 0; min 2, max 4: nothing is borrowed",
                "; all quotas use 0 of sum(min) 2: 2 left",
            )
        ],
    ),
    (
        "all of the max, and of what all have",
        [LOW, TWO, running("a/old", gpu=1), new(gpu=3)],
        [
            (
                False,
                f"asks 3 {GPU}; its quota uses 1; min 2, max 4: 2 are borrowed",
                "; all quotas use 1 of sum(min) 4: 3 left",
            )
        ],
    ),
    (
        "one above the max",
        [LOW, THREE, running("a/old", gpu=3), new(gpu=2)],
        [
            (
                True,
                f"asks 2 {GPU}; its quota uses 3; min 2, max 4: 2 are borrowed; 5 exceed max 4",
                "; all quotas use 3 of sum(min) 5: 2 left",
            )
        ],
    ),
    (
        "two alike, within the min",
        [make_quota("a/quota").min(gpu=4), new("new1", gpu=2), new("new2", gpu=2)],
        [
            (
                False,
                f"asks 2 x 2 = 4 {GPU}; its quota uses 0; min 4, no max: nothing is borrowed",
                "; all quotas use 0 of sum(min) 4: 4 left",
            )
        ],
    ),
    (
        "two that differ",
        [make_quota("a/quota").min(gpu=4), new("new1", gpu=1), new("new2", gpu=2)],
        [
            (
                False,
                f"asks 3 {GPU}; its quota uses 0; min 4, no max: nothing is borrowed",
                "; all quotas use 0 of sum(min) 4: 4 left",
            )
        ],
    ),
    (
        "the number of pods, where it is in the way",
        [make_quota("a/quota").min(pods=1).max(pods=1), running("a/old", gpu=1), new(gpu=2)],
        [
            (
                True,
                "asks 1 pods; its quota uses 1; min 1, max 1: 1 are borrowed; 2 exceed max 1",
                "; all quotas use 1 of sum(min) 1: 0 left",
            )
        ],
    ),
    (
        "a group's max",
        [team("t", 5), joins(LOW, "t"), joins(THREE, "t"), running("b/old", gpu=2), new(gpu=3)],
        [
            (
                False,
                f"asks 3 {GPU}; its quota uses 0; min 2, max 4: 1 are borrowed",
                "; all quotas use 2 of sum(min) 5: 3 left",
            )
        ],
    ),
]
# The same, where what all quotas use decides: only with sums they block.
SUMS: list[tuple[str, list[Builder | dict[str, Any]], list[str]]] = [
    (
        "one above what all have",
        [HIGH, TWO, running("b/old", gpu=2), new(gpu=3)],
        ["2 of sum(min) 4: 2 left"],
    ),
    (
        "more in use than all have",
        [HIGH, TWO, running("b/old", gpu=5), new(gpu=3)],
        ["5 of sum(min) 4: 0 left"],
    ),
    (
        "one above a group's max",
        [team("t", 4), joins(LOW, "t"), joins(THREE, "t"), running("b/old", gpu=2), new(gpu=3)],
        ["2 of sum(min) 5: 3 left; all quotas of QuotaGroup t use 2: 5 exceed its max 4"],
    ),
    (
        "a group without a max of it",
        [team("t", None), joins(LOW, "t"), joins(TWO, "t"), running("b/old", gpu=2), new(gpu=3)],
        ["2 of sum(min) 4: 2 left"],
    ),
    (
        "a resource that others name",
        [LOW, make_quota("b/quota").min(cpu=1), make_quota("c/quota").min(cpu=1), new(cpu=4)],
        [
            f"0 of sum(min) 2: 2 left; {SHARED}, c: give a/quota a min of cpu, "
            "or set aggregate: GuaranteedResources"
        ],
    ),
    (
        "a resource that the own quota names, too",
        [make_quota("a/quota").min(gpu=2, cpu=1), make_quota("b/quota").min(cpu=1), new(cpu=4)],
        ["0 of sum(min) 2: 2 left"],
    ),
    (
        "a quota that guarantees nothing",
        [make_quota("a/quota").max(gpu=4), make_quota("b/quota").min(cpu=1), new(cpu=4)],
        ["0 of sum(min) 1: 1 left"],
    ),
]


@pytest.mark.parametrize(
    ("objects", "wanted"), [case[1:] for case in CHECKS], ids=[case[0] for case in CHECKS]
)
def test_what_the_quota_says(objects: list[Any], wanted: list[tuple[bool, str, str]]) -> None:
    simulation = world(*objects)
    for all_known in (True, False):
        said = [(rung.state == BLOCKED, rung.text) for rung in checks(simulation, all_known=all_known)]
        assert said == [(blocks, text + sums * all_known) for blocks, text, sums in wanted]


@pytest.mark.parametrize(("objects", "wanted"), [case[1:] for case in SUMS], ids=[case[0] for case in SUMS])
def test_what_the_sum_of_all_says(objects: list[Any], wanted: list[str]) -> None:
    simulation = world(*objects)
    found = checks(simulation)
    assert [rung.state for rung in found] == [BLOCKED] * len(wanted)
    assert [rung.text.partition("; all quotas use ")[2] for rung in found] == wanted
    assert [rung.state for rung in checks(simulation, all_known=False)] == [OK] * len(wanted)


def test_what_one_of_several_asks_for_is_told_where_it_adds_up() -> None:
    assert asks_text("cpu", 4000, 2, {"cpu": 2000}) == "2 x 2 = 4 cpu"
    assert asks_text("cpu", 2000, 1, {"cpu": 2000}) == "2 cpu"
    assert asks_text("cpu", 3000, 2, {"cpu": 2000}) == "3 cpu"
    assert asks_text("cpu", 3000, 2, {}) == "3 cpu"


def room(now: int, emptied: int) -> RoomNumbers:
    """One node with room for so many, and for so many once all have gone who may be evicted."""
    return RoomNumbers(1, 1, now, now, emptied, "nvidia.com/gpu", now, 1)


def without(some: int, all_: int) -> str:
    return f"without all pods that may be evicted, {some} of {all_} would fit"


PAIR = [make_quota("a/quota").min(gpu=4).max(gpu=8), make_quota("b/quota").min(gpu=4)]
FIRST, SECOND = new("new1", gpu=1), new("new2", gpu=1)
BORROWS = "b/quota borrows nvidia.com/gpu=1"
LOWER = "and pods of lower priority under its own quota do not make room"
# name, objects, room (None: not known), why nobody is evicted
NOBODY: list[tuple[str, Sequence[Builder], RoomNumbers | None, str]] = [
    (
        "another scheduler",
        [*PAIR, new(gpu=1).scheduler("x")],
        None,
        "the profile has no plugin that preempts",
    ),
    ("pods that never preempt", [*PAIR, new(gpu=1).never()], None, "preemptionPolicy is Never"),
    (
        "one of two never preempts",
        [*PAIR, new("new1", gpu=1).never(), SECOND],
        None,
        "preemptionPolicy is Never",
    ),
    ("no quota", [new(gpu=1)], None, "no pod of lower priority would make room"),
    ("no quota, and room", [FIRST, SECOND], room(2, 2), "the nodes have room, so that no eviction helps"),
    ("no quota, and too little", [FIRST, SECOND], room(1, 1), without(1, 2)),
    ("no quota, and more than enough", [FIRST], room(0, 3), without(1, 1)),
    (
        "one above the min",
        [*PAIR, running("a/old", gpu=3), new(gpu=2)],
        room(0, 0),
        f"nvidia.com/gpu of 5 exceeds min 4, {LOWER}",
    ),
    (
        "within the min, as nobody borrows",
        [*PAIR, running("b/old", gpu=4), running("a/old", gpu=3), new(gpu=1)],
        room(0, 1),
        f"no other quota borrows; {without(1, 1)}",
    ),
    ("the same, with nothing known of nodes", [*PAIR, new(gpu=1)], None, "no other quota borrows"),
    (
        "somebody borrows",
        [*PAIR, running("b/old", gpu=5), new(gpu=1)],
        room(0, 1),
        f"b/quota borrows nvidia.com/gpu=1; {without(1, 1)}",
    ),
    ("somebody borrows, no more is known", [*PAIR, running("b/old", gpu=5), new(gpu=1)], None, BORROWS),
    (
        "the own quota borrows something else",
        [
            make_quota("a/quota").min(gpu=4, cpu=1),
            make_quota("b/quota").min(gpu=4, cpu=4),
            running("a/old", cpu=2),
            new(gpu=1),
        ],
        None,
        "no other quota borrows",
    ),
    (
        "two above the min, beside one that is more important",
        [*PAIR, make_pod("a/old").requests(gpu=3).priority(9).on("n"), FIRST, SECOND],
        None,
        f"nvidia.com/gpu of 5 exceeds min 4, {LOWER}",
    ),
    (
        "of two resources the one above",
        [make_quota("a/quota").min(gpu=2, cpu=1), running("a/old", gpu=1), new(gpu=1, cpu=2)],
        None,
        f"cpu of 2 exceeds min 1, {LOWER}",
    ),
    (
        "the number of pods last",
        [make_quota("a/quota").min(gpu=2, pods=1), running("a/old", gpu=1), new(gpu=1)],
        None,
        f"pods of 2 exceeds min 1, {LOWER}",
    ),
]


@pytest.mark.parametrize(
    ("objects", "found", "why"), [case[1:] for case in NOBODY], ids=[case[0] for case in NOBODY]
)
def test_why_nobody_is_evicted(objects: Sequence[Builder], found: RoomNumbers | None, why: str) -> None:
    simulation = world(*objects)
    pods = [pod for pod in simulation.state.pods.values() if pod.name.startswith("new")]
    rung = preemption_rung(simulation, pods, len(pods), found, [])
    assert (rung.state, rung.text) == (BLOCKED, f"nobody is evicted: {why}")
    rung = preemption_rung(simulation, pods, len(pods), found, ["b/x", "b/y"])
    assert (rung.state, rung.text) == (OK, "evicts b/x, b/y")


def rooms(now: int, fits: int, free: int, having: int = 1, open_: int = 3) -> RoomNumbers:
    return RoomNumbers(4, open_, now, fits, fits, GPU, free, having)


FULL = Refusals("NodeResourcesFit", 2, (("are full", 2),))
LOADED = Refusals(LOAD_AWARE_SCHEDULING, 1, (("is loaded", 1),))
OPEN = "; 3 of 4 nodes are open to them"
NOT_OPEN = "none of 4 nodes is open to them (2 are full)"
# name, pods that are needed, room, what is refused; whether it blocks, and what it says
NODES: list[tuple[str, int, RoomNumbers | None, list[Refusals], bool, str]] = [
    ("no node", 1, None, [], True, "there is no node"),
    ("enough", 2, rooms(2, 2, 1), [], False, f"2 of 2 pods fit{OPEN}"),
    ("more than enough", 2, rooms(5, 9, 1), [], False, f"2 of 2 pods fit{OPEN}"),
    (
        "too little",
        2,
        rooms(1, 1, 3),
        [],
        True,
        f"1 of 2 pods fit: at most 3 {GPU} is free on 1 node{OPEN}",
    ),
    (
        "too little on several",
        2,
        rooms(1, 1, 3, having=2),
        [],
        True,
        f"1 of 2 pods fit: at most 3 {GPU} is free on 2 nodes{OPEN}",
    ),
    (
        "nothing",
        2,
        rooms(0, 0, 0),
        [],
        True,
        f"0 of 2 pods fit: no {GPU} is free{OPEN}",
    ),
    (
        "soon enough",
        2,
        rooms(1, 3, 0),
        [],
        True,
        f"1 of 2 pods fit: no {GPU} is free; 2 fit once terminating pods are gone{OPEN}",
    ),
    (
        "none is open",
        2,
        rooms(0, 0, 0, open_=0),
        [FULL],
        True,
        NOT_OPEN,
    ),
    (
        "what is refused, without the load",
        2,
        rooms(2, 2, 1),
        [FULL, LOADED],
        False,
        f"2 of 2 pods fit{OPEN} (2 are full)",
    ),
    ("the load alone", 2, rooms(2, 2, 1), [LOADED], False, f"2 of 2 pods fit{OPEN}"),
]


@pytest.mark.parametrize(
    ("need", "found", "refusals", "blocks", "text"),
    [case[1:] for case in NODES],
    ids=[case[0] for case in NODES],
)
def test_what_the_nodes_say(
    need: int, found: RoomNumbers | None, refusals: list[Refusals], blocks: bool, text: str
) -> None:
    assert node_rung(need, found, refusals, known=True) == Rung("nodes", BLOCKED if blocks else OK, text)
    assert node_rung(need, found, refusals, known=False).state == "unknown"


def test_the_number_of_pods_is_shown_only_where_it_is_in_the_way() -> None:
    assert [shown(name, blocked=blocked) for name in ("cpu", "pods") for blocked in (True, False)] == [
        True,
        True,
        True,
        False,
    ]
