"""Who goes for a pod, and for which node: stories of one decision each, through the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler_core.engine.decisions import Decision, Rejected
from scheduler_core.state.events import EventKind
from tests.support.builders import (
    BudgetBuilder,
    PodBuilder,
    make_budget,
    make_group,
    make_node,
    make_pod,
    make_quota,
)
from tests.support.gang_scheduler import GangScheduler, evicted, placed, rejected


def runs(
    key: str, node: str = "n0", cpu: int = 1, priority: int = 0, start: int = 100, **more: Any
) -> PodBuilder:
    """A pod on a node; `gpu` and labels are taken from `more`."""
    asked = {"cpu": cpu} | ({"gpu": more.pop("gpu")} if "gpu" in more else {})
    name = key.rpartition("/")[2]
    made = make_pod(key if "/" in key else f"free/{key}").uid(name).requests(**asked).priority(priority)
    return made.started(start).labels(**more).on(node)


def asks(key: str = "free/p", cpu: int = 1, priority: int = 5, **more: Any) -> PodBuilder:
    return make_pod(key).uid("p").requests(cpu=cpu, **more).priority(priority)


def world(
    nodes: list[int], *running: PodBuilder, quotas: tuple[Any, ...] = (), budgets: tuple[Any, ...] = ()
) -> GangScheduler:
    """Nodes n0, n1, ... with so many CPUs, and what runs there."""
    made = GangScheduler(nodes)
    for quota in quotas:
        made.scheduler.put(quota.obj(), made.now)
    for budget in budgets:
        made.scheduler.put(budget.obj(), made.now)
    made.put(*running)
    return made


def outcome(made: GangScheduler, asking: PodBuilder) -> tuple[str, str]:
    """(the node that is kept for the pod, who is evicted)."""
    made.put(asking)
    decisions = made.step()
    assert placed(decisions) == {}
    told = rejected(decisions)[asking.meta["name"]]
    return told.nominated, " ".join(sorted(evicted(decisions)))


def message(decisions: list[Decision]) -> str:
    (told,) = (item for item in decisions if isinstance(item, Rejected))
    return told.message


def budget(allowed: int = 0, namespace: str = "free") -> BudgetBuilder:
    return make_budget(f"{namespace}/safe").selects(app="safe").allows(allowed)


# On one node

ONE: list[tuple[str, int, list[PodBuilder], int, str]] = [
    ("the lowest priority", 2, [runs("a", priority=1), runs("b", priority=0)], 1, "b"),
    ("of equals the one that started last", 2, [runs("a", start=1), runs("b", start=2)], 1, "b"),
    ("as many as are needed", 3, [runs("a", start=1), runs("b", start=2), runs("c", start=3)], 2, "b c"),
    ("no more than are needed", 4, [runs("a", cpu=3, start=1), runs("b", start=2)], 3, "a"),
    (
        "what can be spared is the most important",
        3,
        [runs("a", start=1), runs("b", start=2), runs("c", start=3)],
        1,
        "c",
    ),
    (
        "a large one is worth two small ones",
        4,
        [runs("a", cpu=2, start=1), runs("b", start=2), runs("c", start=3)],
        2,
        "b c",
    ),
    ("nobody of the same priority", 2, [runs("a", cpu=2, priority=5)], 1, ""),
    (
        "nobody who does not help",
        2,
        [runs("a", cpu=1, priority=5), runs("b", cpu=0), runs("c", cpu=1)],
        1,
        "c",
    ),
    ("nobody where all are not enough", 4, [runs("a", cpu=3, priority=9), runs("b", cpu=1)], 2, ""),
]


@pytest.mark.parametrize(("size", "running", "cpu", "victims"), [o[1:] for o in ONE], ids=[o[0] for o in ONE])
def test_victims_on_one_node(size: int, running: list[PodBuilder], cpu: int, victims: str) -> None:
    assert outcome(world([size], *running), asks(cpu=cpu)) == ("n0" if victims else "", victims)


BUDGETS: list[tuple[str, list[PodBuilder], int, int, str]] = [
    (
        "of those that are more than needed the protected ones are spared first",
        [runs("a", cpu=2, start=1), runs("b", start=2), runs("c", start=3, app="safe")],
        0,
        3,
        "a b",
    ),
    ("unless the budget allows it", [runs("a", app="safe", start=3), runs("b", start=1)], 1, 1, "a"),
    ("but they go where nobody else does", [runs("a", app="safe"), runs("b", priority=5)], 0, 1, "a"),
    ("all go where all are needed", [runs("a", app="safe"), runs("b")], 0, 2, "a b"),
]


@pytest.mark.parametrize(
    ("running", "allowed", "cpu", "victims"), [b[1:] for b in BUDGETS], ids=[b[0] for b in BUDGETS]
)
def test_budgets_are_kept_where_that_is_possible(
    running: list[PodBuilder], allowed: int, cpu: int, victims: str
) -> None:
    assert outcome(world([4 if cpu > 2 else 2], *running, budgets=(budget(allowed),)), asks(cpu=cpu)) == (
        "n0",
        victims,
    )


# Which node


def on(node: str, *pods: dict[str, Any]) -> list[PodBuilder]:
    return [runs(f"{node}-{number}", node, **pod) for number, pod in enumerate(pods)]


Pods = list[dict[str, Any]]
# One node's pods, and another's that go rather than those.
RATHER: list[tuple[str, Pods, Pods]] = [
    ("no violated budget", [{"priority": 0, "cpu": 2, "app": "safe"}], [{"priority": 3, "cpu": 2}]),
    ("the lowest top priority", [{"priority": 2, "cpu": 2}], [{"priority": 1}, {"priority": 1}]),
    ("the lowest sum of priorities", [{"priority": 2}, {"priority": 2}], [{"priority": 2}, {"priority": 1}]),
    (
        "fewer victims, however low their priorities",
        [{"priority": -5}, {"priority": -5}],
        [{"priority": -5, "cpu": 2}],
    ),
    ("the latest start of the top victim", [{"cpu": 2, "start": 1}], [{"cpu": 2, "start": 2}]),
    (
        "the latest start of the top victim, whoever else goes",
        [{"priority": 1, "start": 1}, {"start": 9}],
        [{"priority": 1, "start": 2}, {"start": 3}],
    ),
]


@pytest.mark.parametrize("better", ["n0", "n1"])
@pytest.mark.parametrize(("worse", "rather"), [r[1:] for r in RATHER], ids=[r[0] for r in RATHER])
def test_the_cheapest_node(worse: Pods, rather: Pods, better: str) -> None:
    other = "n1" if better == "n0" else "n0"
    made = world([2, 2], *on(other, *worse), *on(better, *rather), budgets=(budget(),))
    assert outcome(made, asks(cpu=2))[0] == better


def test_of_nodes_that_cost_the_same_the_first_by_name() -> None:
    made = world(
        [2, 2, 2], *on("n2", {"cpu": 2}), *on("n1", {"cpu": 2}), *on("n0", {"cpu": 2, "priority": 9})
    )
    assert outcome(made, asks(cpu=2)) == ("n1", "n1-0")


def test_nodes_that_no_eviction_helps_are_left_alone() -> None:
    made = world([], runs("a", "n0"), runs("b", "n1", priority=3))
    made.scheduler.put(make_node("n0").allocatable(cpu=1).taint("closed").obj(), made.now)
    made.scheduler.put(make_node("n1").allocatable(cpu=1).obj(), made.now)
    assert outcome(made, asks()) == ("n1", "b")


def test_victims_that_another_filter_needs_are_evicted_too() -> None:
    """Room is there; a pod of the same app must not be on the node."""
    made = world([4], runs("a", app="web"), runs("b", app="db", start=500))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert outcome(made, asks().spec(affinity=affinity)) == ("n0", "a")


def test_protected_pods_are_spared_first_where_another_filter_demands_evictions_too() -> None:
    running = (runs("web", app="web"), runs("a", app="safe", start=9), runs("b", start=1))
    made = world([3], *running, budgets=(budget(),))
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert outcome(made, asks(cpu=2).spec(affinity=affinity)) == ("n0", "b web")


def test_a_quota_keeps_its_min_where_another_filter_demands_one_of_its_pods() -> None:
    """b borrows one CPU and must lose web; the second CPU comes from c, though z is less important than y."""
    running = (runs("b/web", app="web", priority=2), runs("b/z"), runs("c/y", priority=1))
    made = world([3], *running, quotas=(quota("a", 2), quota("b", 1), quota("c", 0)))
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "namespaceSelector": {},
    }
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert outcome(made, asks("a/p", 2, priority=0).spec(affinity=affinity)) == ("n0", "web y")


def test_room_that_comes_free_by_itself_is_waited_for() -> None:
    made = world([2, 2], runs("a", cpu=2).deleting(50.0), runs("b", "n1", cpu=2))
    made.put(asks(cpu=2))
    decisions = made.step()
    assert (evicted(decisions), rejected(decisions)["p"].nominated) == (set(), "n0")


def test_a_pod_does_not_evict_again_while_it_waits() -> None:
    made = world([1, 1], runs("a"), runs("b", "n1"))
    assert outcome(made, asks()) == ("n0", "a")
    made.scheduler.put(make_node("n2").allocatable(cpu=0).obj(), made.now)
    assert evicted(made.step(400)) == set()
    gone = runs("a").obj()
    made.scheduler.remove(gone, made.now)
    assert placed(made.step(30)) == {"p": "n0"}


def test_the_message_says_how_many_go_for_which_node() -> None:
    made = world([6], *(runs(f"v{number}", start=number) for number in range(6)))
    made.put(asks(cpu=6))
    assert "preempting 6 pods for node n0: free/v0, free/v1, free/v2, free/v3, free/v4, ..." in message(
        made.step()
    )


def test_the_message_names_the_quota_for_which_somebody_goes() -> None:
    made = world([2], runs("b/x", cpu=2), quotas=(quota("a", 2), quota("b", 0)))
    made.put(asks("a/p"))
    assert "preempting 1 pods for node n0 under ElasticQuota a/q: b/x" in message(made.step())


# Under quotas


def quota(key: str, low: int, high: int = 99) -> Any:
    return make_quota(f"{key}/q").min(cpu=low).max(cpu=high)


RECLAIM: list[tuple[str, int, list[PodBuilder], int, str]] = [
    ("from who borrows", 6, [runs("b/x", cpu=3), runs("c/y", cpu=3)], 1, "x"),
    ("whatever its priority", 6, [runs("b/x", cpu=3, priority=99), runs("c/y", cpu=3)], 1, "x"),
    (
        "the least important of it",
        6,
        [runs("b/x", cpu=2, start=1), runs("b/z", start=2), runs("c/y", cpu=3)],
        1,
        "z",
    ),
    (
        "no more than it borrows where that is enough",
        6,
        [runs("b/big", cpu=2, start=9), runs("b/small", start=1), runs("c/y", cpu=3)],
        1,
        "small",
    ),
    (
        "nobody of the own quota",
        6,
        [runs("a/own", priority=0), runs("b/x", cpu=3), runs("c/y", cpu=2)],
        1,
        "x",
    ),
]


@pytest.mark.parametrize(
    ("size", "running", "cpu", "victims"), [r[1:] for r in RECLAIM], ids=[r[0] for r in RECLAIM]
)
def test_a_guarantee_is_reclaimed(size: int, running: list[PodBuilder], cpu: int, victims: str) -> None:
    """Mins: a 2, b 2, c 3. The pod of a stays within its min."""
    made = world([size], *running, quotas=(quota("a", 2), quota("b", 2), quota("c", 3)))
    assert outcome(made, asks("a/p", cpu, priority=0)) == ("n0", victims)


def test_quota_and_room_may_come_from_two_nodes() -> None:
    """n0 has room for one CPU; the second comes from n0's borrower, and the quota's need from n1 as well."""
    made = world(
        [2, 2], runs("b/x", "n0", cpu=1), runs("b/y", "n1", cpu=2), quotas=(quota("a", 2), quota("b", 1))
    )
    node, victims = outcome(made, asks("a/p", 2, priority=0))
    assert victims in ("x y", "y"), "the sum of min is 3: of the 3 that b uses 2 must go"
    assert node == ("n1" if victims == "y" else "n0")


def test_room_elsewhere_is_taken_where_only_quota_was_lacking() -> None:
    made = world([4, 9], runs("b/x", "n0", cpu=4), quotas=(quota("a", 2), quota("b", 2)))
    node, victims = outcome(made, asks("a/p", 2, priority=0))
    assert (node, victims) == ("n0", "x")


def test_above_the_min_only_the_own_and_less_important_go() -> None:
    running = (runs("a/own", cpu=2, priority=1), runs("a/peer", cpu=1, priority=5), runs("b/x", cpu=1))
    made = world([6], *running, quotas=(quota("a", 2), quota("b", 2)))
    assert outcome(made, asks("a/p", 1)) == ("n0", "own")


def test_no_pod_is_evicted_if_the_quota_would_still_refuse_the_preemptor() -> None:
    made = world([4], runs("a/own", cpu=1), quotas=(quota("a", 1, 2),))
    made.put(asks("a/p", 3))
    decisions = made.step()
    assert (evicted(decisions), "No set of victims frees enough of the quota" in message(decisions)) == (
        set(),
        True,
    )


FREES_TOO_LITTLE: list[tuple[str, list[PodBuilder], dict[str, int]]] = [
    ("of one of two resources", [make_pod("a/own").uid("own").requests(cpu=2)], {"cpu": 1, "memory": 2}),
    (
        "without those that are more important",
        [
            make_pod("a/high").uid("high").requests(cpu=1).priority(9),
            make_pod("a/low").uid("low").requests(cpu=1),
        ],
        {"cpu": 2, "memory": 0},
    ),
]


@pytest.mark.parametrize(
    ("running", "asked"), [f[1:] for f in FREES_TOO_LITTLE], ids=[f[0] for f in FREES_TOO_LITTLE]
)
def test_no_pod_is_evicted_if_all_candidates_free_too_little_quota(
    running: list[PodBuilder], asked: dict[str, int]
) -> None:
    limit = make_quota("a/q").min(cpu=0, memory=0).max(cpu=2, memory=1)
    made = world([], quotas=(limit, make_quota("b/q").min(cpu=9, memory=9)))
    made.scheduler.put(make_node("n0").allocatable(cpu=9, memory=9).obj(), made.now)
    made.put(*(pod.started(1).on("n0") for pod in running))
    made.put(make_pod("a/p").uid("p").requests(**asked).priority(5))
    decisions = made.step()
    assert evicted(decisions) == set()
    assert "No set of victims frees enough of the quota" in message(decisions)


def test_a_gang_goes_as_a_whole_only_where_no_single_pod_does() -> None:
    gang = [runs(f"g{number}", "n0").group("g") for number in range(2)]
    made = world([2, 1], *gang, runs("single", "n1", start=1))
    made.scheduler.put(make_group("free/g").needs(2).obj(), made.now)
    assert outcome(made, asks()) == ("n1", "single")
    made = world([2], *gang)
    made.scheduler.put(make_group("free/g").needs(2).obj(), made.now)
    assert outcome(made, asks()) == ("n0", "g0 g1")


def test_an_event_that_concerns_nobody_evicts_nobody() -> None:
    made = world([1], runs("a", priority=9))
    made.put(asks())
    assert evicted(made.step()) == set()
    assert EventKind.anything() & EventKind.OTHER
    made.scheduler.put(make_quota("other/q").min(cpu=1).obj(), made.now)
    assert evicted(made.step(400)) == set()
