"""Departures: who leaves within the limit, since when, and until when others wait for it."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import pytest

from scheduler_core.model.node import UNREACHABLE_TAINT_KEY
from scheduler_core.model.pods.pod import Pod
from scheduler_core.quota.fair_shares import share_of
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.departing import depart
from scheduler_core.state.events import ClusterEvent, EventKind
from scheduler_core.state.placed.departures import Departures, can_end_sooner, leaves_from
from tests.support.builders import make_node, make_pod, make_quota

NOW = 1_000_000.0
LIMIT = 300
TEN_YEARS = 315_360_000
NODE = make_node("n").allocatable(cpu="4", pods=10)
GOES = EventKind.POD_UPDATE | EventKind.POD_LEAVING
FREE = EventKind.LOAN | EventKind.NOMINATION


def ending(seconds: float, grace: int | None = 2 * 3600) -> Pod:
    """A pod that must have ended so many seconds after NOW."""
    pod = make_pod("a/p").uid("p").on("n").deleting(NOW + seconds)
    if grace is not None:
        pod.meta["deletionGracePeriodSeconds"] = grace
    return pod.obj()


@pytest.mark.parametrize(
    ("seconds", "grace", "leaves"),
    [
        pytest.param(30, 30, True, id="a pod that ends soon"),
        pytest.param(0, 0, True, id="without a grace period"),
        pytest.param(LIMIT, 600, True, id="at the limit"),
        pytest.param(3_600, LIMIT, True, id="within the limit by a clock that is behind that of the server"),
        pytest.param(TEN_YEARS, 30, False, id="in ten years, which no clock is behind"),
        pytest.param(LIMIT + 1, 600, False, id="beyond the limit"),
        pytest.param(TEN_YEARS, TEN_YEARS, False, id="in ten years"),
        pytest.param(-1, 2**63 - 1, False, id="a grace period so long that its end has wrapped around"),
        pytest.param(-1, 2**63, False, id="a grace period that no server stores"),
        pytest.param(-1, 30, True, id="it should be gone"),
        pytest.param(TEN_YEARS, None, True, id="no server stores a deletion without a grace period"),
    ],
)
def test_who_leaves_within_the_limit(seconds: float, grace: int | None, leaves: bool) -> None:
    assert (leaves_from(ending(seconds, grace), LIMIT) <= NOW) is leaves
    assert Departures().leaves(ending(seconds, grace), NOW) is leaves


@pytest.mark.parametrize(
    ("grace", "sooner"),
    [
        pytest.param(LIMIT, False, id="as long as the limit"),
        pytest.param(LIMIT + 1, True, id="longer"),
        pytest.param(2**63 - 1, True, id="the longest"),
        pytest.param(None, False, id="not told: a second deletion would end it at once"),
    ],
)
def test_who_can_end_sooner(grace: int | None, sooner: bool) -> None:
    assert can_end_sooner(ending(TEN_YEARS, grace), LIMIT) is sooner
    assert not can_end_sooner(make_pod("a/p").obj(), LIMIT)


def test_a_running_pod_does_not_end() -> None:
    assert leaves_from(make_pod("a/p").obj(), LIMIT) == inf
    assert not Departures().leaves(make_pod("a/p").obj(), NOW)


def test_a_pod_leaves_from_one_moment_on() -> None:
    out = Departures()
    pod = ending(1_000)
    assert not out.leaves(pod, NOW)
    assert not out.leaves(pod, NOW + 1)
    assert out.next_time() == NOW + 700
    assert list(out.due(NOW + 699)) == []
    assert list(out.due(NOW + 700)) == ["p"]
    assert out.leaves(pod, None)
    assert (out.next_time(), list(out.due(NOW + 5_000))) == (None, [])


def test_nothing_is_due_for_a_pod_that_is_gone() -> None:
    out = Departures()
    out.leaves(ending(1_000), NOW)
    out.forget("p")
    assert (out.next_time(), list(out.due(NOW + TEN_YEARS))) == (None, [])


def test_a_shortened_grace_period_counts() -> None:
    out = Departures()
    assert not out.leaves(ending(TEN_YEARS, TEN_YEARS), NOW)
    assert out.leaves(ending(LIMIT, LIMIT), NOW)
    assert out.next_time() is None


def test_who_was_evicted_here_leaves_whatever_the_clocks_say() -> None:
    """The clock of the API server may be ahead, or that of the scheduler was set back."""
    out = Departures()
    out.evicted("p")
    assert out.leaves(make_pod("a/p").uid("p").obj(), NOW)
    assert out.leaves(ending(7_200), NOW)
    out.forget("p")
    assert not out.leaves(ending(7_200), NOW)


def marks(state: ClusterState) -> tuple[bool, bool, bool]:
    """Whether the pod ends, leaves, and is late."""
    table, row = state.table, state.placed["p"].row
    assert (state.check(), table.leaving[row]) == ([], state.ledger.is_leaving("a", "p"))
    return bool(table.ending[row]), bool(table.leaving[row]), bool(table.late[row])


def test_a_state_tells_from_when_on_a_pod_leaves() -> None:
    state = ClusterState()
    state.put_node(NODE.obj())
    state.put_pod(ending(1_000), NOW)
    assert (marks(state), depart(state, NOW)) == ((True, False, True), [])
    events = depart(state, NOW + 700)
    assert (marks(state), [event.what for event in events]) == ((True, True, False), [GOES])
    assert depart(state, NOW + 701) == []


@pytest.mark.parametrize(
    "lose",
    [
        pytest.param(lambda state: state.remove_node("n"), id="the node is gone"),
        pytest.param(
            lambda state: state.put_node(
                make_node("n").allocatable(cpu="4", pods=10).taint(UNREACHABLE_TAINT_KEY).obj()
            ),
            id="its kubelet does not report",
        ),
    ],
)
def test_nobody_ends_a_pod_whose_node_is_lost(lose: Callable[[ClusterState], list[ClusterEvent]]) -> None:
    state = ClusterState()
    state.put_node(NODE.obj())
    state.put_pod(ending(30), NOW)
    assert marks(state) == (True, True, False)
    _, *events = lose(state)
    assert (marks(state), [event.what for event in events]) == (
        (True, False, False),
        [EventKind.POD_UPDATE, FREE | EventKind.QUOTA, EventKind.QUOTA],
    )
    _, *events = state.put_node(NODE.obj())
    assert (marks(state), [event.what for event in events]) == ((True, True, False), [GOES])


def test_others_are_told_that_an_evicted_pod_which_ended_later_ends_sooner_now() -> None:
    state = ClusterState()
    state.put_node(NODE.obj())
    state.put_pod(ending(5_000), NOW)
    state.mark_leaving("p")
    events = state.put_pod(ending(300, 300), NOW)
    assert (marks(state), [event.what for event in events]) == ((True, True, False), [EventKind.POD_UPDATE])
    assert state.put_pod(ending(300, 300), NOW) == []


def test_pods_may_be_known_before_their_node() -> None:
    state = ClusterState()
    state.put_pod(ending(30), NOW)
    assert marks(state) == (True, False, False)
    state.put_node(NODE.obj())
    assert marks(state) == (True, True, False)


def test_a_refused_second_eviction_leaves_a_late_pod_as_it_was() -> None:
    state = ClusterState()
    state.put_node(NODE.obj())
    state.put_pod(ending(TEN_YEARS, TEN_YEARS), NOW)
    table, row = state.table, state.placed["p"].row
    assert (table.leaving[row], table.late[row]) == (False, True)
    state.mark_leaving("p")
    assert (table.leaving[row], table.late[row], table.since[row]) == (True, False, 0.0)
    state.reprieve("p", NOW + 1)
    assert (table.leaving[row], table.late[row], table.since[row]) == (False, True, 2.0**40)
    assert (table.check(state.nodes.size), state.check()) == ([], [])


@pytest.mark.parametrize(
    ("seconds", "grace", "share"),
    [
        pytest.param(LIMIT, 600, 0, id="what ends within the limit is given back already"),
        pytest.param(TEN_YEARS, TEN_YEARS, 1, id="what ends in ten years is used"),
    ],
)
def test_what_ends_later_counts_in_fair_shares(seconds: float, grace: int, share: int) -> None:
    state = ClusterState()
    state.put_node(NODE.obj())
    quota = make_quota("a/quota").min(cpu="0").obj()
    state.put_quota(quota)
    state.put_quota(make_quota("b/quota").min(cpu="1").obj())
    ends = make_pod("a/p").uid("p").requests(cpu="1").on("n").deleting(NOW + seconds)
    ends.meta["deletionGracePeriodSeconds"] = grace
    state.put_pod(ends.obj(), NOW)
    assert share_of(state.ledger, quota) == share
