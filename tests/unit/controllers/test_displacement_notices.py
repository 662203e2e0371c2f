"""Who is told about a preemption, how often, and what outlives a restart."""

from __future__ import annotations

from typing import Any

from scheduler_core.controllers.displacement_notices import DisplacementNotices
from scheduler_core.controllers.gang_status import GangStatusController
from scheduler_core.controllers.quota_status import QuotaStatus
from scheduler_core.model.quotas.elastic_quota import ElasticQuota, parse_elastic_quota
from scheduler_core.model.writes import Create, Patch, Write
from scheduler_core.state.cluster import ClusterState
from scheduler_core.state.displacements import Displacement
from tests.support.builders import make_group, make_node, make_pod

JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "job", "uid": "j1", "controller": True}
TEXT = "preempted by b/king (priority 0), which reclaims the min of ElasticQuota b/q"


def quota(status: dict[str, Any] | None = None) -> ElasticQuota:
    raw = {
        "metadata": {"name": "q", "namespace": "a", "uid": "q1", "resourceVersion": "4"},
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": "9"}},
        "status": status or {},
    }
    return parse_elastic_quota(raw)


def cluster(own: ElasticQuota) -> ClusterState:
    state = ClusterState()
    state.put_node(make_node("n").allocatable(cpu=9).obj())
    state.put_quota(own)
    state.put_gang(make_group("a/g").needs(2).uid("g1").version("7").obj())
    return state


def displaced(state: ClusterState, number: int, own: ElasticQuota | None) -> None:
    pods = []
    for i in range(number):
        made = make_pod(f"a/p{i}").uid(f"p{i}").group("g").requests(cpu=1, gpu=1)
        made.meta["ownerReferences"] = [JOB]
        pods.append(made.obj())
        state.put_pod(pods[-1], 0.0)
    found = Displacement(tuple(pods), "PodGroup b/king", TEXT, own, "b/q", {"a/g PodGroup": number})
    state.displacements.pending.append(found)


def events(writes: list[Write]) -> dict[str, str]:
    found = {}
    for write in writes:
        assert isinstance(write, Create)
        about = write.body["regarding"]
        found[f"{write.body['reason']} {about['kind']}/{about['name']}"] = str(write.body["note"])
    return found


def status_patch(writes: list[Write]) -> dict[str, Any]:
    (patch,) = [write for write in writes if isinstance(write, Patch)]
    assert isinstance(patch.body, dict)
    status: dict[str, Any] = patch.body["status"]
    return status


def test_one_event_each_however_many_pods() -> None:
    own = quota()
    state, notices = cluster(own), DisplacementNotices()
    displaced(state, 7, own)
    assert notices.next_time(state) == 0.0
    assert events(notices.reconcile(state, 60.0)) == {
        "Reclaimed PodGroup/g": f"7 of its 7 pods were {TEXT}",
        "Reclaimed Job/job": f"7 pods (p0, p1, p2, p3, p4 and 2 more) were {TEXT}",
        "Reclaimed ElasticQuota/q": f"7 pods (p0, p1, p2, p3, p4 and 2 more) with cpu=7 were {TEXT}",
    }
    assert notices.next_time(state) is None
    assert notices.reconcile(state, 61.0) == []


def test_without_a_quota_nothing_was_reclaimed() -> None:
    state = cluster(quota())
    displaced(state, 1, None)
    found = events(DisplacementNotices().reconcile(state, 60.0))
    assert found.keys() == {"Preempted PodGroup/g", "Preempted Job/job"}
    assert state.displacements.reclaims == {}


def test_the_quota_says_who_took_how_much_and_says_it_once() -> None:
    own = quota({"lastReclaim": {"time": "2020-01-01T00:00:00Z", "resources": {"memory": "1Gi"}}})
    state, controller = cluster(own), QuotaStatus(min_interval=0.0)
    displaced(state, 2, own)
    DisplacementNotices().reconcile(state, 60.0)
    status = status_patch(controller.reconcile(state, 60.0))
    assert status["lastReclaim"] == {
        "time": "1970-01-01T00:01:00Z",
        "byQuota": "b/q",
        "by": "PodGroup b/king",
        "resources": {"cpu": "2", "memory": None},
        "pods": 2,
    }
    del status["lastReclaim"]["resources"]["memory"]
    state.put_quota(quota(status))
    assert controller.reconcile(state, 70.0) == []
    assert state.displacements.reclaims == {}


def test_a_new_quota_does_not_say_what_the_one_before_it_gave_back() -> None:
    own = quota()
    state = cluster(own)
    displaced(state, 1, own)
    DisplacementNotices().reconcile(state, 60.0)
    state.remove_quota(own)
    state.put_quota(quota())
    assert "lastReclaim" not in status_patch(QuotaStatus(min_interval=0.0).reconcile(state, 61.0))


def test_a_new_process_keeps_what_the_quota_says() -> None:
    told = {"time": "2020-01-01T00:00:00Z", "byQuota": "b/q", "by": "Pod b/k", "resources": {"cpu": "x"}}
    state = cluster(quota({"lastReclaim": told}))
    status = status_patch(QuotaStatus().reconcile(state, 60.0))
    assert "lastReclaim" not in status


def test_the_condition_of_a_group_outlives_a_restart() -> None:
    own = quota()
    state = cluster(own)
    displaced(state, 2, own)
    DisplacementNotices().reconcile(state, 60.0)
    conditions = status_patch(GangStatusController().reconcile(state, 60.0))["conditions"]
    (target,) = [item for item in conditions if item["type"] == "DisruptionTarget"]
    assert target == {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "PreemptionByScheduler",
        "message": f"2 of its 2 pods were {TEXT}, at 1970-01-01T00:01:00Z",
        "lastTransitionTime": "1970-01-01T00:01:00Z",
    }
    again = cluster(own)
    group = make_group("a/g").needs(2).uid("g1").version("8")
    group.raw["status"] = {"conditions": [target]}
    again.put_gang(group.obj())
    conditions = status_patch(GangStatusController().reconcile(again, 90.0))["conditions"]
    assert target in conditions
