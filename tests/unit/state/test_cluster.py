"""What a change of an object means to the scheduler: which events come of it, and what counts afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from scheduler_core.model.names import QUOTA_GROUP_LABEL
from scheduler_core.model.namespace import Namespace
from scheduler_core.model.quotas.quota_group import parse_quota_group
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.events import ClusterEvent, EventKind
from tests.support.builders import NodeBuilder, PodBuilder, make_group, make_node, make_pod, make_quota
from tests.support.load_builders import make_metric
from tests.support.storage_builders import make_claim

GOING = EventKind.POD_UPDATE | EventKind.POD_LEAVING
RESIZED = EventKind.POD_UPDATE | EventKind.POD_DELETE
MOVED = [EventKind.POD_DELETE, EventKind.POD_ADD]


def node(name: str = "n") -> NodeBuilder:
    return make_node(name).allocatable(cpu=4)


def pod(uid: str = "p") -> PodBuilder:
    return make_pod(f"a/{uid}").uid(uid).requests(cpu=1)


def kinds(events: list[ClusterEvent]) -> list[EventKind]:
    return [event.what for event in events]


def state_of(*pods: PodBuilder) -> ClusterState:
    state = ClusterState()
    state.put_node(node().obj())
    for item in pods:
        state.put_pod(item.obj())
    return state


# Pods

HISTORIES: list[tuple[str, list[PodBuilder], PodBuilder, list[EventKind]]] = [
    ("a pod that waits helps nobody", [], pod(), []),
    ("a pod comes to a node", [], pod().on("n"), [EventKind.POD_ADD]),
    ("a waiting pod is bound by somebody", [pod()], pod().on("n"), [EventKind.POD_ADD]),
    ("nothing changes", [pod().on("n")], pod().on("n"), []),
    ("labels change", [pod().on("n")], pod().labels(app="x").on("n"), [EventKind.POD_UPDATE]),
    ("it begins to go", [pod().on("n")], pod().deleting(1.0).on("n"), [GOING]),
    ("it goes on going", [pod().deleting(1.0).on("n")], pod().deleting(1.0).on("n"), []),
    ("it is smaller", [pod().requests(cpu=2).on("n")], pod().on("n"), [RESIZED]),
    ("it is larger", [pod().on("n")], pod().requests(cpu=2).on("n"), [RESIZED, EventKind.POD_ADD]),
    (
        "it is found on another node",
        [pod().on("n")],
        pod().on("m"),
        [EventKind.POD_DELETE, EventKind.POD_ADD],
    ),
    ("it ends", [pod().on("n")], pod().on("n", "Succeeded"), [EventKind.POD_DELETE]),
    ("it ends and nobody knew it", [], pod().on("n", "Failed"), []),
    ("one without a node goes", [pod()], pod().deleting(1.0), [EventKind.OTHER]),
    ("one without a node goes on going", [pod().deleting(1.0)], pod().deleting(1.0), []),
    ("one without a node ends", [pod()], pod().status(phase="Succeeded"), []),
    ("a member ends", [pod().group("g")], pod().group("g").status(phase="Succeeded"), [EventKind.GROUP]),
    ("a member has ended", [], pod().group("g").status(phase="Succeeded"), [EventKind.GROUP]),
    (
        "it is told again",
        [pod().group("g").status(phase="Failed")],
        pod().group("g").status(phase="Failed"),
        [],
    ),
]


@pytest.mark.parametrize(
    ("before", "then", "expected"), [h[1:] for h in HISTORIES], ids=[h[0] for h in HISTORIES]
)
def test_events_of_a_pod(before: list[PodBuilder], then: PodBuilder, expected: list[EventKind]) -> None:
    state = state_of(*before)
    events = state.put_pod(then.obj())
    assert kinds(events) == expected
    # What it held no more is told of the pod as it was counted.
    current = [event for event in events if event.what is not EventKind.POD_DELETE]
    assert all(event.pod is state.pods["p"] for event in current)
    assert state.check() == []


REMOVED: list[tuple[str, PodBuilder | None, list[EventKind]]] = [
    ("one that is not known", None, []),
    ("one that waits", pod(), [EventKind.OTHER]),
    ("one that waits for a node that is kept for it", pod().nominated("n"), [EventKind.OTHER]),
    ("one with a node", pod().on("n"), [EventKind.POD_DELETE]),
]


@pytest.mark.parametrize(("known", "expected"), [r[1:] for r in REMOVED], ids=[r[0] for r in REMOVED])
def test_events_of_a_pod_that_is_gone(known: PodBuilder | None, expected: list[EventKind]) -> None:
    state = state_of(*([known] if known else []))
    events = state.remove_pod("p")
    assert kinds(events) == expected
    assert all(event.pod is not None for event in events)
    assert (len(state.pods), len(state.placed), len(state.nominations)) == (0, 0, 0)


def test_an_assumed_pod_counts_at_once_and_until_it_is_forgotten() -> None:
    state = state_of(pod())
    state.assume(state.pods["p"], 0, 7.0)
    assert (state.placed["p"].assumed, state.placed["p"].learned) == (True, 7.0)
    assert (state.ledger.used("a")["cpu"], int(state.nodes.requested[0, 0])) == (1000, 1000)
    assert kinds(state.forget("p")) == [EventKind.POD_DELETE]
    assert kinds(state.forget("p")) == [], "once"
    assert (state.ledger.used("a")["cpu"], state.check()) == (0, [])


def test_an_assumption_outlives_older_forms_of_the_pod_and_ends_with_its_confirmation() -> None:
    state = state_of(pod())
    state.assume(state.pods["p"], 0, 7.0)
    assert state.put_pod(pod().labels(new="1").obj()) == []
    assert state.placed["p"].assumed
    assert state.placed["p"].pod.labels == {"new": "1"}
    assert kinds(state.put_pod(pod().labels(new="1").on("n").obj())) == []
    assert not state.placed["p"].assumed
    assert state.forget("p") == [], "what the API confirmed is no assumption any more"
    assert state.check() == []


@pytest.mark.parametrize(
    ("api", "left"),
    [
        pytest.param(pod().on("m"), {"p": "m"}, id="somebody else bound it elsewhere"),
        pytest.param(pod().status(phase="Failed"), {}, id="it failed before it was bound"),
    ],
)
def test_the_api_is_believed_against_an_assumption(api: PodBuilder, left: dict[str, str]) -> None:
    state = state_of(pod())
    state.nominations.put(state.pods["p"], "n", state.vector(state.pods["p"]))
    state.assume(state.pods["p"], 0, 7.0)
    state.put_pod(api.obj())
    assert len(state.nominations) == 0, "it waits for no node any more"
    assert {uid: state.nodes.names[item.slot] for uid, item in state.placed.items()} == left
    assert not any(item.assumed for item in state.placed.values())
    assert state.check() == []


def test_when_a_pod_was_learned_is_kept_while_it_is_resized() -> None:
    state = state_of()
    state.put_pod(pod().created(3.0).on("n").obj(), 9.0)
    assert state.placed["p"].learned == 9.0
    state.put_pod(pod().created(3.0).requests(cpu=3).on("n").obj(), 12.0)
    assert (state.placed["p"].learned, int(state.nodes.requested[0, 0])) == (9.0, 3000)
    state.put_pod(pod("old").created(3.0).on("n").obj())
    assert state.placed["old"].learned == 3.0


# What is kept for a pod


def test_the_api_says_what_is_kept_only_where_we_do_not_know_better() -> None:
    state = state_of(pod().nominated("n"))
    assert state.nominations.node_of("p") == "n"
    state.nominations.put(state.pods["p"], "m", state.vector(state.pods["p"]), frozenset({"victim"}))
    state.put_pod(pod().nominated("n").requests(cpu=2).obj())
    known = state.nominations.get("p")
    assert known is not None
    assert (known.node, known.victims, int(known.vector[0])) == ("m", {"victim"}, 2000)
    state.put_pod(pod().requests(cpu=2).obj())
    assert state.nominations.node_of("p") == "m"


def test_nothing_is_kept_for_a_pod_that_names_no_node() -> None:
    assert len(state_of(pod()).nominations) == 0


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        (pod().on("n"), [EventKind.POD_ADD]),
        (pod().status(phase="Failed"), []),
        (pod().deleting(1.0), [EventKind.OTHER]),
    ],
    ids=["bound", "failed", "deleted"],
)
def test_a_nomination_ends_with_the_wait(then: PodBuilder, expected: list[EventKind]) -> None:
    state = state_of(pod().nominated("n"))
    events = state.put_pod(then.obj())
    assert kinds(events) == expected
    assert (len(state.nominations), state.nominations.freed) == (0, True)


def test_a_nomination_does_not_count_beside_the_pod_itself() -> None:
    state = state_of(pod().nominated("n"))
    state.assume(state.pods["p"], 0, 7.0)
    assert (state.nominations.counts("p"), state.nominations.node_of("p")) == (False, "n")
    state.forget("p")
    assert state.nominations.counts("p"), "the binding failed: it waits for its node again"
    state.assume(state.pods["p"], 0, 7.0)
    state.put_pod(pod().nominated("n").on("n").obj())
    assert len(state.nominations) == 0


# Who is on the way out


def test_a_condemned_pod_counts_until_it_is_gone_or_reprieved() -> None:
    state = state_of(pod().on("n"))
    state.put_quota(make_quota("a/q").min(cpu=0).obj())
    state.mark_leaving("p")
    assert (bool(state.table.leaving[0]), state.ledger.is_leaving("a", "p")) == (True, True)
    assert state.ledger.used("a")["cpu"] == 1000
    state.reprieve("p")
    assert (bool(state.table.leaving[0]), state.ledger.is_leaving("a", "p")) == (False, False)
    assert state.check() == []


def test_a_condemned_pod_stays_condemned_whatever_form_it_takes() -> None:
    state = state_of(pod().on("n"))
    state.mark_leaving("p")
    state.put_pod(pod().requests(cpu=2).on("n").obj())
    assert (bool(state.table.leaving[0]), state.ledger.is_leaving("a", "p")) == (True, True)
    assert kinds(state.put_pod(pod().requests(cpu=2).deleting(1.0).on("n").obj())) == [EventKind.POD_UPDATE]
    assert state.check() == []


def test_a_pod_that_names_another_group_is_an_event_of_groups() -> None:
    state = state_of(pod())
    key = make_group("a/g").obj().key
    anybody, own = (ClusterEvent(EventKind.GROUP, namespace="a", group=group) for group in ("", key))
    assert state.put_pod(pod().group("g").obj()) == [anybody, own]
    assert state.put_pod(pod().group("g").labels(a="b").obj()) == []
    assert kinds(state.put_pod(pod().group("h").on("n").obj())) == [EventKind.GROUP] * 3 + [EventKind.POD_ADD]
    assert kinds(state.put_pod(pod("q").group("g").obj())) == [], "a new pod is no change"


def test_a_terminating_pod_cannot_be_reprieved() -> None:
    state = state_of(pod().deleting(1.0).on("n"))
    state.reprieve("p")
    assert (bool(state.table.leaving[0]), state.ledger.is_leaving("a", "p")) == (True, True)


def test_a_pod_without_a_node_is_not_marked_as_leaving() -> None:
    state = state_of(pod())
    state.mark_leaving("p")
    state.reprieve("p")
    state.mark_leaving("stranger")
    assert state.check() == []
    assert not state.ledger.is_leaving("a", "p")


def test_a_pod_that_starts_to_go_while_its_binding_is_under_way_is_going() -> None:
    state = state_of(pod())
    state.assume(state.pods["p"], 0, 7.0)
    state.put_pod(pod().deleting(1.0).obj())
    assert state.ledger.is_leaving("a", "p")


# Nodes

CHANGES: list[tuple[str, Callable[[NodeBuilder], Any], EventKind | None]] = [
    ("nothing", lambda n: n, None),
    ("room", lambda n: n.allocatable(cpu=5), EventKind.NODE_ALLOCATABLE),
    ("a label", lambda n: n.labels(zone="a"), EventKind.NODE_LABELS),
    ("an annotation", lambda n: n.meta.update(annotations={"a": "b"}), EventKind.NODE_LABELS),
    ("a taint", lambda n: n.taint("t"), EventKind.NODE_TAINTS),
    ("a cordon", lambda n: n.unschedulable(), EventKind.NODE_TAINTS),
    (
        "several",
        lambda n: n.allocatable(cpu=5).taint("t"),
        EventKind.NODE_ALLOCATABLE | EventKind.NODE_TAINTS,
    ),
]


@pytest.mark.parametrize(("change", "expected"), [c[1:] for c in CHANGES], ids=[c[0] for c in CHANGES])
def test_events_of_a_node(change: Callable[[NodeBuilder], Any], expected: EventKind | None) -> None:
    state = ClusterState()
    old = node().obj()
    assert kinds(state.put_node(old)) == [EventKind.NODE_ADD]
    changed = node()
    change(changed)
    new = changed.obj()
    events = state.put_node(new)
    assert events == ([ClusterEvent(expected, node=new, old_node=old)] if expected else [])
    assert state.remove_node("n") == [ClusterEvent(EventKind.NODE_DELETE, old_node=new)]
    assert state.remove_node("n") == [ClusterEvent(EventKind.NODE_DELETE)]


def test_a_node_that_pods_are_on_already_is_new_when_it_comes() -> None:
    state = ClusterState()
    state.put_pod(pod().on("n").obj())
    came = [EventKind.NODE_ADD, EventKind.LOAN | EventKind.NOMINATION]
    assert kinds(state.put_node(node().obj())) == came, "now its pods can be evicted"
    state.remove_node("n")
    assert state.ledger.used("a")["cpu"] == 1000, "its pods count until they are gone too"
    assert kinds(state.put_node(node().obj())) == came
    assert int(state.nodes.requested[0, 0]) == 1000


# Other objects


def test_events_of_a_quota() -> None:
    state = ClusterState()
    quota = make_quota("a/q").min(cpu=1).max(cpu=2)
    changed = [ClusterEvent(EventKind.QUOTA, namespace="a")]
    assert state.put_quota(quota.obj()) == changed
    state.quota_dirty.clear()
    assert state.put_quota(quota.version("2").obj()) == [], "its status alone"
    assert state.quota_dirty == {"a"}
    assert state.put_quota(quota.max(cpu=3).obj()) == changed
    assert state.put_quota(quota.min(cpu=2).obj()) == changed
    state.quota_dirty.clear()
    assert state.remove_quota(quota.obj()) == changed
    assert (state.quota_dirty, state.objects["ElasticQuota"], state.ledger.quota_of("a")) == ({"a"}, {}, None)
    assert state.put_quota(quota.obj()) == changed, "one that is made anew is new"


JOINS: list[tuple[str, str, str, str | None]] = [
    ("it stays in its group", "g", "g", None),
    ("it joins a group", "", "g", ""),
    ("it leaves its group", "g", "", ""),
    ("it goes to another group", "g", "h", ""),
    ("it is in no group", "", "", None),
]


@pytest.mark.parametrize(("before", "after", "told"), [j[1:] for j in JOINS], ids=[j[0] for j in JOINS])
def test_a_quota_that_changes_its_group_concerns_every_namespace(
    before: str, after: str, told: str | None
) -> None:
    state = ClusterState()
    for name in ("g", "h"):
        meta = {"name": name, "uid": name, "resourceVersion": "1"}
        state.put_quota_group(parse_quota_group({"metadata": meta, "spec": {"min": {"cpu": "2"}}}))
    quota = make_quota("a/q").min(cpu=1)
    state.put_quota(quota.label(QUOTA_GROUP_LABEL, before).obj())
    events = state.put_quota(quota.version("2").label(QUOTA_GROUP_LABEL, after).obj())
    assert events == ([] if told is None else [ClusterEvent(EventKind.QUOTA, namespace=told)])


def test_quotas_whose_use_changes_are_written_again() -> None:
    state = state_of(pod().on("n"))
    assert state.quota_dirty == {"a"}
    state.quota_dirty.clear()
    state.put_pod(pod().labels(app="x").on("n").obj())
    assert state.quota_dirty == set()
    state.remove_pod("p")
    assert state.quota_dirty == {"a"}


def space(team: str) -> Namespace:
    return Namespace("a", "uid", "1", {"team": team}, {}, False)


def test_events_of_a_namespace() -> None:
    state = ClusterState()
    changed = [ClusterEvent(EventKind.OTHER, namespace="a")]
    assert state.put_namespace(space("x")) == changed
    assert state.put_namespace(space("x")) == []
    assert state.put_namespace(space("y")) == changed
    assert state.namespaces["a"].labels == {"team": "y"}
    assert state.remove_namespace("a") == []
    assert (state.remove_namespace("a"), state.namespaces) == ([], {})


def test_events_of_a_group() -> None:
    state = ClusterState()
    group = make_group("a/g").needs(2)
    changed = [ClusterEvent(EventKind.GROUP, namespace="a", group=group.obj().key)]
    assert state.put_gang(group.obj()) == changed
    assert state.put_gang(group.version("2").obj()) == []
    assert state.put_gang(group.needs(3).obj()) == changed
    assert state.remove_gang(group.obj()) == changed
    assert state.gangs.gangs == {}


def test_other_objects_are_kept_by_kind_and_handed_to_who_follows_them() -> None:
    state = ClusterState()
    claim, metric = make_claim("a/c").obj(), make_metric("n").obj()
    assert state.put_object(claim, EventKind.VOLUME) == [ClusterEvent(EventKind.VOLUME, obj=claim)]
    assert state.put_object(metric, EventKind.NODE_METRIC) == [
        ClusterEvent(EventKind.NODE_METRIC, obj=metric)
    ]
    assert state.objects == {"PersistentVolumeClaim": {"a/c": claim}, "NodeMetric": {"n": metric}}
    assert (state.storage.claims, state.load.metrics) == ({"a/c": claim}, {"n": metric})
    assert state.remove_object(claim, EventKind.VOLUME) == [ClusterEvent(EventKind.VOLUME)]
    assert state.remove_object(metric, EventKind.NODE_METRIC) == [ClusterEvent(EventKind.NODE_METRIC)]
    assert not any((*state.objects.values(), state.storage.claims, state.load.metrics))
    assert state.put_object(claim, EventKind.OTHER) == [ClusterEvent(EventKind.OTHER, obj=claim)]
    assert state.storage.claims == {}, "an object that nobody follows"


def test_any_change_of_a_node_is_one_of_three() -> None:
    assert (
        EventKind.node_update() == EventKind.NODE_ALLOCATABLE | EventKind.NODE_LABELS | EventKind.NODE_TAINTS
    )


# The checker

SABOTAGE: list[tuple[str, Callable[[ClusterState], Any], str]] = [
    ("a pod that is not charged", lambda s: s.ledger.refund("a", "p"), "is placed but not charged"),
    ("a pod that no node has", lambda s: s.nodes.pods[0].clear(), "is not on node n"),
    ("a row that is not alive", lambda s: s.table.alive.__setitem__(0, False), "has no row"),
    ("a row of another pod", lambda s: s.table.pods.__setitem__(0, None), "has no row"),
    ("a wrong slot", lambda s: s.table.slot.__setitem__(0, 3), "has the wrong slot"),
    (
        "a mark that only the table has",
        lambda s: s.table.leaving.__setitem__(0, True),
        "the ledger disagrees",
    ),
    ("a placement too many", lambda s: s.placed.pop("p"), "1 rows alive, 0 placements"),
    ("a node with a pod too many", lambda s: s.nodes.pods[0].update(q=pod("q").obj()), "2 pods on nodes"),
    ("room that is counted wrongly", lambda s: s.nodes.requested.__setitem__((0, 0), 5), "node n: requested"),
    (
        "defaults that are counted wrongly",
        lambda s: s.nodes.nonzero.__setitem__((1, 0), 5),
        "node n: nonzero",
    ),
    ("a quota that is counted wrongly", lambda s: s.ledger.total_used.update(cpu=1), "total used is"),
    (
        "kept room that is counted wrongly",
        lambda s: s.nominations.room([]).__setitem__((0, 0), 5),
        "nominated",
    ),
    ("a priority that was not told", lambda s: s.table.priority.__setitem__(1, -9), "the grid's pods"),
]


@pytest.mark.parametrize(("harm", "words"), [s[1:] for s in SABOTAGE], ids=[s[0] for s in SABOTAGE])
def test_the_checker_finds(harm: Callable[[ClusterState], Any], words: str) -> None:
    state = state_of(pod().on("n"), pod("r").on("n"))
    if "rows" in words or "pods on" in words:
        state = state_of(pod().on("n"))
    assert state.check() == []
    harm(state)
    assert any(words in problem for problem in state.check()), state.check()
