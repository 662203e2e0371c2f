"""What the engine says of evictions, groups and topologies, word for word."""

from __future__ import annotations

import pytest

from scheduler_core.engine.messages import eviction_message, topology_notices, unschedulable_event
from scheduler_core.model.config_map import parse_config_map
from scheduler_core.model.gang import group_of
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.topology import TopologySettings
from tests.support.builders import make_group, make_node, make_pod, make_quota


def cluster() -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_quota(make_quota("a/q").min(cpu=2).obj())
    state.put_quota(make_quota("b/q").min(cpu=1, memory=5).obj())
    state.put_pod(make_pod("b/v").uid("v").requests(cpu=3, memory=9).on("n").obj())
    state.put_pod(make_pod("free/v").uid("f").on("n").obj())
    return state


def test_an_eviction_names_the_preemptor_its_quota_and_what_is_borrowed() -> None:
    state, preemptor = cluster(), make_pod("a/p").priority(7).obj()
    assert eviction_message(state, preemptor, state.pods["v"], "n") == (
        "preempted by a/p (priority 7) for node n, which reclaims the min of ElasticQuota a/q; "
        "ElasticQuota b/q borrows cpu=2, memory=4"
    )
    own = make_pod("b/p").obj()
    assert eviction_message(state, own, state.pods["v"], "n") == (
        "preempted by b/p (priority 0) for node n, under ElasticQuota b/q"
    )
    free = make_pod("free/p").obj()
    assert (
        eviction_message(state, free, state.pods["f"], "n") == "preempted by free/p (priority 0) for node n"
    )
    assert eviction_message(state, preemptor, state.pods["f"], "n").endswith("for node n")


def test_who_goes_for_a_whole_gang_is_told_of_the_gang_and_a_new_process_reads_it() -> None:
    state, member = cluster(), make_pod("free/p").group("g").priority(3).obj()
    message = eviction_message(state, member, state.pods["f"], "n", group=group_of(member))
    assert message == "preempted by free/p of PodGroup free/g (priority 3) for node n"
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": message,
    }
    victim = make_pod("free/v").on("n").deleting(1.0).status(conditions=[condition]).obj()
    assert victim.preemptors == ["free/p", "PodGroup free/g"]
    alone = {**condition, "message": eviction_message(state, member, state.pods["f"], "n")}
    assert make_pod("free/v").deleting(1.0).status(conditions=[alone]).obj().preemptors == ["free/p"]
    assert make_pod("free/v").deleting(1.0).obj().preemptors == []


@pytest.mark.parametrize(("own", "told"), [("5", 5), ("0", 0), (None, 3)])
def test_who_goes_for_a_group_with_a_priority_of_its_own_is_told_that(own: str | None, told: int) -> None:
    state = cluster()
    data = {"name": "g", "size": "1"} | ({"priority": own} if own is not None else {})
    meta = {"name": "c", "namespace": "free", "uid": "c", "labels": {"sakkara.group": ""}}
    for gang in state.config_maps.put(parse_config_map({"metadata": meta, "data": data})).come:
        state.put_gang(gang)
    member = make_pod("free/p").label("sakkara.group.name", "g").priority(3).obj()
    message = eviction_message(state, member, state.pods["f"], "n", group=group_of(member))
    assert message == f"preempted by free/p of group ConfigMap free/g (priority {told}) for node n"


def test_an_event_on_a_group_names_its_own_kind() -> None:
    gang = make_group("a/g").uid("u").needs(2).obj()
    event = unschedulable_event(gang, "muster-scheduler", "too few")
    assert (event.api_version, event.kind) == ("incubator.scheduling.k8s.io/v1alpha1", "PodGroup")
    assert (event.namespace, event.name, event.uid, event.reason) == ("a", "g", "u", "Unschedulable")
    assert (event.profile, event.message) == ("muster-scheduler", "too few")


def test_a_faulty_topology_is_told_by_every_profile_that_reads_it_and_once() -> None:
    state = cluster()
    for name, namespace in (("s", "default"), ("t", "default"), ("u", "elsewhere")):
        state.topology.settings[name] = TopologySettings(namespace)
    meta = {"name": "t", "namespace": "default", "uid": "t", "labels": {"sakkara.topology": ""}}
    state.config_maps.put(parse_config_map({"metadata": meta, "data": {"level-names": "["}}))
    notices = topology_notices(state)
    assert [(item.profile, item.reason, item.name) for item in notices] == [  # type: ignore[union-attr]
        ("s", "InvalidTopology", "t"),
        ("t", "InvalidTopology", "t"),
    ]
    assert topology_notices(state) == []


def test_an_eviction_says_that_the_victims_quota_is_above_its_max() -> None:
    state, preemptor = cluster(), make_pod("a/p").priority(7).obj()
    state.put_quota(make_quota("b/q").min(cpu=1).max(cpu=2).obj())
    assert eviction_message(state, preemptor, state.pods["v"], "n").endswith(
        "ElasticQuota b/q borrows cpu=2 and uses cpu=3 of max=2"
    )
