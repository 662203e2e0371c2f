"""One attempt of a gang: what it holds afterwards, what each member is told, what is looked for."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler_core.engine.gang.cycle import schedules_gang
from scheduler_core.engine.gang.members import largest_first
from scheduler_core.engine.gang.outcome import Lack, MustWait, Outcome, Starts
from scheduler_core.engine.pod_cycle import PodCycle
from scheduler_core.framework.preparation import Preparation
from scheduler_core.framework.profile import Profile
from scheduler_core.framework.status import Code, Status, unschedulable
from scheduler_core.model.groups.gang import GroupRef
from scheduler_core.model.pods.pod import Pod
from scheduler_core.model.writes import Bind, Write
from tests.support.builders import PodBuilder, make_node, make_pod, make_quota
from tests.support.gang_scheduler import GangScheduler, member, placed, rejected
from tests.unit.engine.gang.outcomes import names, to_prepare, waiting

WRITE: Write = Bind("a", "volume", "v", "n0")


def run(made: GangScheduler, gang: str = "g") -> Outcome:
    """The gang cycle alone, on the waiting members in the order in which they came."""
    pods = made.scheduler.queue.units[f"a/{gang} PodGroup"].pods.values()
    members = [(made.scheduler.profiles[pod.scheduler_name], pod) for pod in pods]
    return made.scheduler.unit_cycle.gang_cycle.run(
        made.state.gangs.gangs[f"a/{gang} PodGroup"], members, made.now
    )


def says(monkeypatch: pytest.MonkeyPatch, **answers: Status | Exception) -> None:
    """Reserve answers so for members of these names."""
    original = PodCycle.reserve

    def reserve(self: Any, profile: Any, attempt: Any) -> Any:
        answer = answers.get(attempt.cycle.pod.name)
        if isinstance(answer, Exception):
            raise answer
        return answer or original(self, profile, attempt)

    monkeypatch.setattr(PodCycle, "reserve", reserve)


def preparing() -> Status:
    return Status(Code.PENDING, "a volume is made", "Volumes", Preparation((WRITE,)))


# All of them


def test_members_that_all_find_nodes_hold_them() -> None:
    made = GangScheduler([3, 2], g=2)
    made.put(member("m0", cpu=3), member("m1", cpu=2))
    outcome = run(made)
    assert (names(outcome), outcome.refused, outcome.plugins) == (["m0", "m1"], {}, frozenset())
    assert set(made.state.placed) == {"m0", "m1"}
    assert isinstance(outcome, Starts)
    assert outcome.singly


def test_a_member_without_a_node_beside_enough_others_is_told_why() -> None:
    made = GangScheduler([3], g=2)
    made.put(member("m0", cpu=9), member("m1", cpu=2), member("m2"))
    outcome = run(made)
    assert names(outcome) == ["m1", "m2"]
    assert outcome.refused == {"m0": "0/1 nodes are available: 1 Insufficient cpu."}
    assert outcome.plugins == {"NodeResourcesFit"}


def test_members_that_a_search_left_out_are_told_nothing_yet() -> None:
    made = GangScheduler([4, 3], g=3)
    made.put(member("small"), member("middle", cpu=2), member("large", cpu=4), member("huge", cpu=9))
    outcome = run(made)
    assert (set(names(outcome)), outcome.refused) == ({"small", "middle", "large"}, {"huge": ""})


# Not enough of them


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the members that are tried from now on."""
    found: list[str] = []
    original = PodCycle.attempt

    def attempt(self: Any, profile: Any, pod: Pod, now: float, **more: Any) -> Any:
        found.append(pod.name)
        return original(self, profile, pod, now, **more)

    monkeypatch.setattr(PodCycle, "attempt", attempt)
    return found


def test_equal_members_without_room_are_not_even_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([2], g=3)
    made.put(*(member(f"m{number}") for number in range(3)))
    tried = asked(monkeypatch)
    outcome = run(made)
    text = (
        "PodGroup a/g: only 2 of the 3 pods that must start together find a node: "
        "1 pod short: it needs 1 cpu; one node has this resource"
    )
    assert (tried, outcome.refused) == ([], {f"m{number}": text for number in range(3)})
    assert (waiting(outcome).need, made.state.placed) == (3, {})
    assert {"Coscheduling", "NodeResourcesFit"} <= outcome.plugins


@pytest.mark.parametrize(
    ("most", "blocks"),
    [
        pytest.param(
            4, "; quota blocks, too: ElasticQuota a/q: used cpu=2 + requested 3 exceeds max=4", id="full"
        ),
        pytest.param(5, "", id="not full"),
    ],
)
def test_a_quota_that_blocks_as_well_is_named_beside_the_nodes(most: int, blocks: str) -> None:
    made = GangScheduler([4], g=3)
    made.scheduler.put(make_quota("a/q").min(cpu=most).max(cpu=most).obj(), made.now)
    made.put(make_pod("a/other").uid("other").requests(cpu=2).on("n0"))
    made.put(*(member(f"m{number}").never() for number in range(3)))
    short = "1 pod short: it needs 1 cpu; one node has this resource"
    assert run(made).refused["m0"].endswith(f"find a node: {short}{blocks}")


def test_a_refusal_by_the_quota_is_given_once() -> None:
    made = GangScheduler([9], g=3)
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    made.put(make_pod("a/other").uid("other").requests(cpu=2).on("n0"))
    made.put(*(member(f"m{number}").never() for number in range(3)))
    assert run(made).refused["m0"].count("ElasticQuota a/q") == 1


def test_no_further_member_is_tried_when_too_many_have_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([2], g=2)
    made.put(member("m0", cpu=9).never(), member("m1", cpu=8).never(), member("m2").never())
    tried = asked(monkeypatch)
    outcome = run(made)
    assert tried == ["m0", "m1"]
    assert "only 0 of the 2 pods that must start together find a node: 0/1 nodes" in outcome.refused["m2"]
    assert (waiting(outcome).need, waiting(outcome).preemption, made.state.placed) == (2, None, {})


def test_a_gang_of_one_is_told_what_its_member_is_told() -> None:
    made = GangScheduler([2], g=1)
    made.put(member("m0", cpu=9))
    assert run(made).refused == {
        "m0": "PodGroup a/g: its waiting pod finds no node: 0/1 nodes are available: 1 Insufficient cpu."
    }


@pytest.mark.parametrize(("low", "evicts"), [(2, True), (1, False)])
def test_evictions_are_looked_for_where_all_that_may_go_would_be_enough(low: int, evicts: bool) -> None:
    made = GangScheduler([3], g=2)
    for number in range(3):
        pod = make_pod(f"f/v{number}").uid(f"v{number}").requests(cpu=1).on("n0")
        made.put(pod if number < low else pod.priority(99))
    made.put(*(member(f"m{number}").priority(5) for number in range(2)))
    preemption = waiting(run(made)).preemption
    assert (preemption is not None) is evicts
    if preemption is not None:
        assert {victim.name for victim, _ in preemption.victims} == {"v0", "v1"}
        assert [(pod.name, node) for pod, node, _ in preemption.nominated] == [
            ("m0", "n0"),
            ("m1", "n0"),
        ]


def test_members_that_differ_preempt_with_the_largest_first() -> None:
    made = GangScheduler([4, 2], g=2)
    made.put(
        *(make_pod(f"f/v{n}").uid(f"v{n}").requests(cpu=size).on(f"n{n}") for n, size in ((0, 4), (1, 2)))
    )
    made.put(member("small", cpu=2).priority(5), member("large", cpu=4).priority(5))
    preemption = waiting(run(made)).preemption
    assert preemption is not None
    assert {(pod.name, node) for pod, node, _ in preemption.nominated} == {
        ("small", "n1"),
        ("large", "n0"),
    }


def test_the_largest_is_who_asks_for_the_largest_share_of_anything() -> None:
    made = GangScheduler([10])
    made.scheduler.put(make_node("n1").allocatable(cpu=10, gpu=2).obj(), made.now)
    pods = [member("m0", cpu=2), member("m1").requests(cpu=1, gpu=1), member("m2", cpu=3)]
    (profile,) = made.scheduler.profiles.values()
    ordered = largest_first(made.state, [(profile, pod.obj()) for pod in pods])
    assert [pod.name for _, pod in ordered] == ["m1", "m2", "m0"]


# A plugin that refuses a node, or has to prepare it


def test_a_node_that_is_refused_is_said_and_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([9], g=2)
    made.put(member("m0").never(), member("m1", cpu=2).never())
    says(monkeypatch, m1=unschedulable("the node is promised").of("Somebody"))
    outcome = run(made)
    assert "only 1 of the 2 pods" in outcome.refused["m0"]
    assert "the node is promised" in outcome.refused["m0"]
    assert {"Coscheduling", "Somebody"} <= outcome.plugins
    assert (to_prepare(outcome), made.state.placed) == ((), {})


def test_a_member_beyond_the_need_whose_node_is_refused_is_told_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = GangScheduler([9], g=1)
    made.put(member("m0"), member("m1", cpu=2))
    says(monkeypatch, m0=unschedulable("the node is promised").of("Somebody"))
    outcome = run(made)
    assert (names(outcome), outcome.refused) == (["m1"], {"m0": "the node is promised"})
    assert outcome.plugins == {"Somebody"}


def test_all_wait_for_the_node_that_one_of_them_needs_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([3, 2], g=2)
    made.put(member("m0", cpu=3), member("m1", cpu=2))
    says(monkeypatch, m0=preparing())
    outcome = run(made)
    text = "PodGroup a/g: the pods that must start together have found nodes: a volume is made"
    assert outcome.refused == {"m0": text, "m1": text}
    assert outcome.plugins == {"Coscheduling", "Volumes"}
    assert [(item.pod.name, item.node, int(item.vector[0]), item.writes) for item in to_prepare(outcome)] == [
        ("m0", "n0", 3000, (WRITE,)),
        ("m1", "n1", 2000, ()),
    ]
    assert (made.state.placed, made.state.check()) == ({}, [])


def test_members_whose_nodes_are_prepared_see_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([2, 2], g=2)
    made.put(member("m0", cpu=2), member("m1", cpu=2))
    says(monkeypatch, m0=preparing(), m1=preparing())
    assert {item.node for item in to_prepare(run(made))} == {"n0", "n1"}


def test_nothing_is_prepared_for_a_gang_that_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([9], g=3)
    made.put(member("m0").never(), member("m1", cpu=2).never(), member("m2", cpu=99).never())
    says(monkeypatch, m0=preparing())
    outcome = run(made)
    assert (to_prepare(outcome), made.state.placed) == ((), {})
    assert "only 2 of the 3 pods" in outcome.refused["m0"]


def test_preparations_are_written_once_and_the_nodes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([3, 2], g=2)
    made.put(member("m0", cpu=3), member("m1", cpu=2))
    says(monkeypatch, m0=preparing())
    told = rejected(made.step())
    assert {name: item.writes for name, item in told.items()} == {"m0": (WRITE,), "m1": ()}
    assert {name: item.nominated for name, item in told.items()} == {"m0": "n0", "m1": "n1"}
    item = made.state.nominations.get("m1")
    assert item is not None
    assert (item.kept, item.group) == (True, "a/g PodGroup")


def test_broken_code_leaves_nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([9], g=3)
    made.put(member("m0"), member("m1", cpu=2), member("m2", cpu=3))
    says(monkeypatch, m0=preparing(), m2=ZeroDivisionError("bug"))
    with pytest.raises(ZeroDivisionError):
        run(made)
    assert (made.state.placed, made.state.check()) == ({}, [])


# Too few members, or more than the quota can hold


def test_a_gang_with_too_few_members_gets_that_message_only() -> None:
    made = GangScheduler([9], g=3)
    made.put(member("m0"), member("m1"))
    outcome = run(made)
    assert (waiting(outcome).lack, waiting(outcome).need) == (Lack.PODS, 0)
    assert outcome.plugins == {"Coscheduling"}


# max, of which CPUs run already, of which so many leave, whether the two of 2 CPUs can ever start
CAN_START: list[tuple[str, int, list[int], list[int], bool]] = [
    ("exactly the max", 4, [], [], True),
    ("less than it needs", 3, [], [], False),
    ("beside the member that runs", 5, [1], [], True),
    ("not beside the member that runs", 4, [1], [], False),
    ("once the member that leaves is gone", 4, [], [1], True),
]


@pytest.mark.parametrize(
    ("most", "running", "leaving", "possible"),
    [case[1:] for case in CAN_START],
    ids=[case[0] for case in CAN_START],
)
def test_a_gang_is_beyond_its_quota_if_the_quota_can_never_hold_it(
    most: int, running: list[int], leaving: list[int], possible: bool
) -> None:
    made = GangScheduler([99], g=2 + len(running))
    made.scheduler.put(make_quota("a/q").min(cpu=most).max(cpu=most).obj(), made.now)
    made.put(*(member(f"r{number}", cpu=cpu).on("n0") for number, cpu in enumerate(running)))
    made.put(*(member(f"l{number}", cpu=cpu).on("n0").deleting(5.0) for number, cpu in enumerate(leaving)))
    made.put(member("m0", cpu=2), member("m1", cpu=2))
    outcome = run(made)
    beyond = isinstance(outcome, MustWait) and outcome.lack is Lack.QUOTA
    assert beyond is not possible
    if not possible:
        assert waiting(outcome).need == 0
        assert outcome.plugins == {"Coscheduling", "CapacityScheduling"}


# Whose groups


def test_a_pod_outside_the_gang_does_not_count() -> None:
    made = GangScheduler([9], g=2)
    made.scheduler.put(make_quota("a/q").min(cpu=4).max(cpu=4).obj(), made.now)
    made.put(make_pod("a/x").uid("x").requests(cpu=1).on("n0"), member("m0", cpu=2), member("m1", cpu=2))
    outcome = run(made)
    assert (waiting(outcome).lack, waiting(outcome).need) == (Lack.ROOM, 2), "room may come"


@pytest.mark.parametrize(
    ("enabled", "dialect", "whole"),
    [
        ("", "ConfigMap", False),
        ("Coscheduling", "ConfigMap", False),
        ("ClusterTopologyPlacementGroup", "ConfigMap", True),
        ("", "PodGroup", False),
        ("Coscheduling", "PodGroup", True),
        ("ClusterTopologyPlacementGroup", "PodGroup", True),
        ("Coscheduling ClusterTopologyPlacementGroup", "PodGroup", True),
        ("", "native-PodGroup", True),
    ],
)
def test_which_profile_schedules_which_groups_as_a_whole(enabled: str, dialect: str, whole: bool) -> None:
    profile = cast(Profile, SimpleNamespace(enabled=frozenset(enabled.split())))
    assert schedules_gang(profile, GroupRef(cast(Any, dialect), "a", "g")) is whole


# A search that knows nothing better than the order


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda pod: pod, id="equal"),
        pytest.param(lambda pod: pod.labels(index=pod.meta["name"]), id="labels that nobody reads"),
    ],
)
def test_equal_members_are_not_searched_for(
    make: Callable[[PodBuilder], PodBuilder], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(self: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("scheduler_core.engine.gang.search.GangSearch.run", never)
    made = GangScheduler([2], g=2)
    made.put(*(make(member(f"m{number}")) for number in range(2)))
    assert len(placed(made.step())) == 2
    made = GangScheduler([2], g=3)
    made.put(*(make(member(f"m{number}")) for number in range(3)))
    assert placed(made.step()) == {}


def test_a_gang_is_searched_for_though_a_node_has_to_be_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    made = GangScheduler([2, 3], g=2)
    made.put(member("m0", cpu=2), member("m1", cpu=3))
    says(monkeypatch, m0=preparing())
    assert {(item.pod.name, item.node) for item in to_prepare(run(made))} == {("m0", "n0"), ("m1", "n1")}
