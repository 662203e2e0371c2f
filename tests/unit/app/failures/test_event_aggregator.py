"""Who has events of its own, and what is told of the others, on which object."""

from __future__ import annotations

import pytest

from scheduler_core.app.failures.event_aggregator import (
    FIRST_SECONDS,
    MAX_OWN_EVENTS,
    REPEAT_SECONDS,
    AggregatedEvent,
    EventAggregator,
    aggregation_object,
)
from scheduler_core.app.failures.rejections import PodRejection
from scheduler_core.kube.writes.correlator import ObjectReference
from scheduler_core.model.pods.pod import Pod
from scheduler_core.state.cluster import ClusterState
from tests.support.builders import PodBuilder, make_group, make_pod, make_quota
from tests.support.kept import entries

QUOTA = ObjectReference("scheduling.x-k8s.io/v1alpha1", "ElasticQuota", "a", "quota", "q")
WHY = "used cpu=6 + requested 1 exceeds max=6"


def built(name: str, owner: str = "") -> PodBuilder:
    made = make_pod(f"a/{name}").uid(name)
    if owner:
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": owner, "controller": True}
        made.meta["ownerReferences"] = [reference]
    return made


def owned(name: str, owner: str = "") -> Pod:
    return built(name, owner).obj()


class Rig:
    def __init__(self, home: ObjectReference | None = QUOTA) -> None:
        self.pods: dict[str, Pod] = {}
        self.aggregator = EventAggregator(lambda pod: home, self.pods.get)

    def add(self, pod: Pod, now: float, message: str = WHY) -> bool:
        self.pods[pod.uid] = pod
        return self.aggregator.add(
            pod, PodRejection("Unschedulable", message), "FailedScheduling", "own", now
        )

    def add_pods(self, count: int, now: float = 0.0, message: str = WHY, first: int = 0) -> int:
        """How many of so many pods have events of their own."""
        return sum(self.add(owned(f"p{number}"), now, message) for number in range(first, first + count))

    def notes(self, now: float) -> list[str]:
        return [summary.note for summary in self.aggregator.due(now)]


def test_the_first_few_have_events_of_their_own_and_keep_them() -> None:
    rig = Rig()
    assert rig.add_pods(100) == MAX_OWN_EVENTS
    assert [rig.add(owned(f"p{number}"), 1.0) for number in range(MAX_OWN_EVENTS + 1)] == [
        True
    ] * MAX_OWN_EVENTS + [False]


def test_the_few_of_each_controller() -> None:
    rig = Rig()
    told = [rig.add(owned(f"{job}-{number}", job), 0.0) for job in ("x", "y") for number in range(50)]
    assert sum(told) == 2 * MAX_OWN_EVENTS
    assert rig.notes(FIRST_SECONDS) == [f"100 pods wait: {WHY}"]


def test_few_pods_get_no_summary_event() -> None:
    rig = Rig()
    rig.add_pods(MAX_OWN_EVENTS)
    assert rig.aggregator.next_time() is None
    assert rig.notes(FIRST_SECONDS) == []


def test_messages_that_differ_only_in_figures_share_one_summary_event() -> None:
    rig = Rig()
    assert rig.add_pods(MAX_OWN_EVENTS, message="used cpu=6") == MAX_OWN_EVENTS
    assert rig.add_pods(MAX_OWN_EVENTS, message="used cpu=7", first=MAX_OWN_EVENTS) == 0
    assert rig.add_pods(2 * MAX_OWN_EVENTS, message="no node", first=100) == MAX_OWN_EVENTS
    assert rig.add_pods(1, message="no volume", first=200) == 1
    assert rig.notes(FIRST_SECONDS) == [
        f"{2 * MAX_OWN_EVENTS} pods wait: used cpu=7; {2 * MAX_OWN_EVENTS} pods wait: no node"
    ]


def test_the_count_is_told_again_when_it_changed_and_not_at_once() -> None:
    rig = Rig()
    rig.add_pods(20)
    assert rig.notes(FIRST_SECONDS) == [f"20 pods wait: {WHY}"]
    rig.add_pods(20, 3.0)
    assert rig.notes(1000.0) == [], "the same ones"
    rig.add_pods(10, 1000.0, first=20)
    assert rig.notes(1000.0 + FIRST_SECONDS) == [f"30 pods wait: {WHY}"]
    rig.add_pods(10, 1003.0, first=30)
    assert rig.notes(1003.0 + FIRST_SECONDS) == []
    assert rig.notes(1002.0 + REPEAT_SECONDS) == [f"40 pods wait: {WHY}"]


def test_those_who_wait_no_more_are_not_counted() -> None:
    rig = Rig()
    rig.add_pods(100)
    for number in range(30):
        del rig.pods[f"p{number}"]
    assert rig.notes(FIRST_SECONDS) == [f"70 pods wait: {WHY}"]


def test_a_pod_with_a_new_reason_is_counted_with_that_reason() -> None:
    rig = Rig()
    rig.add_pods(30)
    rig.add_pods(15, message="no node")
    assert rig.notes(FIRST_SECONDS) == [f"15 pods wait: {WHY}; 15 pods wait: no node"]


def test_pods_that_wait_one_after_the_other_get_no_summary_event() -> None:
    rig = Rig()
    for number in range(200):
        assert rig.add(owned(f"p{number}"), float(2 * number))
        del rig.pods[f"p{number}"]
    assert len(rig.aggregator) <= MAX_OWN_EVENTS + 1


def test_what_is_gone_is_forgotten() -> None:
    rig = Rig()
    rig.add_pods(5000)
    rig.pods.clear()
    for second in range(200):
        rig.aggregator.due(float(second))
    assert (len(rig.aggregator), entries(rig.aggregator), rig.aggregator.next_time()) == (0, 0, None)


def test_pods_that_stand_alone_are_told_of_on_one_of_them() -> None:
    rig = Rig(home=None)
    rig.add_pods(20)
    (summary,) = rig.aggregator.due(FIRST_SECONDS)
    assert summary.regarding.kind == "Pod"
    assert summary.regarding.name in rig.pods
    assert summary[1:] == ("FailedScheduling", "own", f"20 pods wait: {WHY}")


def test_each_object_has_its_own_summary() -> None:
    homes = [ObjectReference("v1", "X", "a", str(number), str(number)) for number in range(3)]
    pods: dict[str, Pod] = {}
    aggregator = EventAggregator(lambda pod: homes[int(pod.name) % 3], pods.get)
    for number in range(90):
        pods[str(number)] = owned(str(number))
        aggregator.add(pods[str(number)], PodRejection("Unschedulable", WHY), "FailedScheduling", "own", 0.0)
    assert aggregator.due(FIRST_SECONDS) == [
        AggregatedEvent(home, "FailedScheduling", "own", f"30 pods wait: {WHY}") for home in homes
    ]


@pytest.mark.parametrize(
    ("quota", "group", "owner", "kind"),
    [
        pytest.param(True, True, "job", "PodGroup", id="its group"),
        pytest.param(True, False, "job", "ElasticQuota", id="the quota of its namespace"),
        pytest.param(False, False, "job", "Job", id="its controller"),
        pytest.param(False, False, "", "", id="it stands alone"),
    ],
)
def test_where_many_are_told_of(quota: bool, group: bool, owner: str, kind: str) -> None:
    state = ClusterState()
    pod = built("p", owner)
    if quota:
        state.put_quota(make_quota("a/quota").uid("q").max(cpu=6).obj())
    if group:
        state.put_gang(make_group("a/g").uid("g").needs(2).obj())
        pod.group("g")
    home = aggregation_object(state, pod.obj())
    assert (home.kind if home else "") == kind
